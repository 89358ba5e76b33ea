"""The desk that a handshake machine sits at: what it is handed, and what it may do.

Shared by DTLS 1.3 (RFC 9147) and DTLS 1.2 (RFC 6347). The connection feeds records to the
driver, the driver feeds whole messages, in order, to the machine, the machine works here.

    connection ─▶ HandshakeDriver.receive_record(record, now)           (module driver)
                    │ fragments ─▶ Reassembler ─▶ whole message, in message_seq order
                    ▼
                  awaiting.accept(message, now) ─▶ the next Awaiting, or itself to stay
                    │ handshake.begin_flight() · send_message() · finish_flight()
                    │ handshake.install_read() · install_write() · complete()
                    ▼
                  Flight ─▶ records ─▶ outgoing datagrams

How a machine is written
- One class for each awaited message (`class AwaitFinished(Awaiting)`). It names the message types
  that it accepts in `awaited`, and in `epoch` the epoch that they must come in. A
  message of another type is answered with unexpected_message by the driver (as long as 1.2 is
  not chosen, one in epoch 0 is dropped: anyone can forge it, and the real one can still come).
- `accept(message, now)` returns the state that waits for what comes next. When the handshake is
  done it returns the state that waits for post-handshake messages, which stays for ever.
- A fault is raised as `HandshakeFault` (see faults); `OctetsError` out of a codec means
  decode_error. Nothing is sent by hand after a fault: the connection sends the alert.
- A state holds what it needs in its own slots (secrets, key shares); what outlives the handshake
  goes to `handshake.outcome`.

How the hello stage hands over (module version): it parses the whole ClientHello or ServerHello,
chooses the version, calls `handshake.choose(version, suite)` and then
- `client12.accept_server_hello(handshake, offer, hello, message, now) -> Awaiting`
- `server12.accept_client_hello(handshake, hello, message, now) -> Awaiting`
(the same two names in client13 and server13). HelloVerifyRequest is dealt with by the hello
stage: a 1.2 machine only ever sees the ServerHello that counts. `offer` is `offer.ClientOffer`.
The message handed over has not been added to the transcript yet: the machine adds it.

Transcript
- `handshake.transcript.add_message(message)` for what was received, where the order of the RFC
  wants it; `send_message` adds what is sent. `.digest()` is the hash so far, `.raw()` in 1.2 the
  bytes that CertificateVerify signs. The form (TLS headers in 1.3, 12-byte headers in 1.2) is its
  business.

Flights
- `begin_flight()`: whatever was outstanding is acknowledged by what has just been received. (The
  driver does so by itself when a message of the peer's next flight is accepted.)
- `send_message(type, body, epoch)` queues; `send_change_cipher_spec()` queues the record of 1.2.
- `finish_flight(now, reply_expected=...)` seals it all into datagrams and, if a reply is expected,
  arms the retransmission timer. A final flight (1.2 server) passes False: it is resent only when
  the peer repeats itself.
  The keys of an epoch must be installed for writing before `finish_flight`.

Keys
- `install_write(keys)`, `install_read(keys)`; records that came too early for these keys are
  opened right after `accept` returns. ChangeCipherSpec is never shown to a machine: the epoch in
  the record header says the same, and a Finished must come in its epoch. So install the 1.2 read
  keys as soon as they can be computed.
- `log_secret(label, secret)` writes an SSLKEYLOGFILE line when a key log is configured.

Outcome
- `outcome`: version, suite, group, srtp_profile, exporter; set them as they become known and call
  `notify_negotiated(now)` when the first four are final. `accept_certificate(der)` checks the
  fingerprint when it is known (else later) and returns the PeerCertificate; `peer_proved()` after
  its CertificateVerify. `complete(now)` when both Finished are in place: certificate, entropy and
  transcript are gone after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, Protocol, TypeVar

from warp.crypto import Certificate, NamedGroup, PeerCertificate, read_certificate
from warp.dtls.acks import AckList
from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.context import Context, DtlsTimer
from warp.dtls.epochs import KEEP_OLD_KEYS_S, EpochTable
from warp.dtls.events import (
    EarlyWriteReady,
    HandshakeCompleted,
    Negotiated,
    PeerCertificateReceived,
)
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.flight import Flight
from warp.dtls.identity import PeerIdentity
from warp.dtls.intake import Intake
from warp.dtls.key_update import KeyUpdater
from warp.dtls.reassembly import HandshakeMessage
from warp.dtls.records import ALERT, WARNING, ReadKeys, WriteKeys
from warp.dtls.suites import SUITES, SUITES12, SUITES13, CipherSuite, DtlsVersion
from warp.dtls.transcript import Transcript
from warp.entropy import Entropy
from warp.errors import InternalError

__all__ = ["Awaiting", "Exporter", "Handshake", "HandshakeMessage", "KeyLog", "Outcome"]

_T = TypeVar("_T")
_TOO_EARLY: Final = "the handshake has not come so far"
_OVER: Final = "the handshake is over: what only it needs is forgotten"


class Awaiting:
    """A state of a handshake: what is waited for, and what to do when it is there."""

    __slots__ = ()

    awaited: ClassVar[tuple[int, ...]] = ()
    epoch: ClassVar[int | None] = 0
    """In which the awaited message must come; None stands for the newest that we can read."""

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the awaited message and return the next state. Raises HandshakeFault."""
        raise NotImplementedError


class Exporter(Protocol):
    """Derives keying material for other protocols (RFC 5705, RFC 8446 section 7.5)."""

    def export(self, label: bytes, length: int) -> bytes:
        """Return `length` bytes for `label`, without a context."""


class KeyLog:
    """Writes secrets as SSLKEYLOGFILE lines, for those who ask for it."""

    __slots__ = ("_write", "client_random", "wanted")

    def __init__(self, write: Callable[[str], object] | None) -> None:
        self._write: Final = write
        self.wanted: Final = write is not None
        self.client_random = b""

    def log(self, label: str, secret: bytes) -> None:
        """Write one line, if a key log is configured."""
        if self._write is not None:
            self._write(f"{label} {self.client_random.hex()} {secret.hex()}\n")


class Outcome:
    """What a handshake has agreed on; all that outlives it."""

    __slots__ = ("completed", "exporter", "group", "srtp_profile", "suite", "version")

    def __init__(self) -> None:
        self.version: DtlsVersion | None = None
        self.suite: CipherSuite | None = None
        self.group: NamedGroup | None = None
        self.srtp_profile: int | None = None
        self.exporter: Exporter | None = None
        self.completed = False


class Handshake:
    """The services of one connection to its handshake machine. See the module's text."""

    __slots__ = (
        "_certificate",
        "_entropy",
        "_transcript",
        "acks",
        "config",
        "context",
        "epochs",
        "flight",
        "fresh_keys",
        "identity",
        "intake",
        "key_log",
        "key_updater",
        "outcome",
        "role",
    )

    def __init__(
        self,
        context: Context,
        certificate: Certificate,
        entropy: Entropy,
        keylog: Callable[[str], object] | None,
    ) -> None:
        self.context: Final = context
        self.config: Final[DtlsConfig] = context.config
        self.role: Final[DtlsRole] = context.role
        self.epochs: Final = EpochTable()
        self.intake: Final = Intake(context, self.epochs)
        self.flight: Final = Flight(context, self.epochs)
        self.acks: Final = AckList()
        self.identity: Final = PeerIdentity()
        self.outcome: Final = Outcome()
        self.key_log: Final = KeyLog(keylog)
        self.key_updater: KeyUpdater | None = None  # DTLS 1.3, once the handshake is complete
        self._certificate: Certificate | None = certificate
        self._entropy: Entropy | None = entropy
        self._transcript: Transcript | None = Transcript()
        self.fresh_keys = False  # read keys have been installed: held records may open

    # what a machine reads -----------------------------------------------------------------------

    @property
    def certificate(self) -> Certificate:
        """Our own identity, for as long as the handshake lasts."""
        if self._certificate is None:
            raise InternalError(_OVER)
        return self._certificate

    @property
    def entropy(self) -> Entropy:
        """Where randoms and key shares come from, for as long as the handshake lasts."""
        if self._entropy is None:
            raise InternalError(_OVER)
        return self._entropy

    @property
    def transcript(self) -> Transcript:
        """The messages so far, for as long as the handshake lasts."""
        if self._transcript is None:
            raise InternalError(_OVER)
        return self._transcript

    # negotiation --------------------------------------------------------------------------------

    def choose(self, version: DtlsVersion, suite: int) -> None:
        """Fix version and suite: the transcript gets its form, the intake its record format."""
        self.outcome.version = version
        self.outcome.suite = SUITES[suite]
        self.intake.version = version
        parameters = (SUITES13 if version is DtlsVersion.DTLS13 else SUITES12)[suite]
        self.transcript.start(version, parameters.hash_name)

    def notify_negotiated(self, now: float) -> None:
        """Report version, suite, group and SRTP profile; fail when SRTP is needed and missing."""
        outcome = self.outcome
        if outcome.srtp_profile is None and self.config.require_srtp:
            raise misbehaved(Alert.HANDSHAKE_FAILURE, DtlsRule.SRTP_MISSING, "RFC 8827 section 6.5")
        version, suite, group = outcome.version, outcome.suite, outcome.group
        if version is None or suite is None or group is None:
            raise InternalError(_TOO_EARLY)
        self.context.events.append(Negotiated(version, suite, group, outcome.srtp_profile))
        if self.context.trace is not None:
            self.context.emit(
                now,
                "negotiated",
                {
                    "version": version.name,
                    "suite": suite.name,
                    "group": group.name,
                    "srtp_profile": outcome.srtp_profile,
                },
            )

    # flights ------------------------------------------------------------------------------------

    def begin_flight(self) -> None:
        """Start an answer: what was outstanding is acknowledged, and so is what we answer."""
        self.flight.begin()
        self.acks.clear()
        self.context.timers.cancel(DtlsTimer.ACK)

    def send_message(self, message_type: int, body: bytes, epoch: int) -> None:
        """Queue one message of the flight and add it to the transcript."""
        transcript = self._transcript
        if transcript is None:
            raise InternalError(_OVER)
        transcript.add(message_type, self.flight.add(message_type, body, epoch), body)

    def send_change_cipher_spec(self) -> None:
        """Queue DTLS 1.2's announcement of the epoch that follows."""
        self.flight.add_change_cipher_spec()

    def finish_flight(self, now: float, *, reply_expected: bool) -> None:
        """Seal the flight into datagrams and repeat it until answered, if an answer is due."""
        self.flight.send(now, reply_expected=reply_expected)

    def send_warning(self, alert: Alert) -> None:
        """Send an alert that ends nothing, under the newest keys."""
        body = bytes((WARNING, alert))
        self.context.outbox.other.append(self.epochs.newest_write.seal(ALERT, body))

    # keys ---------------------------------------------------------------------------------------

    def install_read(self, keys: ReadKeys) -> None:
        """Accept records under these keys; those that came too early are opened soon."""
        self.epochs.install_read(keys)
        self.fresh_keys = True

    def install_write(self, keys: WriteKeys) -> None:
        """Send under these keys from now on (data and ACKs; a flight says its epochs itself)."""
        self.epochs.install_write(keys)

    def forget_idle_write_keys(self) -> None:
        """Drop the write keys of epochs in which nothing is left to resend."""
        if not self.flight.outstanding:
            self.epochs.forget_write_below(self.epochs.newest_write.epoch)

    def forget_old_keys(self, now: float) -> None:
        """Drop what was kept in case the peer missed the end of the handshake or a KeyUpdate."""
        if self.key_updater is not None:
            self.key_updater.forget_old_keys(now)
        else:
            self.flight.stop()  # 1.2: nobody asks for a server's last flight any more

    def log_secret(self, label: str, secret: bytes) -> None:
        """Write a line of the key log, if there is one (labels of RFC 9850)."""
        if self.key_log.wanted:
            self.key_log.log(label, secret)

    # authentication and the end -----------------------------------------------------------------

    def accept_certificate(self, der: bytes) -> PeerCertificate:
        """Return the peer's certificate, checked against its fingerprint if that is known yet.

        Raises HandshakeFault: bad_certificate on a mismatch or a key that cannot be used.
        """
        try:
            certificate = read_certificate(der)
        except ValueError as error:
            raise misbehaved(
                Alert.BAD_CERTIFICATE, DtlsRule.BAD_CERTIFICATE, "RFC 8446 section 4.4.2.4"
            ) from error
        self.identity.show(der)
        return certificate

    def peer_proved(self) -> None:
        """Note that the peer has signed with the key of its certificate."""
        self.identity.proved = True
        self.context.events.append(PeerCertificateReceived(_present(self.identity.der)))

    def early_write_ready(self) -> None:
        """Report that a 1.3 server may write and export though its client is not known yet."""
        self.context.events.append(EarlyWriteReady())

    def complete(self, now: float) -> None:
        """Note that both Finished messages are in place, and let go of what only they needed."""
        self.outcome.completed = True
        context = self.context
        context.timers.cancel(DtlsTimer.DEADLINE)
        # old keys and a last flight stay: the peer may not have what would let it move on
        context.timers.arm(DtlsTimer.FORGET, now + KEEP_OLD_KEYS_S)
        context.events.append(HandshakeCompleted(_present(self.outcome.version)))
        context.emit(now, "handshake_completed", {})
        self._transcript = None
        self._certificate = None
        self._entropy = None


def _present(value: _T | None) -> _T:
    if value is None:
        raise InternalError(_TOO_EARLY)
    return value
