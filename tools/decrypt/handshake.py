"""One DTLS connection as an onlooker with its secrets sees it (RFC 9147, RFC 6347).

    datagram of a side ─▶ Intake (records, replay window) ─▶ messages ─▶ hellos: whose, which suite
                            ▲ keys of epochs 1, 2, 3, 4 …  ◀─ key log ◀────┘
                            └─▶ Opened(content type, epoch, sequence, content)

Records, epochs, key schedules and messages are those of `warp.dtls`; what is done here that an
endpoint never does: both directions are read, messages are taken out of order (a capture may lack
some), and the keys of a next epoch are laid out before anyone has asked for them. Called by
`session`, which knows addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from warp.dtls import DtlsConfig, DtlsDiscard, DtlsRole, DtlsVersion
from warp.dtls.context import Context
from warp.dtls.epochs import EpochTable
from warp.dtls.extensions import ExtensionType, decode_use_srtp
from warp.dtls.faults import HandshakeFault
from warp.dtls.hello import decode_client_hello, decode_server_hello
from warp.dtls.intake import Intake, Record
from warp.dtls.messages import HandshakeType, decode_encrypted_extensions
from warp.dtls.reassembly import HandshakeMessage, Reassembler, split_fragments
from warp.dtls.records import HANDSHAKE
from warp.dtls.schedule12 import Exporter12, Schedule12
from warp.dtls.schedule13 import Exporter13, Schedule13
from warp.dtls.suites import SUITES12, SUITES13
from warp.errors import Discard
from warp_tools.decrypt.keylog import (
    CLIENT_HANDSHAKE,
    CLIENT_TRAFFIC,
    EXPORTER,
    MASTER,
    SERVER_HANDSHAKE,
    SERVER_TRAFFIC,
    Secrets,
)

ROLES: Final = (DtlsRole.CLIENT, DtlsRole.SERVER)
HANDSHAKE_EPOCH: Final = 2
FIRST_DATA_EPOCH: Final = 3
MAX_MESSAGES: Final = 64
"""Handshake messages of one side that are put together; nobody sends half as many."""
_MAX_FRAGMENTS: Final = 64
_HANDSHAKE_LABEL: Final = {DtlsRole.CLIENT: CLIENT_HANDSHAKE, DtlsRole.SERVER: SERVER_HANDSHAKE}
_TRAFFIC_LABEL: Final = {DtlsRole.CLIENT: CLIENT_TRAFFIC, DtlsRole.SERVER: SERVER_TRAFFIC}
_EPOCHS: Final = {
    DtlsVersion.DTLS12: (1,),
    DtlsVersion.DTLS13: (HANDSHAKE_EPOCH, FIRST_DATA_EPOCH),
}
_CONFIG: Final = DtlsConfig()

FindSecrets = Callable[[bytes], Secrets | None]


class Opened(NamedTuple):
    """One record in the clear. `sequence` counts within its epoch."""

    role: DtlsRole
    content_type: int
    epoch: int
    sequence: int
    content: bytes


class NoKeys:
    """In the place of keys that the key log lacks: nothing opens, and nothing waits for them."""

    __slots__ = ("epoch", "failures")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.failures = 0

    def open(self, data: bytes, start: int, end: int) -> tuple[int, int, bytes]:
        """Open nothing."""
        raise Discard(DtlsDiscard.DECRYPTION)


class Side:
    """What one side has sent."""

    __slots__ = ("context", "epochs", "intake", "messages", "opened", "retried", "secret")

    def __init__(self, role: DtlsRole) -> None:
        self.context = Context(role, _CONFIG, None)
        self.epochs = EpochTable()
        self.intake = Intake(self.context, self.epochs)
        self.messages: dict[int, Reassembler | None] = {}
        """By message_seq; None once the message is whole."""
        self.secret = b""
        self.opened = 0
        self.retried = 0

    @property
    def shut(self) -> int:
        """Protected records that could not be opened."""
        counts = self.context.discards
        held = counts[DtlsDiscard.HELD] - self.retried
        return held + sum(
            counts[reason]
            for reason in (
                DtlsDiscard.DECRYPTION,
                DtlsDiscard.BUFFER_FULL,
                DtlsDiscard.UNKNOWN_EPOCH,
            )
        )

    @property
    def repeated(self) -> int:
        """Records that came again."""
        return self.context.discards[DtlsDiscard.REPLAY]


class Handshake:
    """One connection: what its hellos say, and its records in the clear."""

    __slots__ = (
        "_find",
        "_fresh",
        "_schedule",
        "client_random",
        "exporter",
        "secrets",
        "server_random",
        "sides",
        "srtp_profile",
        "suite",
        "version",
    )

    def __init__(self, find: FindSecrets) -> None:
        self._find = find
        self._fresh = False
        self._schedule: Schedule13 | None = None
        self.client_random = b""
        self.server_random = b""
        self.suite: int | None = None
        self.version: DtlsVersion | None = None
        self.srtp_profile: int | None = None
        self.secrets: Secrets | None = None
        self.exporter: Exporter12 | Exporter13 | None = None
        self.sides = {role: Side(role) for role in ROLES}

    def receive(self, data: bytes, role: DtlsRole) -> list[Opened]:
        """Take in a datagram that `role` has sent; return what it held, and what it explained.

        Never raises: what is no DTLS, and what cannot be opened, is counted by the side.
        """
        opened = list(self._open(role, self.sides[role].intake.receive(data, 0.0)))
        return opened + self._release() if self._fresh else opened

    def _release(self) -> list[Opened]:
        """Return records that were held because their keys were not known yet."""
        self._fresh = False
        opened: list[Opened] = []
        for role, side in self.sides.items():
            held = side.context.discards[DtlsDiscard.HELD]
            records = side.intake.release(0.0)
            side.retried = held
            opened += self._open(role, iter(records))
        return opened

    def _open(self, role: DtlsRole, records: Iterator[Record]) -> Iterator[Opened]:
        side = self.sides[role]
        while True:
            try:
                record = next(records, None)
            except HandshakeFault:
                # an absurd record, under keys that fit: of no use to anybody
                side.context.discards[DtlsDiscard.DECRYPTION] += 1
                return
            if record is None:
                return
            if record.epoch:
                side.opened += 1
                self._look_ahead(side, record.epoch)
            if record.content_type == HANDSHAKE:
                self._receive_fragments(side, record)
            yield Opened(role, *record)

    @property
    def settled(self) -> bool:
        """Whether version and suite are known, and with them which keys there are."""
        return self.version is not None and self.suite is not None

    # -- keys ---------------------------------------------------------------------------------

    def adopt(self, client_random: bytes, secrets: Secrets, suite: int) -> None:
        """Use these secrets of a DTLS 1.3 connection whose hellos are not in the capture."""
        self.client_random, self.secrets, self.suite = client_random, secrets, suite
        self.version = DtlsVersion.DTLS13
        self._install()

    def adopt_exporter(self, client_random: bytes, secrets: Secrets, hash_name: str) -> None:
        """Use these secrets for media; which suite the records have is not known."""
        self.client_random, self.secrets = client_random, secrets
        self.exporter = Exporter13(secrets[EXPORTER], hash_name)

    def _install(self) -> None:
        """Lay out the keys once the hellos have said whose connection this is."""
        if self.version is None or self.suite is None or not self.client_random:
            return
        if self.secrets is None:
            self.secrets = self._find(self.client_random)
        self._fresh = True
        for side in self.sides.values():
            side.intake.version = self.version
            for epoch in _EPOCHS[self.version]:
                side.epochs.install_read(NoKeys(epoch))
        if self.secrets is None:
            return
        if self.version is DtlsVersion.DTLS12:
            self._install12(self.secrets)
        elif self.suite in SUITES13:
            self._install13(self.secrets, Schedule13(self.suite))

    def _install12(self, secrets: Secrets) -> None:
        master = secrets.get(MASTER)
        if master is None or self.suite is None:
            return
        parameters = SUITES12.get(self.suite)
        # the hash of the suites that are not ours, CBC with SHA-1 and SHA-256 (RFC 5246 section 5)
        hash_name = parameters.hash_name if parameters is not None else "sha256"
        self.exporter = Exporter12(master, self.client_random, self.server_random, hash_name)
        if parameters is None:
            return
        schedule = Schedule12(parameters, master, self.client_random, self.server_random)
        for role, side in self.sides.items():
            read, _ = schedule.record_keys(is_client=role is DtlsRole.SERVER)
            side.epochs.install_read(read)

    def _install13(self, secrets: Secrets, schedule: Schedule13) -> None:
        self._schedule = schedule
        for role, side in self.sides.items():
            handshake, traffic = (
                secrets.get(label) for label in (_HANDSHAKE_LABEL[role], _TRAFFIC_LABEL[role])
            )
            if handshake is not None:
                side.epochs.install_read(schedule.read_keys(HANDSHAKE_EPOCH, handshake))
            if traffic is not None:
                side.secret = traffic
                side.epochs.install_read(schedule.read_keys(FIRST_DATA_EPOCH, traffic))
                self._look_ahead(side, FIRST_DATA_EPOCH)
        exporter = secrets.get(EXPORTER)
        if exporter is not None:
            self.exporter = Exporter13(exporter, schedule.hash_name)

    def _look_ahead(self, side: Side, epoch: int) -> None:
        """Have the keys of the next epoch ready: the KeyUpdate may not be in the capture."""
        schedule = self._schedule
        if schedule is None or not side.secret or epoch < side.epochs.newest_read:
            return
        side.secret = schedule.next_secret(side.secret)
        side.epochs.install_read(schedule.read_keys(epoch + 1, side.secret))

    # -- messages -----------------------------------------------------------------------------

    def _receive_fragments(self, side: Side, record: Record) -> None:
        fragments, _ = split_fragments(record.content, record.epoch, _MAX_FRAGMENTS)
        for fragment in fragments:
            seq = fragment.message_seq
            if seq not in side.messages:
                if len(side.messages) >= MAX_MESSAGES:
                    return
                # each message by itself: one that the capture lacks must not hold up the others
                side.messages[seq] = fresh = Reassembler()
                fresh.next_seq = seq
            reassembler = side.messages[seq]
            if reassembler is None:
                continue
            try:
                reassembler.receive(fragment)
                message = reassembler.pop()
                if message is not None:
                    side.messages[seq] = None
                    self._receive_message(message)
            except HandshakeFault:
                side.messages[seq] = None

    def _receive_message(self, message: HandshakeMessage) -> None:
        kind, body = message.message_type, message.body
        if message.epoch == 0 and kind == HandshakeType.CLIENT_HELLO:
            self.client_random = self.client_random or decode_client_hello(body).random
            self._install()
        elif message.epoch == 0 and kind == HandshakeType.SERVER_HELLO:
            self._receive_server_hello(body)
        elif kind == HandshakeType.ENCRYPTED_EXTENSIONS:
            self._note_profile(decode_encrypted_extensions(body).get(ExtensionType.USE_SRTP))

    def _receive_server_hello(self, body: bytes) -> None:
        hello = decode_server_hello(body)
        if hello.is_retry_request or self.version is not None:
            return
        try:
            self.version = DtlsVersion(hello.selected_version())
        except ValueError:
            return
        self.suite, self.server_random = hello.suite, hello.random
        if self.version is DtlsVersion.DTLS12:
            self._note_profile(hello.extensions.get(ExtensionType.USE_SRTP))
        self._install()

    def _note_profile(self, body: bytes | None) -> None:
        if body is not None:
            profiles, _ = decode_use_srtp(body)
            self.srtp_profile = profiles[0]
