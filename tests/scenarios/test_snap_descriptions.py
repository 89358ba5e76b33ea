"""SNAP between two descriptions, with `warp.sctp` to say what an INIT chunk is.

Every unusable value leads to an answer without one, and then to the ordinary handshake.
"""

from __future__ import annotations

import base64

import pytest

from tests.sim.pair import Pair
from tests.unit.sdp.build import local, reparse
from warp.entropy import SeededEntropy
from warp.errors import Discard
from warp.sctp import Association, SctpConfig, local_init, parse_init
from warp.sdp import (
    SessionDescription,
    SnapMode,
    SnapNegotiation,
    create_answer,
    create_offer,
    parse_description,
)

CONFIG = SctpConfig(heartbeat_interval_s=None)
OURS = local_init(CONFIG, SeededEntropy(1))
THEIRS = local_init(CONFIG, SeededEntropy(2))

UNUSABLE = {
    "ASCII": "Q29va2llTW9uc3Rlcg==",
    "star": "*",
    "no base64": "!!!not-valid-base64!!!",
    "one byte": "AQ==",
    "length field of another": "AQIDBAUGBwgJCgsMDQ4PEA==",
    "INIT ACK": "AgAAHgAAAAEAEAAA/////wAAAAfAAAAEgAgABoLA",
    "tag 0": "AQAAHgAAAAAAEAAA/////wAAAAHAAAAEgAgABoLA",
    "window below 1500": "AQAAHgAAAAEAAAQA/////wAAAAfAAAAEgAgABoLA",
    "longer than it is": "AQAAKAAAAAEAEAAA/////wAAAAfAAAAEgAgABoLA",
    "unknown parameter that stops": "AQAAJgAAAAEAEAAA/////wAAAAd//wAIAQIDBMAAAASACAAGgsA=",
    "parameter of length 0": "AQAAKBEiM0QAEAAA//////////DAAAAAgAEACAAAAAGACAAIgsBAwg==",
    "parameter of length 3": "AQAAKBEiM0QAEAAA//////////DAAAADgAEACAAAAAGACAAIgsBAwg==",
    "2049 bytes": base64.b64encode(OURS.to_bytes() + bytes(2019)).decode(),
    "two lines": "AQAAHgAAAAEAEAAA/////wAAAAfAAAAEgAgABoLA\r\na=sctp-init:AQAAHgAAAAEAEAAA/////wA"
    "AAAfAAAAEgAgABoLA",
}
USABLE = {
    "draft": "AQAAHols3R0AUAAA/////+B5ZR3AAAAEgAgABoLA",
    "Chromium": "AQAAHsfExL0AUAAA/////3JvqmbAAAAEgAgABoLA",
    "shape of pion": "AQAAHGVPFd8AEAAA/////9tAK2qACAAIgsBAwg==",
    "first TSN 0": "AQAAHgAAAAEAEAAA/////wAAAADAAAAEgAgABoLA",
    "two bytes of padding": "AQAAHgAAAAEAEAAA/////wAAAAfAAAAEgAgABoLAAAA=",
    "unknown parameter to skip": "AQAAJgAAAAEAEAAA/////wAAAAe//wAIAQIDBMAAAASACAAGgsA=",
}


def usable(description: SessionDescription) -> bytes | None:
    """The chunk that a description carries, if `warp.sctp` takes it for an INIT."""
    section = description.data_section()
    raw = section.sctp.init if section is not None and section.sctp is not None else None
    if raw is None:
        return None
    try:
        parse_init(raw)
    except Discard:
        return None
    return raw


def answer(offer: SessionDescription) -> tuple[SnapNegotiation, SessionDescription]:
    """What our side answers to an offer."""
    snap = SnapNegotiation(OURS.to_bytes())
    snap.receive_offer(usable(offer))
    return snap, reparse(create_answer(offer, local(), sctp_init=snap.chunk_to_answer()))


def offer_with(value: str) -> SessionDescription:
    """An offer whose sctp-init line has this value."""
    text = str(create_offer(local(), sctp_init=THEIRS.to_bytes()))
    line = next(line for line in text.splitlines() if line.startswith("a=sctp-init:"))
    return parse_description(text.replace(line, f"a=sctp-init:{value}"))


@pytest.mark.parametrize("name", sorted(UNUSABLE))
def test_an_unusable_value_is_answered_without_one(name: str) -> None:
    snap, answered = answer(offer_with(UNUSABLE[name]))
    assert snap.mode is SnapMode.CLASSIC
    assert "sctp-init" not in str(answered) and answered.data_section() is not None


@pytest.mark.parametrize("name", sorted(USABLE))
def test_a_usable_value_is_answered(name: str) -> None:
    snap, answered = answer(offer_with(USABLE[name]))
    assert snap.mode is SnapMode.SNAP and snap.remote == base64.b64decode(USABLE[name])
    assert usable(answered) == OURS.to_bytes()


@pytest.mark.parametrize("name", sorted(UNUSABLE))
def test_an_unusable_value_in_an_answer_means_the_ordinary_handshake(name: str) -> None:
    snap = SnapNegotiation(OURS.to_bytes())
    offer = create_offer(local(), sctp_init=snap.chunk_to_offer())
    _, answered = answer(offer_with(USABLE["draft"]))
    line = next(line for line in str(answered).splitlines() if "sctp-init" in line)
    spoiled = str(answered).replace(line, f"a=sctp-init:{UNUSABLE[name]}")
    assert offer.data_section() is not None
    snap.receive_answer(usable(parse_description(spoiled)))
    assert snap.mode is SnapMode.CLASSIC


def test_the_ordinary_handshake_follows_with_other_numbers() -> None:
    """A peer without SNAP: neither tag nor first TSN of the unused chunk appears on the wire."""
    snap = SnapNegotiation(OURS.to_bytes())
    offer = create_offer(local(), sctp_init=snap.chunk_to_offer())
    plain = create_answer(offer, local())
    snap.receive_answer(usable(reparse(plain)))
    assert snap.mode is SnapMode.CLASSIC
    ends = [
        Association(CONFIG, local_init=init, entropy=SeededEntropy(10 + n))
        for n, init in enumerate((OURS, None))
    ]
    pair = Pair(*ends)
    for end in ends:
        end.start(pair.now)
    assert pair.run(until=lambda: all(end.established for end in ends), timeout_s=5.0)
    unused = (OURS.initiate_tag.to_bytes(4, "big"), OURS.initial_tsn.to_bytes(4, "big"))
    assert not any(number in step.data for step in pair.ladder for number in unused)


def test_an_echoing_peer_gets_the_ordinary_handshake() -> None:
    """A peer that copies lines it does not know into its answer has not agreed to anything."""
    snap = SnapNegotiation(OURS.to_bytes())
    offer = create_offer(local(), sctp_init=snap.chunk_to_offer())
    line = next(line for line in str(offer).splitlines() if "sctp-init" in line)
    copied = str(create_answer(offer, local())) + line + "\r\n"
    snap.receive_answer(usable(parse_description(copied)))
    assert snap.mode is SnapMode.CLASSIC


def test_both_sides_end_with_each_others_chunk() -> None:
    ours = SnapNegotiation(OURS.to_bytes())
    offer = reparse(create_offer(local(), sctp_init=ours.chunk_to_offer()))
    theirs = SnapNegotiation(THEIRS.to_bytes())
    theirs.receive_offer(usable(offer))
    answered = reparse(create_answer(offer, local(), sctp_init=theirs.chunk_to_answer()))
    ours.receive_answer(usable(answered))
    assert ours.mode is theirs.mode is SnapMode.SNAP
    assert (ours.remote, theirs.remote) == (theirs.local, ours.local)
