"""SCTP by its sizes: what they settle, and what they do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.pcap import CAPTURES, UdpPacket, read_pcap
from tests.unit.tools.capture.builder import frames, pcap
from tests.unit.tools.capture.simulated import facts_of
from warp_tools.capture.channel import Channel, _known_snap
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import Facts
from warp_tools.capture.opened import OpenedPacket, opened_with
from warp_tools.capture.run import read

DEFAULT = "stun/chromium156_default"
CLIENT_DONE = 9
"""Packets of that capture up to the client's flight, and the ACK of it behind the first data."""


def channel(*sizes: tuple[int, int]) -> Channel:
    return measured(*sizes).channel


def measured(*sizes: tuple[int, int]) -> Facts:
    """Measure a call whose protected data has these sizes: (side, bytes of content)."""
    packets = read_pcap(f"{DEFAULT}.pcap")[:CLIENT_DONE]
    first, second = packets[0].source, packets[0].destination
    at = packets[-1].time
    for n, (side, size) in enumerate(sizes):
        ends = (first, second) if side == 0 else (second, first)
        record = b"\x2f" + n.to_bytes(2, "big") + (size + 17).to_bytes(2, "big") + bytes(size + 17)
        packets.append(UdpPacket(at + (n + 1) / 1000, *ends, record))
    return facts_of(pcap(frames(packets)))


HANDSHAKE = [(0, 44), (1, 44), (1, 96), (0, 96), (0, 64), (1, 64), (1, 16), (0, 16)]


@pytest.mark.parametrize(
    ("sizes", "snap", "dcep"),
    [
        ([], None, None),
        ([(0, 32), (1, 28)], True, "negotiated"),
        ([(0, 32), (1, 32), (1, 28), (0, 28)], True, "negotiated"),
        ([(0, 44), (1, 28)], True, None),  # may be an OPEN
        ([(0, 28), (1, 28)], True, None),  # nothing was said
        (HANDSHAKE, False, None),
        ([*HANDSHAKE, (0, 32), (1, 28)], False, "negotiated"),
        ([*HANDSHAKE, (0, 32), (1, 32), (0, 28), (1, 28)], False, "negotiated"),
        ([*HANDSHAKE, (0, 32)], False, None),  # nothing says that it is the first
        ([*HANDSHAKE, (0, 32), (1, 32), (0, 48), (1, 28)], False, None),  # an OPEN, after all
        ([*HANDSHAKE, (1, 28), (0, 32), (1, 28)], False, None),  # of what was not captured
        ([*HANDSHAKE, (0, 48)], False, None),
        ([(0, 16)], None, None),  # ABORT, or SHUTDOWN ACK: an association ends
        ([(0, 20), (1, 16), (0, 16)], None, None),
        ([(0, 44), (1, 96), (0, 64), (1, 16), (0, 32)], False, None),  # only one side asks
        ([*HANDSHAKE[:4], (0, 92), *HANDSHAKE[5:], (0, 32)], False, None),  # an echo with more
        ([(0, 44), (0, 44), (0, 44), (1, 28)], True, None),
        ([(0, 32), (0, 32), (0, 32), (0, 28), (1, 28)], None, None),
        ([(0, 4), (1, 4)], None, None),  # no SCTP packet is so short
        ([(0, 33), (1, 29)], None, None),
        ([(1, 18), (0, 32), (1, 34), (1, 28)], True, "negotiated"),  # ACKs of DTLS are none
        ([(1, 2), (0, 2)], None, None),  # alerts
    ],
)
def test_sizes(sizes: list[tuple[int, int]], snap: bool | None, dcep: str | None) -> None:
    found = channel(*sizes)
    assert (found.snap, found.dcep) == (snap, dcep)
    assert found.snap_reason and found.dcep_reason


def test_an_abort_at_the_end_is_no_cookie_ack() -> None:
    one = [(0, 44), (1, 140), (0, 100), (1, 16)]  # only one side asks
    rest = [(0, 32), (1, 48), (0, 28), (1, 32), (0, 28), (0, 36), (1, 28), (1, 20), (0, 16)]
    found = channel(*one, *rest)
    assert found.cookie_acks[0] is None and found.cookie_acks[1].number == CLIENT_DONE + 4


@pytest.mark.parametrize(
    ("rest", "known"),
    [
        ([], True),
        ([(0, 36), (1, 28), (1, 36), (0, 28)], True),  # too short for an OPEN
        ([(0, 200), (1, 28)], True),  # nobody answers it
        ([(0, 56), (1, 48)], False),
        ([(1, 56), (0, 32), (1, 28)], False),
        ([(0, 56), (1, 28), (1, 32)], False),
    ],
)
def test_channels_behind_the_first(rest: list[tuple[int, int]], known: bool) -> None:
    """An OPEN that was answered needs a message of its length, and one back."""
    for before in ([], HANDSHAKE):
        found = channel(*before, (0, 32), (1, 28), *rest)
        assert found.dcep == "negotiated"
        assert (found.others == "") is known


def test_a_long_call_may_open_any_channel_later() -> None:
    assert "first packets" in channel(*[(0, 32), (1, 28)] * 100).others


def test_who_was_first_and_who_ended_the_handshake() -> None:
    found = channel(*HANDSHAKE)
    first = [found.first(side).number for side in (0, 1)]
    assert first == [CLIENT_DONE + 1, CLIENT_DONE + 2]
    assert [event.number for event in found.cookie_acks] == [CLIENT_DONE + 8, CLIENT_DONE + 7]


def test_a_cookie_ack_that_goes_with_data_leaves_the_end_open() -> None:
    """Both sides ask; the COOKIE ACK of one stands in a longer packet, which sizes do not show."""
    sizes = [(0, 44), (1, 52), (1, 140), (0, 72), (0, 100), (1, 40), (1, 172), (0, 16), (1, 28)]
    found = channel(*sizes)
    assert (found.snap, found.hidden) == (False, True)
    assert not channel(*HANDSHAKE).hidden
    assert not channel((0, 44), (1, 96), (0, 64), (1, 16), (0, 32)).hidden


@pytest.mark.parametrize(
    ("chunks", "snap"),
    [
        ([(0,), (3,)], True),
        ([(64,)], True),
        ([(6,)], None),  # an ABORT is all there is
        ([], None),
        ([(10,), (0,)], False),  # the INIT was not captured
        ([(11, 0), (3,)], False),
        ([(6,), (2,)], False),
    ],
)
def test_chunks_in_the_clear(chunks: list[tuple[int, ...]], snap: bool | None) -> None:
    packets = [OpenedPacket(number, 40, kinds) for number, kinds in enumerate(chunks, 1)]
    found, reason = _known_snap(packets)
    assert found is snap and reason


# -- what is not known has its reason, and what would help ----------------------------------------


def told(*sizes: tuple[int, int]) -> dict[str, Any]:
    return explanation(measured(*sizes))


def test_stages_that_sizes_do_not_show_say_what_would() -> None:
    undecided = told((0, 32), (0, 32), (0, 32), (0, 28), (1, 28))["unknown"]
    for key in ("snap", "dcep", "stages.sctp"):
        assert undecided[key].endswith("(keys needed: give --keylog)"), key
    both_ask = [*HANDSHAKE[:6], (1, 16), (0, 48)]
    hidden = told(*both_ask)
    assert hidden["snap"] is False and "sctp_A" not in hidden["stages"]
    assert "a COOKIE ACK stands in a longer packet" in hidden["unknown"]["stages.sctp"]
    snap = told((0, 32), (1, 28))
    assert "stages.sctp" not in snap["unknown"]
    assert "no handshake of SCTP" in snap["evidence"]["stages.sctp"]
    whole = told(*HANDSHAKE)
    assert {"sctp_A", "sctp_B"} <= set(whole["stages"]) and "stages.sctp" not in whole["unknown"]


def test_keys_are_not_asked_for_where_they_do_not_help() -> None:
    assert "keys" not in told()["unknown"]["snap"]  # nothing of SCTP was captured
    assert told((0, 28), (1, 28))["unknown"]["dcep"] == "no message was seen on a channel"
    capture, other = CAPTURES / "peers/pion_v4.pcap", CAPTURES / "peers/str0m0_24.keys"
    (facts,) = read(capture, opened=opened_with(other)).facts()
    assert explanation(facts)["unknown"]["dcep"].endswith("(the key log does not open them)")
    (facts,) = read(capture, opened=opened_with(capture.with_suffix(".keys"))).facts()
    assert not {"snap", "dcep", "stages.sctp"} & explanation(facts)["unknown"].keys()
