"""Two ends of a DTLS connection for the unit tests, without a network between them."""

from __future__ import annotations

from collections.abc import Callable

from warp.crypto import Certificate, NamedGroup
from warp.dtls import DtlsConfig, DtlsConnection, DtlsRole, DtlsState, DtlsVersion, Terminated
from warp.dtls.faults import Alert
from warp.dtls.handshake import Handshake
from warp.dtls.records import ALERT
from warp.entropy import SeededEntropy

CLIENT_CERTIFICATE = Certificate.generate(SeededEntropy("client"), 1.7e9)
SERVER_CERTIFICATE = Certificate.generate(SeededEntropy("server"), 1.7e9)
CURVE = {"groups": (NamedGroup.X25519,), "share_groups": (NamedGroup.X25519,)}
THIRTEEN = {"versions": (DtlsVersion.DTLS13,)}
RETRY = {  # the client's first share is not one that the server can use
    "client": {
        "groups": (NamedGroup.X25519, NamedGroup.SECP256R1),
        "share_groups": (NamedGroup.X25519,),
    },
    "server": {"groups": (NamedGroup.SECP256R1,), "share_groups": (NamedGroup.SECP256R1,)},
}


def client(seed: object = 1, *, known: bool = True, certificate=None, **config) -> DtlsConnection:
    """A client that expects SERVER_CERTIFICATE; X25519 unless told otherwise."""
    end = DtlsConnection(
        DtlsRole.CLIENT,
        DtlsConfig(**(CURVE | config)),
        certificate=certificate or CLIENT_CERTIFICATE,
        entropy=SeededEntropy(f"client {seed}"),
    )
    if known:
        end.set_peer_fingerprints([("sha-256", SERVER_CERTIFICATE.fingerprint())], 0.0)
    return end


def server(seed: object = 1, *, known: bool = True, certificate=None, **config) -> DtlsConnection:
    """A server that expects CLIENT_CERTIFICATE; X25519 unless told otherwise."""
    end = DtlsConnection(
        DtlsRole.SERVER,
        DtlsConfig(**(CURVE | config)),
        certificate=certificate or SERVER_CERTIFICATE,
        entropy=SeededEntropy(f"server {seed}"),
    )
    if known:
        end.set_peer_fingerprints([("sha-256", CLIENT_CERTIFICATE.fingerprint())], 0.0)
    return end


def carry(source: DtlsConnection, target: DtlsConnection, now: float = 0.0) -> list[bytes]:
    """Move everything that waits at `source`; return it."""
    out = source.datagrams_to_send(now)
    for datagram in out:
        target.receive_datagram(datagram, now)
    return out


def shake(one: DtlsConnection, two: DtlsConnection, now: float = 0.0) -> None:
    """Start the client and exchange datagrams until both are silent."""
    if one.state is DtlsState.IDLE:
        one.start(now)
    for _ in range(12):
        if not carry(one, two, now) and not carry(two, one, now):
            return


def connected(**config) -> tuple[DtlsConnection, DtlsConnection]:
    """A connected pair, its events drained."""
    one, two = client(**config), server(**config)
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED
    one.events(), two.events()
    return one, two


def failure(end: DtlsConnection) -> Exception | None:
    """The error that ended a connection, from its events."""
    return next((e.error for e in end.events() if isinstance(e, Terminated)), None)


def alert_of(sender: DtlsConnection, receiver: DtlsConnection, now: float = 0.0) -> Alert | None:
    """The fatal alert that `sender` has queued, opened with the keys of `receiver`."""
    found = None
    for datagram in sender.datagrams_to_send(now):
        for record in receiver._handshake.intake.receive(datagram, now):
            if record.content_type == ALERT and record.content[0] == 2:
                found = Alert(record.content[1])
    return found


def seal(end: DtlsConnection, content_type: int, content: bytes, epoch: int | None = None) -> bytes:
    """A record under the keys of `end`, which never meant to send it."""
    epochs = end._handshake.epochs
    keys = epochs.newest_write if epoch is None else epochs.write_keys(epoch)
    return keys.seal(content_type, content)


def message(kind: int, seq: int, body: bytes, offset: int = 0, total: int | None = None) -> bytes:
    """One handshake fragment, by default a whole message."""
    length = len(body) if total is None else total
    return (
        bytes((kind,))
        + length.to_bytes(3, "big")
        + seq.to_bytes(2, "big")
        + offset.to_bytes(3, "big")
        + len(body).to_bytes(3, "big")
        + body
    )


def plain(content_type: int, content: bytes, sequence: int = 0, epoch: int = 0) -> bytes:
    """A plaintext record."""
    return (
        bytes((content_type, 0xFE, 0xFD))
        + epoch.to_bytes(2, "big")
        + sequence.to_bytes(6, "big")
        + len(content).to_bytes(2, "big")
        + content
    )


def tamper(
    monkeypatch, end: DtlsConnection, changes: dict[int, Callable[[bytes], bytes | None]]
) -> None:
    """Let `end` send other bodies than it means to; None leaves the message out.

    The transcript of `end` holds what it sends, so that only the change itself is at fault.
    """
    original, target = Handshake.send_message, end._handshake

    def send_message(self, message_type, body, epoch):
        if self is target and message_type in changes:
            changed = changes[message_type](body)
            if changed is None:
                return
            body = changed
        original(self, message_type, body, epoch)

    monkeypatch.setattr(Handshake, "send_message", send_message)
