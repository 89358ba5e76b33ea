"""Real checks of Chromium 156 against our agents (tests/vectors/README.md tells their origin).

The captured requests were made for one side's password; an agent that holds those credentials
has to take them as its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ice.helpers import Diary, host
from warp.contract import Flow
from warp.crypto import HmacSha1
from warp.entropy import SeededEntropy
from warp.ice import IceAgent, IceConfig, IceCredentials, IceRole, PairValidated
from warp.stun import Attribute, MessageClass, parse_message

CALLS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "sped_vectors.json").read_text()
)
HOST = "192.0.2.1"


def sides(call: dict[str, Any]) -> tuple[IceCredentials, IceCredentials]:
    return (
        IceCredentials(call["offer_ufrag"], call["offer_pwd"]),
        IceCredentials(call["answer_ufrag"], call["answer_pwd"]),
    )


def requests() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [
        (call, packet) for call in CALLS for packet in call["packets"] if packet["kind"] == "REQ"
    ]


def receiver(call: dict[str, Any], packet: dict[str, Any], **options: Any) -> IceAgent:
    """An agent in the place of the browser that this request was sent to."""
    offer, answer = sides(call)
    local, remote = (offer, answer) if packet["key"] == offer.pwd else (answer, offer)
    message = parse_message(bytes.fromhex(packet["hex"]))
    peer_controls = message.get(Attribute.ICE_CONTROLLING) is not None
    agent = IceAgent(
        IceConfig(lite=options.pop("lite", False)),
        role=IceRole.CONTROLLED if peer_controls else IceRole.CONTROLLING,
        local=local,
        entropy=SeededEntropy(1),
        **options,
    )
    agent.set_remote_credentials(remote, 0.0)
    agent.start(0.0)
    return agent


def flow_of(packet: dict[str, Any]) -> Flow:
    return Flow((HOST, packet["dst"]), (HOST, packet["src"]))


def test_there_are_requests_of_both_roles() -> None:
    kinds = {"802a/8" in packet["attrs"] for _, packet in requests()}
    assert kinds == {True, False}


@pytest.mark.parametrize(("call", "packet"), requests(), ids=lambda v: str(v.get("n", "")))
def test_a_browsers_check_is_authenticated_and_answered(
    call: dict[str, Any], packet: dict[str, Any]
) -> None:
    diary = Diary()
    agent = receiver(call, packet, rider=diary)
    flow = flow_of(packet)
    agent.receive_datagram(bytes.fromhex(packet["hex"]), flow, 1.0)
    response = parse_message(agent.datagrams_to_send(1.0)[0][0])
    assert response.message_class is MessageClass.SUCCESS
    assert response.verify_integrity(HmacSha1(packet["key"].encode()))
    assert agent.flow == flow
    assert agent.discards == {}
    assert diary.received == [(MessageClass.REQUEST, flow)]


def test_a_browser_selects_on_a_lite_agent() -> None:
    marked = [(c, p) for c, p in requests() if "0025/0" in p["attrs"]]
    assert marked
    for call, packet in marked:
        agent = receiver(call, packet, lite=True)
        agent.receive_datagram(bytes.fromhex(packet["hex"]), flow_of(packet), 1.0)
        assert agent.selected_flow == flow_of(packet)


@pytest.mark.parametrize("position", [3, 21, 40, -30, -1])
def test_one_flipped_bit_and_there_is_no_answer(position: int) -> None:
    for call, packet in requests():
        agent = receiver(call, packet, lite=True)
        data = bytearray(bytes.fromhex(packet["hex"]))
        data[position] ^= 1
        agent.receive_datagram(bytes(data), flow_of(packet), 1.0)
        assert agent.datagrams_to_send(1.0) == []
        assert agent.flow is None
        assert sum(agent.discards.values()) == 1


class Scripted(SeededEntropy):
    """Gives the transaction ids of a captured check, so that its captured answer fits."""

    __slots__ = ("_ids",)

    def __init__(self, ids: list[bytes]) -> None:
        super().__init__(1)
        self._ids = ids

    def random_bytes(self, length: int) -> bytes:
        if length == 12 and self._ids:
            return self._ids.pop(0)
        return super().random_bytes(length)


def test_a_browsers_answer_validates_the_pair() -> None:
    count = 0
    for call in CALLS:
        asked = {p["hex"][16:40]: p for p in call["packets"] if p["kind"] == "REQ"}
        for packet in call["packets"]:
            request = asked.get(packet["hex"][16:40])
            if packet["kind"] != "RSP" or request is None:
                continue
            offer, answer = sides(call)
            # the answer is signed with the answering side's password
            local, remote = (answer, offer) if packet["key"] == offer.pwd else (offer, answer)
            agent = IceAgent(
                IceConfig(),
                role=IceRole.CONTROLLING,
                local=local,
                entropy=Scripted([bytes.fromhex(packet["hex"][16:40])]),
            )
            flow = flow_of(packet)
            agent.add_local_candidate(host(flow.local), 1.0)
            agent.set_remote_credentials(remote, 1.0)
            agent.add_remote_candidate(host(flow.remote), 1.0)
            agent.start(1.0)
            assert len(agent.datagrams_to_send(1.0)) == 1
            agent.receive_datagram(bytes.fromhex(packet["hex"]), flow, 1.25)
            assert PairValidated(flow, 0.25) in agent.events(), call["capture"]
            count += 1
    assert count >= 8


def test_our_check_has_a_browsers_attributes_in_a_browsers_order() -> None:
    """Chromium's order: USERNAME, its network cost, role, [USE-CANDIDATE], PRIORITY, riders."""
    _, packet = requests()[0]
    message = parse_message(bytes.fromhex(packet["hex"]))
    theirs = [kind for kind, _ in message.attributes if kind not in (0xC057, 0xC071, 0xC070)]
    agent = IceAgent(
        IceConfig(),
        role=IceRole.CONTROLLED,
        local=IceCredentials("aaaa", "p" * 22),
        entropy=SeededEntropy(1),
    )
    agent.add_local_candidate(host((HOST, 1)), 1.0)
    agent.set_remote_credentials(IceCredentials("bbbb", "q" * 22), 1.0)
    agent.add_remote_candidate(host((HOST, 2)), 1.0)
    agent.start(1.0)
    ((data, _),) = agent.datagrams_to_send(1.0)
    assert [kind for kind, _ in parse_message(data).attributes] == theirs
