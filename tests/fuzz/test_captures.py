"""Captures from anybody: damaged files and damaged datagrams are explained, or refused in a line.

The whole way is walked: reader, finder, ladder, explanation, view, redaction. Nothing raises but
`CaptureError`, and nothing grows with what a header claims.
"""

from __future__ import annotations

import io
import json
from functools import lru_cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.captures.pcap import CAPTURES, UdpPacket, read_pcap
from tests.fuzz.mutation import Script, mutate
from tests.unit.tools.capture.builder import (
    Packet,
    enhanced,
    ethernet,
    frames,
    interface,
    ipv4,
    ipv6,
    pcap,
    section,
    tcp,
)
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import measure
from warp_tools.capture.files import CaptureError
from warp_tools.capture.finder import Finder
from warp_tools.capture.pseudonyms import Pseudonyms
from warp_tools.capture.reader import Reader
from warp_tools.capture.rewrite import rewrite
from warp_tools.capture.traces import Trace, trace_lines
from warp_tools.capture.view import explain_lines, ladder_lines

NAMES = ("stun/chromium156_warp", "dtls/aiortc116_chromium156", "dtls/loss_bb_s1")
SEEDS = [(CAPTURES / f"{name}.pcap").read_bytes()[:4096] for name in NAMES]
TRACE = b"".join(
    b"\x1e" + json.dumps(record).encode() + b"\n"
    for record in (
        {"qlog_version": "0.4", "title": "a call"},
        {"time": 1.5, "name": "ice:check_sent", "data": {"pair": "~1"}},
        {"time": 2, "name": "dtls:flight_sent", "data": {"messages": 6}},
    )
)


@lru_cache(maxsize=8)
def captured(name: str) -> tuple[UdpPacket, ...]:
    return tuple(read_pcap(f"{name}.pcap")[:40])


def walk(capture: bytes) -> None:
    """Everything that the commands do with a capture."""
    try:
        reader = Reader(io.BytesIO(capture))
    except CaptureError as error:
        assert "\n" not in str(error)
        return
    finder = Finder()
    for datagram in reader:
        assert len(datagram.payload) <= datagram.length
        finder.receive(datagram)
    finder.finish()
    assert all("\n" not in note for note in reader.notes())
    for session in finder.sessions:
        assert len(session.events) <= 400
        facts = measure(session)
        json.dumps(explanation(facts))
        assert all("\n" not in line.plain for line in ladder_lines(facts, 1000))
        assert list(explain_lines(facts))


def fuzz_capture_file(data: bytes) -> None:
    """A damaged file, or bytes that are none."""
    walk(data)
    script = Script(data)
    walk(mutate(SEEDS[script.below(len(SEEDS))], script))
    packets = list(frames(captured(NAMES[0])[:12]))
    modern = section() + interface() + interface(276) + b"".join(map(enhanced, packets))
    walk(mutate(modern, script))


def fuzz_capture_datagrams(data: bytes) -> None:
    """A call with damaged, repeated, swapped and cut datagrams."""
    script = Script(data)
    packets = list(captured(NAMES[script.below(len(NAMES))]))
    payloads = [packet.payload for packet in packets]
    for _ in range(1 + script.below(8)):
        at = script.below(len(packets))
        other = packets[script.below(len(packets))]
        action = script.below(5)
        if action == 0:
            damaged = mutate(packets[at].payload, script, payloads)
            packets[at] = packets[at]._replace(payload=damaged)
        elif action == 1:
            packets[at] = other
        elif action == 2:
            packets[at] = packets[at]._replace(
                source=packets[at].destination, destination=packets[at].source
            )
        elif action == 3:
            packets[at] = packets[at]._replace(time=other.time - script.below(256))
        else:
            del packets[at]
    snap = (65535, 96, 60, 200)[script.below(4)]
    walk(pcap(frames(packets), snap=snap))


def fuzz_capture_packets(data: bytes) -> None:
    """Fragments and segments of anybody's making."""
    script = Script(data)
    packets = []
    while script and len(packets) < 60:
        body = mutate(captured(NAMES[0])[script.below(9)].payload, script)[: 1 + script.below(200)]
        kind = script.below(4)
        if kind == 0:
            identity, place = script.below(3), script.below(1 << 16)
            packet = ipv4("192.0.2.1", "192.0.2.2", body, identity=identity, fragment=place)
        elif kind == 1:
            head = bytes((17, 0)) + script.below(1 << 16).to_bytes(2, "big") + bytes(4)
            packet = ipv6("2001:db8::1", "2001:db8::2", head + body, protocol=44)
        elif kind == 2:
            segment = tcp(("192.0.2.1", 9), ("192.0.2.2", 10), script.below(2048), body)
            packet = ipv4("192.0.2.1", "192.0.2.2", segment, protocol=6)
        else:
            packet = ipv4("192.0.2.1", "192.0.2.2", body, protocol=script.below(256))
        packets.append(Packet(len(packets) * 1000, ethernet(packet)))
    walk(pcap(packets))


def fuzz_rewrite(data: bytes) -> None:
    """Redaction keeps the length of anything, and says the same of the same."""
    script = Script(data)
    real = captured(NAMES[script.below(len(NAMES))])
    for payload in (data, mutate(real[script.below(len(real))].payload, script)):
        names = Pseudonyms(b"key")
        for cut in (len(payload), len(payload) // 2):
            out = rewrite(payload[:cut], len(payload), names)
            assert len(out) == cut
            assert out == rewrite(payload[:cut], len(payload), names)


def fuzz_trace(data: bytes) -> None:
    """A damaged trace."""
    for text in (data, mutate(TRACE, Script(data))):
        try:
            trace = Trace(io.BytesIO(text))
        except CaptureError:
            continue
        assert all("\x1b" not in line.plain for line in trace_lines(trace))


@given(st.binary(max_size=300))
@example(b"\x1f\x8b\x08\x00" + bytes(20))
@settings(max_examples=60)
def test_capture_files(data: bytes) -> None:
    fuzz_capture_file(data)


@pytest.mark.slow
@given(st.binary(max_size=200))
@settings(max_examples=150)
def test_capture_datagrams(data: bytes) -> None:
    fuzz_capture_datagrams(data)


@given(st.binary(max_size=400))
@settings(max_examples=60)
def test_capture_packets(data: bytes) -> None:
    fuzz_capture_packets(data)


@given(st.binary(max_size=200))
def test_rewriting(data: bytes) -> None:
    fuzz_rewrite(data)


@given(st.binary(max_size=200))
def test_traces(data: bytes) -> None:
    fuzz_trace(data)
