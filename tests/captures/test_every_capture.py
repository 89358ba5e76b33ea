"""Every datagram of every pcap in this folder, and what is known of it.

A pcap without a line here fails: whoever adds a capture says what is in it. What can be verified
without keys is verified for all (FINGERPRINT, acknowledged CRCs, hellos, the signatures of DTLS
1.2, headers and indices of media); what needs a secret, wherever the secret was kept.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from functools import lru_cache

import pytest

from tests.captures.dtls_tap import Tap
from tests.captures.pcap import CAPTURES, read_pcap
from tests.captures.walk import Walk
from warp.crypto import fingerprint_matches
from warp.dtls.records import DtlsDiscard
from warp.dtls.schedule13 import Exporter13
from warp.rtp import ExtensionMap
from warp.sctp import parse_init
from warp.sdp import parse_description

IDS = ExtensionMap(mid=4, audio_level=1, transport_cc=3)
LABEL = b"EXTRACTOR-dtls_srtp"
DTLS12, DTLS13 = 0xFEFD, 0xFEFC
SIGNED_IN_THE_CLEAR = [1, 11, 16, 15]  # ClientHello to CertificateVerify
SERVER_IN_THE_CLEAR = [2, 11, 12, 13, 14]

# why MESSAGE-INTEGRITY stays unverified
NOT_KEPT = "its descriptions, which hold the passwords, were not kept"
RANDOM = "the answering script made a random password and did not write it down"


@dataclass(frozen=True)
class Known:
    """Datagrams by protocol, what SPED carried and acknowledged, the version of DTLS."""

    stun: int = 0
    dtls: int = 0
    rtp: int = 0
    rtcp: int = 0
    carried: int = 0
    hashes: int = 0
    version: int | None = DTLS13
    legs: int = 1
    unverified: str = ""

    @property
    def relayed(self) -> bool:
        return self.stun > 0 and self.legs == 2


def records(dtls: int, legs: int = 1) -> Known:
    """A connection with its key log and nothing else."""
    return Known(dtls=dtls, legs=legs)


CAPTURED = {
    "delay/aiortc116_actpass_0ms": Known(8, 18, 17, version=DTLS12, unverified=NOT_KEPT),
    "delay/chromium156_default": Known(24, 40, 75, 20, legs=2, unverified=NOT_KEPT),
    "delay/chromium156_snap": Known(24, 24, 46, 8, legs=2, unverified=NOT_KEPT),
    "delay/chromium156_warp": Known(24, 20, 48, 11, 18, 20, legs=2, unverified=NOT_KEPT),
    "delay/chromium156_warp_nopqc": Known(24, 18, 49, 10, 20, 10, legs=2, unverified=NOT_KEPT),
    "dtls/aiortc116_chromium156": Known(8, 25, 0, 1, version=DTLS12),
    "dtls/bssl_basic": records(12),
    "dtls/bssl_hrr": records(14),
    "dtls/bssl_ku": records(14),
    "dtls/bssl_mtu300": records(24),
    "dtls/bssl_pq": records(14),
    "dtls/bssl_tickets": records(14),
    "dtls/chromium156_aiortc116": Known(8, 23, version=DTLS12),
    "dtls/illustrated/capture": records(11),
    "dtls/loss_bb_c2": records(31, 2),
    "dtls/loss_bb_s1": records(35, 2),
    "dtls/loss_bb_s2": records(35, 2),
    "dtls/loss_bb_s3": records(27, 2),
    "dtls/loss_bn_mtu400_s5": records(17, 2),
    "dtls/nssff153_aes256": records(9),
    "dtls/nssff153_basic": records(15),
    "dtls/nssff153_chacha": records(12),
    "dtls/nssff153_hrr": records(15),
    "dtls/nssff153_ku": records(17),
    "dtls/nssff153_nopq": records(13),
    "dtls/nssff153_nst": records(13),
    "dtls/nssff153_p384": records(12),
    "stun/chromium156_default": Known(12, 21, 62, 18),
    "stun/chromium156_first_flight": Known(15, carried=15, version=None, unverified=RANDOM),
    "stun/chromium156_first_flight_ack": Known(6, 9, 0, 0, 3, 6, version=None, unverified=RANDOM),
    "stun/chromium156_first_flight_default": Known(15, version=None, unverified=RANDOM),
    "stun/chromium156_first_flight_nopqc": Known(15, carried=15, version=None, unverified=RANDOM),
    "stun/chromium156_first_flight_plain": Known(6, 6, carried=1, version=None, unverified=RANDOM),
    "stun/chromium156_snap_only": Known(12, 13, 62, 18),
    "stun/chromium156_sped_only": Known(12, 20, 62, 16, 2, 2),
    "stun/chromium156_warp": Known(12, 12, 62, 18, 2, 2),
    "stun/chromium156_warp_nopqc": Known(12, 9, 62, 18, 4, 3),
}
# whole calls with the keys of one end: opened to the last datagram in tests/unit/tools/decrypt
CALLS = {
    f"calls/{name}" for name in ("libwebrtc152_warp", "libwebrtc152_plain", "aiortc116_dtls12")
}
# calls of every peer, verified and opened in test_peers
PEERS = {f"peers/{path.stem}" for path in (CAPTURES / "peers").glob("*.pcap")}
SILENT = {"stun/chromium156_first_flight_default"}  # no answer, so no DTLS: SPED was off
KEY_LOGS = {
    **{name: f"{name}.keylog" for name in CAPTURED if (CAPTURES / f"{name}.keylog").is_file()},
    "dtls/illustrated/capture": "dtls/illustrated/keylog_nss.txt",
}
DESCRIPTIONS = sorted(path.stem for path in (CAPTURES / "sdp").glob("*.sdp"))


@lru_cache(maxsize=1)
def passwords() -> dict[str, str]:
    """The ice-pwd of every ufrag in the descriptions."""
    found = {}
    for name in DESCRIPTIONS:
        text = (CAPTURES / "sdp" / f"{name}.sdp").read_text()
        ufrags, pwds = (re.findall(rf"a=ice-{kind}:(\S+)", text) for kind in ("ufrag", "pwd"))
        found |= dict(zip(ufrags, pwds, strict=True))
    return found


@lru_cache(maxsize=4)
def walk(name: str) -> Walk:
    known = CAPTURED[name]
    return Walk(read_pcap(f"{name}.pcap"), passwords(), IDS, relayed=known.relayed)


def test_no_capture_is_without_a_line_here() -> None:
    present = {
        str(path.relative_to(CAPTURES).with_suffix("")) for path in CAPTURES.rglob("*.pcap*")
    }
    assert present == set(CAPTURED) | CALLS | PEERS


@pytest.mark.parametrize("name", CAPTURED)
def test_every_datagram_is_parsed_and_verified(name: str) -> None:
    known, seen = CAPTURED[name], walk(name)
    assert seen.faults == []
    kinds = {"STUN": known.stun, "DTLS": known.dtls, "RTP": known.rtp, "RTCP": known.rtcp}
    assert seen.kinds == {kind: count for kind, count in kinds.items() if count}
    assert sum(seen.kinds.values()) == len(read_pcap(f"{name}.pcap"))
    assert seen.checks == known.stun
    assert (seen.carried, seen.hashes) == (known.carried, known.hashes)
    assert len(seen.legs) == known.legs
    assert seen.gaps() == 0


@pytest.mark.parametrize("name", CAPTURED)
def test_integrity_is_verified_wherever_the_password_is_known(name: str) -> None:
    known, seen = CAPTURED[name], walk(name)
    assert seen.verified == (0 if known.unverified else known.stun)


@pytest.mark.parametrize("name", sorted(set(CAPTURED) - SILENT))
def test_the_hellos_decode(name: str) -> None:
    known = CAPTURED[name]
    for leg in walk(name).legs.values():
        assert leg.client is not None
        assert leg.version == known.version
        if known.version is None:
            continue  # nobody answered with a flight
        suites = leg.client.client_hello.suites
        assert leg.server.server_hello.suite in suites
        versions = leg.client.client_hello.versions() or (DTLS12,)
        assert known.version in versions


@pytest.mark.parametrize("name", [n for n, k in CAPTURED.items() if k.version == DTLS12])
def test_dtls12_signs_its_key_and_its_transcript(name: str) -> None:
    """Without a key log a Finished of DTLS 1.2 stays shut; both signatures are in the clear."""
    (leg,) = walk(name).legs.values()
    assert leg.client.messages == SIGNED_IN_THE_CLEAR
    assert leg.server.messages == SERVER_IN_THE_CLEAR
    assert leg.signatures == 2
    assert leg.srtp_profile in leg.client.client_hello.srtp_profiles()


@pytest.mark.parametrize("pair", ["aiortc116_chromium156", "chromium156_aiortc116"])
def test_the_certificates_are_those_of_the_descriptions(pair: str) -> None:
    (leg,) = walk(f"dtls/{pair}").legs.values()
    promised = []
    for side in ("offer", "answer"):
        text = (CAPTURES / "sdp" / f"{pair}_{side}.sdp").read_text()
        section = parse_description(text).media[0]
        promised.append(section.transport.fingerprints)
    # both answerers were DTLS clients (`active`)
    offerer, answerer = leg.server, leg.client
    for end, prints in ((offerer, promised[0]), (answerer, promised[1])):
        assert fingerprint_matches(end.certificate.der, prints)


@pytest.mark.parametrize("name", [n for n, k in CAPTURED.items() if k.rtp])
def test_audio_names_its_section(name: str) -> None:
    """In the headers' extensions, whose ids are those of Chromium's and aiortc's descriptions."""
    assert walk(name).mids == {"0"}


# -- with key logs ------------------------------------------------------------------------------


def ports(name: str) -> list[int | None]:
    """The two legs of a relay that lost a datagram are two views of one connection."""
    return [4440, 4441] if CAPTURED[name].legs == 2 else [None]


LEGS = [(name, port) for name in KEY_LOGS for port in ports(name)]


@lru_cache(maxsize=4)
def tap(name: str, port: int | None) -> Tap:
    return Tap(f"{name}.pcap", KEY_LOGS[name], port)


def test_every_capture_of_dtls_alone_has_its_key_log() -> None:
    assert set(KEY_LOGS) == {
        n for n, k in CAPTURED.items() if n.startswith("dtls/") and k.version == DTLS13
    }


@pytest.mark.parametrize(("name", "port"), LEGS)
def test_every_record_is_decrypted(name: str, port: int | None) -> None:
    """Also what overtook its keys: a record that was held is opened when they come."""
    seen = tap(name, port)
    for discards in seen.discards().values():
        assert set(discards) <= {DtlsDiscard.HELD}
    assert len({(r.side, r.epoch, r.sequence) for r in seen.records}) == len(seen.records)
    assert len(seen.records) >= len(seen.datagrams)
    assert all(r.content for r in seen.records)


@pytest.mark.parametrize(("name", "port"), LEGS)
def test_every_finished_and_every_signature_is_verified(name: str, port: int | None) -> None:
    seen = tap(name, port)
    kinds = [message.message_type for _, message in seen.messages]
    assert len(seen.finished) == kinds.count(20) and all(seen.finished)
    assert len(seen.signatures) == kinds.count(15) and all(seen.signatures)
    whole = "loss_bn" not in name  # the one that came to nothing, after the server's flight
    assert len(seen.finished) == (2 if whole else port == 4441)


def expand(key: bytes, label: bytes, context: bytes, size: int, name: str) -> bytes:
    """HKDF-Expand-Label of RFC 9147 section 5.9, once more and by hand."""
    full = b"dtls13" + label
    info = size.to_bytes(2, "big") + bytes((len(full),)) + full + bytes((len(context),)) + context
    out = block = b""
    for number in range(1, 5):
        block = hmac.digest(key, block + info + bytes((number,)), name)
        out += block
    return out[:size]


@pytest.mark.parametrize("name", KEY_LOGS)
def test_every_exporter_agrees_with_the_formula(name: str) -> None:
    """RFC 8446 section 7.5; held against NSS's own output in test_dtls_captures."""
    seen = tap(name, ports(name)[-1])
    secret = seen.secrets[seen.client_random].get("EXPORTER_SECRET")
    if secret is None:
        assert name == "dtls/illustrated/capture"  # published without: its secrets are below it
        return
    digest = seen.schedule.hash_name
    empty = hashlib.new(digest).digest()
    derived = expand(secret, LABEL, empty, len(empty), digest)
    exported = expand(derived, b"exporter", empty, 60, digest)
    assert Exporter13(secret, digest).export(LABEL, 60) == exported
    assert seen.exporter().export(LABEL, 60) == exported


# -- descriptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_sctp_init_decodes(name: str) -> None:
    section = parse_description((CAPTURES / "sdp" / f"{name}.sdp").read_text()).data_section()
    value = section.sctp.init
    assert (value is not None) == ("warp" in name or "snap" in name)
    if value is not None:
        chunk = parse_init(value)
        assert chunk.to_bytes() == value
        assert chunk.initiate_tag and chunk.outbound_streams and chunk.inbound_streams
        assert chunk.unrecognized == ()
