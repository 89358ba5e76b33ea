"""DTLS in every state of a handshake: damaged flights, and messages that a hostile peer seals.

Whatever comes, nothing is raised, little is sent, timers move, and a connection that was up under
keys which the sender lacks is still up.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import Script, mutate
from tests.unit.dtls.ends import RETRY, THIRTEEN, client, message, plain, seal, server
from warp.crypto import Certificate, NamedGroup, PeerCertificate, generate_share, respond
from warp.dtls import DtlsConnection, DtlsState, DtlsVersion
from warp.dtls import extensions as ext
from warp.dtls.faults import HandshakeFault
from warp.dtls.messages import HandshakeType
from warp.entropy import SeededEntropy
from warp.octets import OctetsError

pytestmark = pytest.mark.slow

HYBRID = {
    "groups": (NamedGroup.X25519MLKEM768, NamedGroup.X25519),
    "share_groups": (NamedGroup.X25519MLKEM768, NamedGroup.X25519),
}
KINDS = (
    ({}, {}),
    (THIRTEEN | HYBRID, THIRTEEN | HYBRID),
    (THIRTEEN | RETRY["client"], THIRTEEN | RETRY["server"]),
    ({"versions": (DtlsVersion.DTLS12,)}, {"versions": (DtlsVersion.DTLS12,)}),
    ({}, {"versions": (DtlsVersion.DTLS12,)}),
    (THIRTEEN, THIRTEEN | {"early_data": True}),
)
MAX_INJECTED = 24
MAX_DATAGRAMS = 40
MAX_BYTES = 40_000
OWN = Certificate.generate(SeededEntropy(1), 1.7e9)


class Handshake:
    """A client, a server, what is under way and what was said."""

    def __init__(self, kind: int) -> None:
        ours, theirs = KINDS[kind]
        self.ends: list[DtlsConnection] = [client(**ours), server(**theirs)]
        self.waiting: list[list[bytes]] = [[], []]
        self.said: list[list[bytes]] = [[], []]
        self.now = 0.0
        self.ends[0].start(0.0)
        self.collect(0)

    def inject(self, to: int, data: bytes) -> None:
        self.ends[to].receive_datagram(data, self.now)
        self.collect(to)

    def collect(self, at: int) -> None:
        end = self.ends[at]
        out = end.datagrams_to_send(self.now)
        assert len(out) <= MAX_DATAGRAMS
        assert sum(map(len, out)) <= MAX_BYTES
        self.waiting[at] += out
        self.said[at] += out
        end.events()
        end.received_data()
        deadline = end.get_timer()
        if deadline is not None and deadline <= self.now:
            end.handle_timer(self.now)
            left = end.get_timer()
            assert left is None or left > self.now

    def step(self) -> bool:
        """Deliver one genuine datagram, or let the next timer fire."""
        for at in (0, 1):
            if self.waiting[at]:
                self.inject(1 - at, self.waiting[at].pop(0))
                return True
        due = [at for end in self.ends if (at := end.get_timer()) is not None]
        if not due:
            return False
        self.now = max(self.now, min(due))
        for at in (0, 1):
            self.collect(at)
        return True

    def finish(self) -> None:
        for _ in range(200):
            if self.connected or not self.step():
                return

    @property
    def connected(self) -> bool:
        return all(end.state is DtlsState.CONNECTED for end in self.ends)


def fuzz_dtls_handshake(data: bytes) -> None:
    """Damaged copies of the real datagrams between the real ones."""
    script = Script(data)
    shake = Handshake(script.below(len(KINDS)))
    for _ in range(MAX_INJECTED):
        if not script:
            break
        for _ in range(script.below(4)):
            shake.step()
        to = script.below(2)
        said = shake.said[1 - to] or shake.said[to]
        shake.inject(to, mutate(said[script.below(len(said))], script, said))
    shake.finish()
    assert all(end.state in DtlsState for end in shake.ends)


UP: dict[int, Handshake] = {}


def fuzz_dtls_connected(data: bytes) -> None:
    """Nobody without the keys can end a connection that is up."""
    script = Script(data)
    kind = script.below(len(KINDS))
    shake = UP.get(kind)
    if shake is None:
        shake = UP[kind] = Handshake(kind)
        shake.finish()
        assert shake.connected
    said = [list(one) for one in shake.said]
    for _ in range(MAX_INJECTED):
        if not script:
            break
        to = script.below(2)
        if script.below(4) == 0:
            kind_of_record = 20 + script.below(7)
            shake.inject(to, plain(kind_of_record, script.take(64), script.byte()))
        else:
            from_peer = said[1 - to]
            datagram = from_peer[script.below(len(from_peer))]
            shake.inject(to, mutate(datagram, script, from_peer))
    assert shake.connected
    for one, before in zip(shake.said, said, strict=True):
        one[:] = before
    shake.waiting = [[], []]


def fuzz_dtls_hostile_peer(data: bytes) -> None:
    """The peer itself seals what it likes under the newest keys that it has."""
    script = Script(data)
    shake = Handshake(script.below(len(KINDS)))
    for _ in range(script.below(16)):
        shake.step()
    for _ in range(MAX_INJECTED):
        if not script:
            break
        to = script.below(2)
        shake.inject(to, sealed(shake.ends[1 - to], script))
        if script.below(2):
            shake.step()
    shake.finish()
    assert all(end.state in DtlsState for end in shake.ends)


def sealed(sender: DtlsConnection, script: Script) -> bytes:
    """A record of any type; handshake messages mostly with a number that may be next."""
    choice = script.below(4)
    if choice == 0:
        return seal(sender, 20 + script.below(7), script.take(128))
    kinds = list(HandshakeType)
    kind, number, body = kinds[script.below(len(kinds))], script.below(10), script.take(200)
    if choice == 1:
        return seal(sender, 22, message(kind, number, body, script.byte(), script.byte() * 8))
    return seal(sender, 22, message(kind, number, body))


# -- the parsers below the messages -------------------------------------------------------------

DECODERS = (
    ext.decode_extensions,
    ext.decode_versions,
    ext.decode_u16,
    ext.decode_u16_list,
    ext.decode_key_shares,
    ext.decode_key_share,
    ext.decode_cookie,
    ext.decode_use_srtp,
    ext.check_point_formats,
    ext.check_renegotiation_info,
    ext.check_empty,
)


def fuzz_extensions(data: bytes) -> None:
    """Every extension's body by every decoder: a value or a fault."""
    for decode in DECODERS:
        try:
            decode(data)
        except (HandshakeFault, OctetsError):  # `strict` decoders turn the latter into the former
            continue


def fuzz_key_share(data: bytes) -> None:
    """A share of any group: a secret of the right length, or ValueError."""
    script = Script(data)
    groups = (NamedGroup.X25519, NamedGroup.SECP256R1, NamedGroup.SECP384R1)
    group = (*groups, NamedGroup.X25519MLKEM768)[script.below(4)]
    own = generate_share(group, SeededEntropy(2))
    share = mutate(own.public, script)
    for attempt in (lambda: own.finish(share), lambda: respond(group, share, SeededEntropy(3))[1]):
        try:
            secret = attempt()
        except ValueError:
            continue
        assert len(secret) in (32, 48, 64)


def fuzz_certificate_der(data: bytes) -> None:
    """A damaged certificate and a signature of any bytes: False or ValueError."""
    script = Script(data)
    try:
        peer = PeerCertificate(mutate(OWN.der, script))
    except ValueError:
        return
    for scheme in (0x0401, 0x0403, 0x0503, 0x0804, 0x0807, script.below(65536)):
        assert not peer.verify(scheme, script.take(100), b"data")
        assert not peer.verify(scheme, b"", b"data", curve_bound=False)


SCRIPTS = st.binary(max_size=150)


@settings(max_examples=60)
@given(SCRIPTS)
def test_during_a_handshake(data: bytes) -> None:
    fuzz_dtls_handshake(data)


@settings(max_examples=60)
@given(SCRIPTS)
def test_when_connected(data: bytes) -> None:
    fuzz_dtls_connected(data)


@settings(max_examples=60)
@given(SCRIPTS)
def test_a_hostile_peer(data: bytes) -> None:
    fuzz_dtls_hostile_peer(data)


@given(st.binary(max_size=300))
def test_extensions(data: bytes) -> None:
    fuzz_extensions(data)


@given(SCRIPTS)
def test_key_shares(data: bytes) -> None:
    fuzz_key_share(data)


@given(SCRIPTS)
def test_certificates(data: bytes) -> None:
    fuzz_certificate_der(data)
