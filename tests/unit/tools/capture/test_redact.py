"""A redacted capture says the same and tells nothing of addresses, ufrags, payloads."""

from __future__ import annotations

import itertools
import json
import os
import random
import struct
from io import BytesIO
from pathlib import Path

import pytest

from tests.captures.pcap import CAPTURES, read_pcap
from tests.unit.tools.capture.builder import (
    CLIENT,
    SERVER,
    Packet,
    block,
    enhanced,
    ethernet,
    frames,
    interface,
    ip_udp,
    ipv4,
    option,
    pcap,
    section,
    tcp,
)
from tests.unit.tools.capture.test_relayed import BIND, channel_data
from warp.dtls.hello import decode_client_hello
from warp.dtls.messages import decode_certificate12
from warp.dtls.reassembly import Reassembler, split_fragments
from warp.stun import MAGIC_COOKIE, Attribute, is_stun, parse_message
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
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CaptureError, match="twice"):
        redact(pipe, out)
    call = CAPTURES / "stun/chromium156_warp.pcap"
    source.write_bytes(call.read_bytes())
    with pytest.raises(ToolFailure, match="is the input"):
        redact(source, source)
    with pytest.raises(ToolFailure, match="cannot write"):
        redact(source, tmp_path / "no" / "such" / "folder.pcapng")


# -- what a hostile or careless sender may put anywhere -------------------------------------------

SECRET = b"correct horse battery st"


def record(kind: int, body: bytes) -> bytes:
    return struct.pack("!BHHHIH", kind, 0xFEFD, 0, 0, 5, len(body)) + body


def message(kind: int, body: bytes) -> bytes:
    size = len(body).to_bytes(3, "big")
    return record(22, bytes((kind,)) + size + b"\0\1\0\0\0" + size + body)


def attribute(kind: int, value: bytes) -> bytes:
    body = struct.pack("!HH", kind, len(value)) + value + bytes(-len(value) % 4)
    return struct.pack("!HHI", 0x0016, len(body), MAGIC_COOKIE) + bytes(12) + body


@pytest.mark.parametrize(
    "payload",
    [
        *(record(kind, SECRET) for kind in (20, 21, 23, 24, 25, 26)),
        record(22, SECRET[:8]),
        *(message(kind, SECRET) for kind in (0, 4, 8, 11, 12, 13, 14, 15, 16, 20, 22, 99)),
        *(attribute(kind, SECRET) for kind in range(0x40)),
        *(attribute(kind, SECRET) for kind in (0x8003, 0x8022, 0x8023, 0xC057, 0xC070, 0xC071)),
        attribute(6, b"user@realm.example")[:-4] + SECRET,
        attribute(0x8022, SECRET) + SECRET,
        bytes((20,)) + SECRET,
        bytes((30,)) + SECRET,
        bytes((0x2F,)) + SECRET,
        bytes((0x3F,)) + SECRET,
        bytes((70,)) + SECRET,
        b"\x8f\x6f" + bytes(10) + SECRET * 4,
        b"\x80\xc8" + bytes(6) + SECRET,
    ],
)
def test_whatever_is_not_known_to_be_harmless_goes(payload: bytes) -> None:
    out = rewrite(payload, len(payload), Pseudonyms(KEY))
    assert len(out) == len(payload)
    assert not any(SECRET[at : at + 5] in out for at in range(len(SECRET) - 5))


def test_a_hello_keeps_what_is_negotiated_and_no_names() -> None:
    """A server's name and a ticket in it, a session id; versions, groups and shares stay."""
    original = read_pcap("stun/chromium156_warp_nopqc.pcap")[0].payload
    dtls = parse_message(original).get(Attribute.META_DTLS_IN_STUN)
    hello = decode_client_hello(dtls[25:])
    body = bytearray(dtls[25:])
    extra = b"".join(struct.pack("!HH", kind, 24) + SECRET for kind in (0, 35, 41, 16))
    at = body.rindex(sum(4 + len(e) for e in hello.extensions.values()).to_bytes(2, "big"))
    size = int.from_bytes(body[at : at + 2], "big") + len(extra)
    body[at : at + 2] = size.to_bytes(2, "big")
    body[34:35] = b"\x18" + SECRET
    made = message(1, bytes(body) + extra)
    out = rewrite(made, len(made), Pseudonyms(KEY))
    assert SECRET[:6] not in out
    was, now = (decode_client_hello(one[25:]) for one in (made, out))
    assert (was.random, was.suites, was.versions(), was.groups(), was.key_shares()) == (
        now.random, now.suites, now.versions(), now.groups(), now.key_shares(),
    )  # fmt: skip


def split(body: bytes, *cuts: int) -> list[bytes]:
    """Return a ClientHello in pieces, a record each."""
    out = []
    for start, end in itertools.pairwise((0, *cuts, len(body))):
        head = b"\x01" + len(body).to_bytes(3, "big") + b"\0\0" + start.to_bytes(3, "big")
        out.append(record(22, head + (end - start).to_bytes(3, "big") + body[start:end]))
    return out


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1, 0, 1, 2)])
def test_names_and_tickets_in_later_pieces_of_a_hello_go(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    """Whatever comes first: in a capture every ClientHello is put together before."""
    dtls = read_pcap("stun/chromium156_warp_nopqc.pcap")[0].payload
    body = bytearray(parse_message(dtls).get(Attribute.META_DTLS_IN_STUN)[25:])
    extensions = decode_client_hello(bytes(body)).extensions
    extra = b"".join(struct.pack("!HH", kind, 24) + SECRET for kind in (0, 35, 41, 16))
    at = body.rindex(sum(4 + len(e) for e in extensions.values()).to_bytes(2, "big"))
    body[at : at + 2] = (int.from_bytes(body[at : at + 2], "big") + len(extra)).to_bytes(2, "big")
    # behind the secrets stands what has to stay
    whole = bytes(body[: at + 2]) + extra + bytes(body[at + 2 :])
    pieces = split(whole, at + 20, at + 70)
    sent = [Packet(n, ethernet(ip_udp(CLIENT, SERVER, pieces[p]))) for n, p in enumerate(order)]
    source, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    source.write_bytes(pcap(sent))
    assert redact(source, out, KEY).kept == len(order)
    blob = out.read_bytes()
    assert not any(SECRET[n : n + 5] in blob for n in range(len(SECRET) - 5))
    was, now = (read(path).finder.sessions[0].handshake.client_hello for path in (source, out))
    assert (was.random, was.versions(), was.groups(), was.key_shares()) == (
        now.random, now.versions(), now.groups(), now.key_shares(),
    )  # fmt: skip
    assert ladder(out) == ladder(source)


def test_a_piece_of_a_hello_that_nothing_leads_to_goes() -> None:
    data = split(bytes(200) + SECRET * 3, 100, 150)[2]
    out = rewrite(data, len(data), Pseudonyms(KEY))
    assert not any(SECRET[n : n + 5] in out for n in range(len(SECRET) - 5))


def test_datagrams_in_datagrams_have_an_end() -> None:
    data = b""
    for _ in range(2000):
        data = attribute(Attribute.DATA, data)
    assert len(rewrite(data, len(data), Pseudonyms(KEY))) == len(data)
    data = b""
    for _ in range(15_000):
        data = struct.pack("!HH", 0x4000, len(data) & 0xFFFF) + data
    assert len(rewrite(data, len(data), Pseudonyms(KEY))) == len(data)


def test_names_comments_and_secrets_of_the_file_are_not_carried_over(tmp_path: Path) -> None:
    keys = b"CLIENT_RANDOM 00 secret of the key log"
    blocks = section() + interface(options=option(2, b"name-of-the-card"))
    blocks += block(10, struct.pack("<II", 0x544C534B, len(keys)) + keys)
    for packet in frames(read_pcap("stun/chromium156_warp.pcap")[:6]):
        body = enhanced(packet)[8:-4]
        blocks += block(6, body + option(1, b"a comment on it"))
    source, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    source.write_bytes(blocks)
    assert redact(source, out, KEY).kept == 6
    for secret in (b"name-of-the-card", b"secret of", b"a comment"):
        assert secret in blocks and secret not in out.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_damaged_captures_say_the_same_afterwards(seed: int, tmp_path: Path) -> None:
    """Bytes changed, datagrams cut, left out and doubled: the ladder is that of the original."""
    luck = random.Random(seed)
    name = luck.choice(["stun/chromium156_warp", "delay/chromium156_warp", "dtls/loss_bb_s1"])
    made: list[Packet] = []
    for packet in frames(read_pcap(f"{name}.pcap")):
        data, what = bytearray(packet.data), luck.random()
        if what < 0.2:
            for _ in range(luck.randrange(1, 4)):
                data[luck.randrange(42, len(data))] = luck.randrange(256)
        elif what < 0.23:
            continue
        made += [packet._replace(data=bytes(data))] * (1 + (what > 0.98))
    source, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    source.write_bytes(pcap(made, snap=luck.choice([96, 300, 65535])))
    redact(source, out, KEY)
    assert ladder(out) == ladder(source) and told(out) == told(source)
