"""Datagrams that nobody's peer made: checks by hand, and what strangers send."""

from __future__ import annotations

import hmac
import itertools
from collections.abc import Iterable, Sequence

from tests.scenarios.start import CERTIFICATES
from warp.crypto import NamedGroup
from warp.dtls import DtlsConfig, DtlsConnection, DtlsRole, DtlsVersion
from warp.entropy import SeededEntropy
from warp.stun import (
    BINDING,
    Attribute,
    Message,
    MessageClass,
    build_message,
    encode_xor_address,
    parse_message,
)

ACK = int(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT)
DATA = int(Attribute.META_DTLS_IN_STUN)
CLIENT_PASSWORD = "password-of-the-client"
SERVER_PASSWORD = "password-of-the-server"
ADDRESS = ("198.51.100.77", 7777)
_serial = itertools.count(1)


class Password:
    """The key of a hand-made message."""

    def __init__(self, password: str) -> None:
        self._key = password.encode()

    def digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._key, b"".join(parts), "sha1")


def request(
    attributes: Sequence[tuple[int, bytes]] = (),
    *,
    username: bytes | None = b"serv:clie",
    password: str | None = SERVER_PASSWORD,
    use_candidate: bool = False,
    message_class: MessageClass = MessageClass.REQUEST,
) -> bytes:
    """A check as the client sends it to the server."""
    own = [] if username is None else [(int(Attribute.USERNAME), username)]
    own += [
        (int(Attribute.ICE_CONTROLLING), b"\xff" * 8),
        (int(Attribute.PRIORITY), (0x7E7F1EFF).to_bytes(4, "big")),
    ]
    if use_candidate:
        own.append((int(Attribute.USE_CANDIDATE), b""))
    return build_message(
        BINDING,
        message_class,
        next(_serial).to_bytes(12, "big"),
        own + list(attributes),
        integrity_key=None if password is None else Password(password),
    )


def response(
    to: bytes,
    mapped: tuple[str, int],
    attributes: Sequence[tuple[int, bytes]] = (),
    *,
    password: str = CLIENT_PASSWORD,
) -> bytes:
    """The client's answer to a check of the server."""
    transaction_id = parse_message(to).transaction_id
    own = [(int(Attribute.XOR_MAPPED_ADDRESS), encode_xor_address(mapped, transaction_id))]
    return build_message(
        BINDING,
        MessageClass.SUCCESS,
        transaction_id,
        own + list(attributes),
        integrity_key=Password(password),
    )


def embedded(data: bytes) -> bytes | None:
    """The DTLS datagram inside a STUN message, if there is one."""
    return parse_message(data).get(DATA)


def messages(datagrams: Iterable[bytes]) -> list[Message]:
    """The STUN messages among datagrams."""
    return [parse_message(data) for data in datagrams if data[0] < 4]


def foreign_hello(*, seed: int = 1, version: DtlsVersion = DtlsVersion.DTLS13) -> bytes:
    """The ClientHello of a DTLS client with another certificate."""
    client = DtlsConnection(
        DtlsRole.CLIENT,
        DtlsConfig(
            versions=(version,),
            groups=(NamedGroup.X25519,),
            share_groups=(NamedGroup.X25519,),
        ),
        certificate=CERTIFICATES["stranger"],
        entropy=SeededEntropy(seed),
    )
    client.start(0.0)
    [hello] = client.datagrams_to_send(0.0)
    return hello


def first_messages(datagram: bytes) -> list[tuple[int, bytes]]:
    """Type and (beginning of the) body of the plaintext handshake messages of a DTLS datagram."""
    found = []
    while len(datagram) >= 13 and datagram[0] == 22 and datagram[3:5] == bytes(2):
        size = int.from_bytes(datagram[11:13], "big")
        record, datagram = datagram[13 : 13 + size], datagram[13 + size :]
        while len(record) >= 12:
            length = int.from_bytes(record[9:12], "big")
            if record[6:9] == bytes(3):
                found.append((record[0], record[12 : 12 + length]))
            record = record[12 + length :]
    return found
