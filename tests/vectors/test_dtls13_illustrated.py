"""The illustrated DTLS 1.3 connection (github.com/syncsynchalt/illustrated-dtls13, MIT).

Fixed randoms, both ephemeral keys known: the key schedule step by step, and our own client
driven with the published server's bytes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from tests.captures.dtls_tap import Tap
from tests.captures.pcap import CAPTURES, read_keylog
from warp.crypto import (
    Certificate,
    KeyShare,
    NamedGroup,
    generate_share,
    hkdf_expand_label,
    hkdf_extract,
)
from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.context import Context
from warp.dtls.driver import HandshakeDriver
from warp.dtls.handshake import Handshake
from warp.dtls.hello import decode_client_hello
from warp.dtls.messages import HandshakeType
from warp.dtls.offer import ClientOffer
from warp.dtls.records import DtlsDiscard
from warp.dtls.schedule13 import Schedule13, derive_secret
from warp.dtls.version import AwaitHello
from warp.entropy import SeededEntropy

FOLDER = "dtls/illustrated"
EMPTY = hashlib.sha256().digest()
EARLY = "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a"
DERIVED = "b17bce9451ee8bc6e8aebc0aa9e98295677a4a6a91f78440833146e465f2ff95"
ECDHE = "df4a291baa1eb7cfa6934b29b474baad2697e29f1f920dcc77c8a0a088447624"
HELLOS = "aee8eba0d2ee87052fbbc6864c1514c5a927d6f0ffb4f7954c7f379d95f1b1d7"
HANDSHAKE = "d0d1397bb3c445d37f26f7ed00c83b73d2f67540de3761465ffe524f8f944e12"
CLIENT = {
    "secret": "33e472fb8d821b0193314626bebee307ccbd1aeb3d3a17ba468888ffc5246da1",
    "key": "6caa2633d5e48f10051e69dc45549c97",
    "iv": "106dc6e393b7a9ea8ef29dd7",
    "sn": "beed6218676635c2cb46a45694144fec",
    "finished": "82e2cbff51136d6a2f44f0e4951bfebe7d01861f92bab02a4f9648c2dc91f155",
}
SERVER = {
    "secret": "8ad7990b9d249bcbaa0805d8d3f3ad2259e75f3a42c5d84db3ea3c6ee57b3d38",
    "key": "004e03e64ab6cba6b542775ec230e20a",
    "iv": "6d9924be044ee97c624913f2",
    "sn": "7173fac51194e775001d625ef69d7c9f",
    "finished": "57e7553eaa872bf06b3d56aaa9390541ff81cdc66c142898bd96be5e8cd07b3b",
}


def expand(secret: str, label: bytes, length: int) -> str:
    return hkdf_expand_label(bytes.fromhex(secret), label, b"", length, "sha256").hex()


class _FixedEntropy:
    """Hands out one private key, then anything."""

    def __init__(self, first: bytes) -> None:
        self._first = first
        self._rest = SeededEntropy("rest")

    def random_bytes(self, length: int) -> bytes:
        first, self._first = self._first, b""
        return first or self._rest.random_bytes(length)


def client_share() -> KeyShare:
    pem = (CAPTURES / FOLDER / "client-ephemeral-private.key").read_text().splitlines()[1]
    return generate_share(NamedGroup.X25519, _FixedEntropy(base64.b64decode(pem)[-32:]))


def test_chain() -> None:
    early = hkdf_extract(b"", bytes(32), "sha256")
    assert early.hex() == EARLY
    derived = derive_secret(early, b"derived", EMPTY, "sha256")
    assert derived.hex() == DERIVED
    assert hkdf_extract(derived, bytes.fromhex(ECDHE), "sha256").hex() == HANDSHAKE


def test_labels_have_no_trailing_space() -> None:
    """With TLS's prefix, `tls13 `, the same step gives something else."""
    info = (32).to_bytes(2, "big") + b"\x0dtls13 derived" + b"\x20" + EMPTY
    wrong = hmac.digest(bytes.fromhex(EARLY), info + b"\x01", "sha256")
    assert wrong.hex().startswith("6f2615a1")
    assert wrong.hex() != DERIVED


def test_handshake_secrets() -> None:
    schedule = Schedule13(0x1301)
    secrets = schedule.handshake_secrets(bytes.fromhex(ECDHE), bytes.fromhex(HELLOS))
    assert secrets.client.hex() == CLIENT["secret"]
    assert secrets.server.hex() == SERVER["secret"]


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_traffic_keys(side: dict[str, str]) -> None:
    assert expand(side["secret"], b"key", 16) == side["key"]
    assert expand(side["secret"], b"iv", 12) == side["iv"]
    assert expand(side["secret"], b"sn", 16) == side["sn"]
    assert expand(side["secret"], b"finished", 32) == side["finished"]


def test_capture_opens_and_fits() -> None:
    tap = Tap(f"{FOLDER}/capture.pcap", f"{FOLDER}/keylog_nss.txt")
    assert tap.finished == [True, True]
    assert tap.signatures == [True]
    assert tap.discards() == {"client": {}, "server": {}}


def captured_client() -> tuple[Handshake, HandshakeDriver, Tap]:
    tap = Tap(f"{FOLDER}/capture.pcap", f"{FOLDER}/keylog_nss.txt")
    hello = next(m for _, m in tap.messages if m.message_type == HandshakeType.CLIENT_HELLO)
    lines: list[str] = []
    handshake = Handshake(
        Context(DtlsRole.CLIENT, DtlsConfig(), None),
        Certificate.generate(SeededEntropy(1), 1.7e9),
        SeededEntropy(2),
        lines.append,
    )
    offer = ClientOffer(DtlsConfig(), SeededEntropy(3))
    offer.hello = decode_client_hello(hello.body)
    offer.shares = [client_share()]
    assert offer.hello.encode() == hello.body  # the codec keeps every byte
    assert offer.hello.key_shares()[NamedGroup.X25519] == offer.shares[0].public
    handshake.key_log.client_random = offer.hello.random
    handshake.send_message(HandshakeType.CLIENT_HELLO, hello.body, 0)
    driver = HandshakeDriver(handshake, AwaitHello(handshake, offer))
    tap.lines = lines
    return handshake, driver, tap


def feed(handshake: Handshake, driver: HandshakeDriver, datagrams: list[bytes]) -> None:
    for datagram in datagrams:
        for record in handshake.intake.receive(datagram, 0.0):
            if record.content_type == 22:
                driver.receive_record(record, 0.0)


def test_our_client_understands_the_published_server() -> None:
    """ServerHello to Finished: signature, Finished and the secrets of both stages."""
    handshake, driver, tap = captured_client()
    feed(handshake, driver, [data for side, data in tap.datagrams if side == "server"])
    assert handshake.outcome.completed
    log = {line.split()[0]: line.split()[2] for line in tap.lines}
    (published,) = read_keylog(f"{FOLDER}/keylog_nss.txt").values()
    assert {label: secret.hex() for label, secret in published.items()}.items() <= log.items()


def test_our_client_does_not_follow_one_changed_bit() -> None:
    """Another server random gives other keys: nothing opens, nothing completes."""
    handshake, driver, tap = captured_client()
    server = [data for side, data in tap.datagrams if side == "server"]
    hello = bytearray(server[0])
    hello[13 + 12 + 2 + 5] ^= 1
    feed(handshake, driver, [bytes(hello), *server[1:]])
    assert not handshake.outcome.completed
    assert handshake.context.discards[DtlsDiscard.DECRYPTION] > 0
