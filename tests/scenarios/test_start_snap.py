"""SNAP between two whole peers: what the descriptions say decides how SCTP starts.

draft-hancke-tsvwg-snap. What a value must look like is tested beside the parser and in
`test_snap_descriptions`; here every way of agreeing, and of not agreeing, ends in an open channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scenarios.start import (
    CERTIFICATES,
    WARP,
    Call,
    Start,
    begin,
    ended,
    established,
    meddle,
    meet,
    open_channel,
    opened,
    peer,
    signal,
)
from tests.scenarios.test_snap_descriptions import UNUSABLE
from tests.sim.network import Transit
from warp.datachannel import ChannelOpened
from warp.entropy import SeededEntropy
from warp.errors import UsageError
from warp.peer import PeerConfig, PeerConnection

CLASSIC_RTT = 2.0
ONE_SIDED_RTT = 3.0
SNAP_RTT = 1.0


def lines(description: str) -> list[str]:
    return [line for line in description.splitlines() if line.startswith("a=sctp-init:")]


def without(description: str) -> str:
    return "".join(
        line for line in description.splitlines(keepends=True) if not line.startswith("a=sctp-init")
    )


def with_value(value: str) -> Callable[[str], str]:
    """Let the data section of a description carry this value, and no other."""
    return lambda description: without(description).replace(
        "a=sctp-port:", f"a=sctp-init:{value}\r\na=sctp-port:"
    )


def start_with(
    *,
    start: Start = WARP,
    offer: Callable[[str], str] = str,
    answer: Callable[[str], str] = str,
) -> tuple[Call, str, str]:
    """A call whose descriptions are altered under way; also as they were written."""
    pair = meet(start)
    client, server, now = pair.client.endpoint, pair.server.endpoint, pair.now
    offered = client.create_offer(now)
    client.set_local_description("offer", offered, now)
    server.set_remote_description("offer", offer(offered), now)
    answered = server.create_answer(now)
    server.set_local_description("answer", answered, now)
    client.set_remote_description("answer", answer(answered), now)
    open_channel(start, pair)
    return Call(start, pair), offered, answered


def opened_after(call: Call) -> float:
    """Round trips until the channel was open at the client; the call comes up."""
    assert call.until_up()
    return (call.pair.client.named(ChannelOpened)[0][0] - call.began) / call.start.rtt_s


# where the line stands ------------------------------------------------------------------------


def test_one_line_in_the_data_section() -> None:
    _, offer, answer = start_with()
    for description in (offer, answer):
        sections = description.split("\r\nm=")
        holders = [section for section in sections if "a=sctp-init:" in section]
        assert len(holders) == 1
        assert holders[0].startswith("application ")
        assert len(lines(description)) == 1


def test_no_channel_no_line() -> None:
    end = PeerConnection(
        PeerConfig(data=False), certificate=CERTIFICATES["client"], entropy=SeededEntropy(3)
    )
    assert lines(end.create_offer(0.0)) == []


def test_one_value_a_generation() -> None:
    pair = meet(WARP)
    client, server = pair.client.endpoint, pair.server.endpoint
    offers = [client.create_offer(pair.now) for _ in range(3)]
    assert len({tuple(lines(offer)) for offer in offers}) == 1
    client.set_local_description("offer", offers[-1], pair.now)
    server.set_remote_description("offer", offers[-1], pair.now)
    answers = [server.create_answer(pair.now) for _ in range(3)]
    assert len({tuple(lines(answer)) for answer in answers}) == 1
    assert lines(answers[0]) != lines(offers[0])


# both, one, none ------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [True, False], ids=["client", "client-without"])
@pytest.mark.parametrize("server", [True, False], ids=["server", "server-without"])
def test_a_line_is_answered_if_both_speak_it(client: bool, server: bool) -> None:
    call, offer, answer = start_with(start=replace(WARP, snap=client, server_snap=server))
    assert bool(lines(offer)) is client
    assert bool(lines(answer)) is (client and server)
    expected = SNAP_RTT if client and server else CLASSIC_RTT
    assert opened_after(call) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("value", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_an_offer_of_nonsense(value: str) -> None:
    call, _, answer = start_with(offer=with_value(value))
    assert lines(answer) == []
    assert opened_after(call) == pytest.approx(CLASSIC_RTT, abs=0.02)


@pytest.mark.parametrize("value", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_an_answer_of_nonsense(value: str) -> None:
    """Our server believes that SNAP is agreed on: the client's INIT tells it otherwise."""
    call, _, _ = start_with(answer=with_value(value))
    assert opened_after(call) <= ONE_SIDED_RTT + 0.02
    assert call.works()


def test_an_answer_to_what_was_not_offered() -> None:
    value = lines(peer(WARP, "server").create_offer(0.0))[0].partition(":")[2]
    call, offer, _ = start_with(start=replace(WARP, snap=False), answer=with_value(value))
    assert lines(offer) == []
    assert opened_after(call) == pytest.approx(CLASSIC_RTT, abs=0.02)


def test_an_echo() -> None:
    """A peer that copies what it does not know has not agreed to anything."""
    pair = meet(replace(WARP, server_snap=False))
    offered: list[str] = []

    def echo(answer: str) -> str:
        return with_value(offered[0])(answer)

    offered.append(lines(pair.client.endpoint.create_offer(pair.now))[0].partition(":")[2])
    signal(pair.client.endpoint, pair.server.endpoint, pair.now, rewrite=echo)
    open_channel(WARP, pair)
    call = Call(WARP, pair)
    assert opened_after(call) == pytest.approx(CLASSIC_RTT, abs=0.02)


# the first data -------------------------------------------------------------------------------


def is_last_flight(data: bytes) -> bool:
    return 20 <= data[0] <= 63 and data[0] & 0x23 == 0x22


def is_data(data: bytes) -> bool:
    return 20 <= data[0] <= 63 and data[0] & 0x23 == 0x23


@pytest.mark.parametrize("order", ["one datagram", "data first"])
def test_data_beside_the_last_flight(order: str) -> None:
    """It leaves in the same instant; however the two arrive, nothing of it is lost."""
    call = begin(WARP)
    call.talking.clear()
    flights: list[bytes] = []

    def act(sender: str, data: bytes, copies: list[Transit]) -> list[Transit]:
        if sender != "client":
            return copies
        if data[0] < 4 and call.pair.now >= call.began + call.start.rtt_s - 1e-6:
            return []  # the last flight does not come in a check either
        if is_last_flight(data):
            flights.append(data)
            if order == "data first":
                copies[0].arrives_at += 0.03
                return copies
            return []
        if is_data(data) and order == "one datagram" and flights:
            copies[0].data = flights[-1] + data
        return copies

    meddle(call.pair, act)
    assert call.pair.run(until=lambda: opened(call.pair.client))
    channel = call.pair.client.named(ChannelOpened)[0][1].channel
    channel.send("at once", call.pair.now)
    assert call.pair.run(until=lambda: "at once" in call.messages(call.pair.server), timeout_s=0.1)


def test_how_few_datagrams_a_first_message_takes() -> None:
    call = begin(WARP)
    call.talking.clear()
    assert call.pair.run(until=lambda: opened(call.pair.client))
    call.pair.client.named(ChannelOpened)[0][1].channel.send("hello", call.pair.now)
    assert call.pair.run(until=lambda: "hello" in call.messages(call.pair.server))
    assert len(call.pair.ladder) <= 12


# later descriptions ---------------------------------------------------------------------------


def offer_again(call: Call, rewrite: Callable[[str], str] = str) -> str:
    """Another offer of the client, altered under way; the server's answer."""
    now = call.pair.now
    offer = call.client.create_offer(now)
    call.client.set_local_description("offer", offer, now)
    call.server.set_remote_description("offer", rewrite(offer), now)
    answer = call.server.create_answer(now)
    call.server.set_local_description("answer", answer, now)
    call.client.set_remote_description("answer", answer, now)
    return answer


OTHER = "AQAAHgAAAAEAEAAA/////wAAAAfAAAAEgAgABoLA"


@pytest.mark.parametrize("rewrite", [without, with_value(OTHER)], ids=["missing", "changed"])
def test_a_changed_value_is_refused_and_the_call_goes_on(rewrite: Callable[[str], str]) -> None:
    call = established()
    with pytest.raises(UsageError):
        offer_again(call, rewrite)
    assert call.works()


def test_a_line_on_an_ordinary_association() -> None:
    call = established(replace(WARP, snap=False, server_snap=True))
    assert lines(offer_again(call, with_value(OTHER))) == []
    assert call.works()


def test_an_ice_restart_keeps_value_and_association() -> None:
    call = established()
    now = call.pair.now
    before = lines(call.client.create_offer(now))
    offer = call.client.create_offer(now, ice_restart=True)
    assert lines(offer) == before
    call.client.set_local_description("offer", offer, now)
    call.server.set_remote_description("offer", offer, now)
    answer = call.server.create_answer(now)
    call.server.set_local_description("answer", answer, now)
    call.client.set_remote_description("answer", answer, now)
    call.pair.run_for(1.0)
    assert call.works()
    assert len(call.pair.client.named(ChannelOpened)) == 1


def test_another_dtls_association_takes_another_connection() -> None:
    """The call lives on when a description asks for one; a new connection has a new value."""
    call = established()
    fingerprint = next(
        line for line in call.client.create_offer(0.0).splitlines() if "a=fingerprint" in line
    )
    other = fingerprint[:-2] + ("00" if fingerprint[-2:] != "00" else "11")
    with pytest.raises(UsageError):
        offer_again(call, lambda offer: offer.replace(fingerprint, other))
    assert call.works()
    fresh = peer(replace(WARP, seed=99), "client")
    assert lines(fresh.create_offer(0.0)) != lines(call.client.create_offer(0.0))


def test_our_own_value_may_not_be_altered() -> None:
    pair = meet(WARP)
    client = pair.client.endpoint
    offer = client.create_offer(pair.now)
    with pytest.raises(UsageError):
        client.set_local_description("offer", with_value(OTHER)(offer), pair.now)
    client.set_local_description("offer", offer, pair.now)


def test_after_a_rollback() -> None:
    pair = meet(WARP)
    client, server = pair.client.endpoint, pair.server.endpoint
    first = client.create_offer(pair.now)
    client.set_local_description("offer", first, pair.now)
    client.rollback()
    server.set_remote_description("offer", first, pair.now)
    server.rollback()
    signal(client, server, pair.now)
    open_channel(WARP, pair)
    call = Call(WARP, pair)
    assert opened_after(call) == pytest.approx(SNAP_RTT, abs=0.02)
    assert not ended(call.pair.client)


def test_a_channel_section_that_comes_later() -> None:
    """Turned down at first: no line. The offer that brings it has one, and the channel opens."""

    def rejected(description: str) -> str:
        head, _, tail = description.partition("m=application ")
        return head.replace("BUNDLE 0 1", "BUNDLE 0") + "m=application 0 " + tail.split(" ", 1)[1]

    late = meet(WARP)
    client, server, now = late.client.endpoint, late.server.endpoint, late.now
    offer = rejected(client.create_offer(now))
    client.set_local_description("offer", offer, now)
    server.set_remote_description("offer", offer, now)
    answer = server.create_answer(now)
    assert lines(answer) == []
    server.set_local_description("answer", answer, now)
    client.set_remote_description("answer", answer, now)
    open_channel(WARP, late)
    call = Call(WARP, late)
    late.run_for(1.0)
    assert not opened(late.client)
    again = client.create_offer(late.now)
    assert len(lines(again)) == 1
    signal(client, server, late.now)
    assert call.until_up()
    assert call.works()
