"""A redacted capture says the same and tells nothing of addresses, ufrags, payloads."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pytest

from tests.captures.pcap import CAPTURES, read_pcap
from tests.unit.tools.capture.builder import (
    CLIENT,
    SERVER,
    Packet,
    ethernet,
    frames,
    ip_udp,
    ipv4,
    pcap,
    tcp,
)
from tests.unit.tools.capture.test_relayed import BIND, channel_data
from warp.dtls.messages import decode_certificate12
from warp.dtls.reassembly import Reassembler, split_fragments
from warp.stun import Attribute, is_stun, parse_message
from warp_tools.capture.explain import explanation
from warp_tools.capture.pseudonyms import Pseudonyms
from warp_tools.capture.reader import CaptureError, Reader, open_capture
from warp_tools.capture.redact import redact
from warp_tools.capture.rewrite import rewrite
from warp_tools.capture.run import read
from warp_tools.capture.view import header, ladder_lines
from warp_tools.failure import ToolFailure

ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap"))
KEY = b"the key of a test"


def plain(told: dict) -> dict:
    """An explanation without what redaction renames."""
    told = json.loads(json.dumps(told))
    for party in told["parties"].values():
        party["addresses"] = len(party["addresses"])
        party["ufrag"] = party["ufrag"] and len(party["ufrag"])
    return told


def told(path: Path) -> list[dict]:
    return [plain(explanation(facts)) for facts in read(path).facts()]


def ladder(path: Path) -> list[str]:
    return [
        line.plain
        for facts in read(path).facts()
        for line in list(ladder_lines(facts, 500))[len(list(header(facts))) :]
    ]


@pytest.mark.parametrize("name", ALL)
def test_ladder_and_explanation_stay_the_same(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    outcome = redact(CAPTURES / name, out, KEY)
    packets = read_pcap(name)
    assert (outcome.packets, outcome.kept, outcome.sessions) == (len(packets), len(packets), 1)
    assert told(out) == told(CAPTURES / name)
    assert ladder(out) == ladder(CAPTURES / name)


@pytest.mark.parametrize("name", ALL)
def test_nothing_of_the_original_is_left(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    redact(CAPTURES / name, out, KEY)
    blob = out.read_bytes()
    for secret in secrets(name):
        assert secret not in blob
    with open_capture(out) as reader:
        made = list(reader)
    real = read_pcap(name)
    assert {d.source for d in made}.isdisjoint({p.source for p in real})
    for datagram, packet in zip(made, real, strict=True):
        assert datagram.length == len(packet.payload)
        if is_stun(packet.payload):
            was, now = parse_message(packet.payload), parse_message(datagram.payload)
            assert was.get(Attribute.USERNAME) != now.get(Attribute.USERNAME) or not was.get(
                Attribute.USERNAME
            )
            assert packet.payload[was.integrity_at :][4:24] not in datagram.payload


def secrets(name: str) -> list[bytes]:
    """Bytes that must not be in the output: addresses, ufrags, certificates, pieces of payloads."""
    found: list[bytes] = []
    for packet in read_pcap(name):
        payload = packet.payload
        if is_stun(payload):
            username = parse_message(payload).get(Attribute.USERNAME)
            found += [username] if username else []
        elif payload[0] >= 128:
            found.append(payload[20:40])
        elif payload[0] >> 5 == 1:
            found.append(payload[5:40])
        elif payload[3:5] != b"\0\0":
            found.append(payload[13:40])
    return [secret for secret in found if len(secret) >= 8] + certificates(name)


def certificates(name: str) -> list[bytes]:
    """The certificates that DTLS 1.2 shows, as pieces of 24 bytes from their middle."""
    found = []
    readers: dict[tuple[str, int], Reassembler] = {}
    for packet in read_pcap(name):
        at, data = 0, packet.payload
        while data[at : at + 1] == b"\x16" and data[at + 3 : at + 5] == b"\0\0":
            size = int.from_bytes(data[at + 11 : at + 13], "big")
            reader = readers.setdefault(packet.source, Reassembler())
            for fragment in split_fragments(data[at + 13 : at + 13 + size], 0, 32)[0]:
                reader.receive(fragment)
            while (message := reader.pop()) is not None:
                if message.message_type == 11:
                    found += [der[100:124] for der in decode_certificate12(message.body)]
            at += 13 + size
    return found


def test_certificates_are_looked_for() -> None:
    assert len(certificates("dtls/aiortc116_chromium156.pcap")) == 2


def test_names_are_consistent_within_a_run_and_new_in_the_next(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{n}.pcapng" for n in range(3))
    name = CAPTURES / "stun/chromium156_warp.pcap"
    redact(name, first, KEY)
    redact(name, second, KEY)
    redact(name, third)
    assert first.read_bytes() == second.read_bytes() != third.read_bytes()
    ufrags = [read(p).finder.sessions[0].ufrags for p in (first, third)]
    assert ufrags[0] != ufrags[1]


def test_numbers_stay_and_unrelated_packets_leave_a_hole(tmp_path: Path) -> None:
    call = list(frames(read_pcap("stun/chromium156_warp.pcap")[:20]))
    secret = b"a password in another protocol"
    noise = ethernet(ip_udp(("192.0.2.77", 5), ("192.0.2.78", 6), secret))
    mixed = [packet for pair in zip(call, [Packet(0, noise)] * 20, strict=True) for packet in pair]
    source, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    source.write_bytes(pcap(mixed))
    outcome = redact(source, out, KEY)
    assert (outcome.packets, outcome.kept) == (40, 20)
    assert secret not in out.read_bytes()
    with open_capture(out) as reader:
        assert [d.number for d in reader] == list(range(1, 40, 2))
    assert ladder(out) == ladder(source)


def test_cut_packets_stay_cut(tmp_path: Path) -> None:
    source, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    source.write_bytes(pcap(frames(read_pcap("stun/chromium156_warp.pcap")), snap=96))
    redact(source, out, KEY)
    assert told(out) == told(source)


def test_tcp_and_relays(tmp_path: Path) -> None:
    packets = read_pcap("stun/chromium156_warp.pcap")[:30]
    first, began = packets[0].source, packets[0].time
    sequences = {True: 1, False: 1}
    tcp_frames, relayed = [], [Packet(0, ethernet(ip_udp(CLIENT, SERVER, BIND)))]
    for packet in packets:
        mine = packet.source == first
        ends = (CLIENT, SERVER) if mine else (SERVER, CLIENT)
        data = len(packet.payload).to_bytes(2, "big") + packet.payload
        segment = tcp(*ends, sequences[mine], data)
        sequences[mine] += len(data)
        at = round((packet.time - began) * 1e9) + 1
        body = ipv4(ends[0][0], ends[1][0], segment, protocol=6)
        tcp_frames.append(Packet(at, ethernet(body)))
        relayed.append(Packet(at, ethernet(ip_udp(*ends, channel_data(packet.payload)))))
    for made in (tcp_frames, relayed):
        source, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
        source.write_bytes(pcap(made))
        assert redact(source, out, KEY).sessions == 1
        assert told(out) == told(source) and ladder(out) == ladder(source)
        for secret in (b"sWwm", b"B8NT", bytes([192, 0, 2, 1]), bytes([203, 0, 113, 9])):
            assert secret not in out.read_bytes()


def test_checksums_are_right(tmp_path: Path) -> None:
    for name in ("stun/chromium156_warp.pcap", "dtls/aiortc116_chromium156.pcap"):
        out = tmp_path / "out.pcapng"
        redact(CAPTURES / name, out, KEY)
        frames_ = list(Reader(BytesIO(out.read_bytes())).frames)
        for frame in frames_:
            assert _sum(frame.data[:20]) == 0xFFFF
            pseudo = frame.data[12:20] + b"\0\x11" + frame.data[24:26]
            assert _sum(pseudo + frame.data[20:]) == 0xFFFF


def _sum(data: bytes) -> int:
    total = sum(
        int.from_bytes(data[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2)
    )
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_a_wrong_fingerprint_stays_wrong() -> None:
    payload = bytearray(read_pcap("stun/chromium156_warp.pcap")[0].payload)
    names = Pseudonyms(KEY)
    assert parse_message(rewrite(bytes(payload), len(payload), names))
    payload[-1] ^= 1
    out = rewrite(bytes(payload), len(payload), names)
    with pytest.raises(Exception, match="FINGERPRINT"):
        parse_message(out)


def test_pseudonyms() -> None:
    names = Pseudonyms(KEY)
    assert names.octets(b"a" * 200) == names.octets(b"a" * 200) != names.octets(b"b" * 200)
    assert [len(names.octets(bytes(n))) for n in (0, 1, 64, 65, 1000)] == [0, 1, 64, 65, 1000]
    assert names.host("192.0.2.1") == names.host("192.0.2.1") == "10.0.0.1"
    assert names.host("2001:db8::1") == "fd00::2"
    assert names.address(("192.0.2.9", 77)) == ("10.0.0.3", 77)
    assert names.text(b"abcd").isalnum() or set(names.text(b"abcd")) & set(b"+/")
    names.learn_crc(1, 2)
    assert names.crc(1) == 2 and names.crc(3) == names.crc(3) != 3


def test_what_cannot_be_redacted(tmp_path: Path) -> None:
    source = tmp_path / "in.pcap"
    source.write_bytes(pcap([Packet(0, ethernet(ip_udp(CLIENT, SERVER, b"hello")))]))
    out = tmp_path / "out.pcapng"
    assert redact(source, out).sessions == 0 and not out.exists()
    with pytest.raises(CaptureError, match="twice"):
        redact(Path("-"), out)
    call = CAPTURES / "stun/chromium156_warp.pcap"
    source.write_bytes(call.read_bytes())
    with pytest.raises(ToolFailure, match="is the input"):
        redact(source, source)
    with pytest.raises(ToolFailure, match="cannot write"):
        redact(source, tmp_path / "no" / "such" / "folder.pcapng")
