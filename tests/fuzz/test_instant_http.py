"""Offers of attempts and of JSON clients in any condition: served, or refused for what they are."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from instant_connect.answers import Status
from instant_connect.config import SignallingConfig
from instant_connect.decisions import Arrived
from instant_connect.exchange import JSON, Ask, Refusal, Reply
from instant_connect.metrics import metrics_of, prometheus
from instant_connect.pipecat import PipecatDoor
from instant_connect.signalling import Signalling
from tests.fuzz.mutation import Script, mutate_lines
from tests.fuzz.test_signalling import OFFERS, PureServer
from tests.unit.instant_connect.door import CONTROLLING, NOW, SPED_HELLO, flow, make_host
from tests.unit.instant_connect.test_answers import attempt, knock, own_offer
from warp.entropy import SeededEntropy
from warp.errors import InvalidState, WarpError
from warp.sdp import SdpError, parse_description

OWN = own_offer()
NAMES = st.sampled_from(
    ["sdp", "type", "pc_id", "restart_pc", "request_data", "requestData", "candidates", "candidate"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["offer", "answer", *OFFERS[:2], "candidate:1 1 udp 1 192.0.2.1 9 typ host"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def fuzz_json_offer(data: bytes) -> None:
    """Whatever comes to the JSON door: a reply, or a refusal."""
    signalling = Signalling(
        PureServer(), SignallingConfig(), entropy=SeededEntropy(1), welcome=lambda call: None
    )
    door = PipecatDoor(signalling, max_body_bytes=65_536)
    ask = Ask(content_type=JSON, body=data)
    for answer in (lambda: asyncio.run(door.open(ask, lambda: 0.0)), lambda: door.patch(ask)):
        try:
            reply = answer()
        except Refusal as refusal:
            reply = refusal.reply()
        assert isinstance(reply, Reply)
        json.loads(reply.body)


def fuzz_answered_offer(data: bytes) -> None:
    """A damaged offer, alone or beside an attempt: what is answered begins with its datagram."""
    script = Script(data)
    host = make_host()
    call = attempt(host, OWN)
    base = _pick(script, [OWN, *OFFERS])
    offer = mutate_lines(base, script)
    ufrag = _pick(script, [call.ufrag, "", call.ufrag[:-1], "abcd"])
    proof = _pick(script, [call.proof, "", "x"])
    try:
        description = parse_description(offer)
        answer = host.answers.attach(description, ufrag, proof, NOW)
    except (SdpError, InvalidState, WarpError):
        assert host.stats()["held_offers"] == 0
        return
    assert answer.status in (Status.NEW, Status.ATTACHED)
    # or the first answer stands
    with contextlib.suppress(SdpError, WarpError):
        again = parse_description(mutate_lines(base, script))
        answer = host.answers.revise(answer.ufrag, again, NOW)
    decision = host.receive_unknown(knock(answer).check(CONTROLLING, SPED_HELLO), flow(), NOW)
    assert isinstance(decision, Arrived)
    for datagram in decision.datagrams:
        decision.session.peer.receive_datagram(datagram, flow(), NOW)
    prometheus(metrics_of(host))


def _pick(script: Script, choices: list[str]) -> str:
    return choices[script.below(len(choices))]


SEEDS = [json.dumps({"sdp": OFFERS[0], "type": "offer"}), "0", ""]


@given(st.dictionaries(NAMES, VALUES, max_size=6))
@example({"sdp": OFFERS[0], "type": "offer"})
@example({"pc_id": "x", "candidates": []})
def test_any_object(value: dict[str, Any]) -> None:
    fuzz_json_offer(json.dumps(value).encode())


@given(st.binary(max_size=200))
@example(b"")
@example(b"[" * 100_000)
def test_any_body(data: bytes) -> None:
    fuzz_json_offer(data)


@given(st.binary(max_size=120))
@example(b"")
def test_damaged_offers_of_attempts(data: bytes) -> None:
    fuzz_answered_offer(data)
