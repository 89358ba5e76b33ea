"""The life of a call after its start: moving, restarting, renegotiating, and its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.scenarios.start import (
    OPUS,
    PLAIN,
    WARP,
    Call,
    Start,
    begin,
    ended,
    established,
    heard,
    show,
    sieve,
)
from tests.sim.pair import CLIENT, Node
from warp.contract import Address
from warp.datachannel import ChannelClosed, ChannelConfig, ChannelOpened
from warp.errors import ConsentLost, HandshakeTimedOut, InvalidState, NoPath
from warp.ice import IceRole
from warp.ice.nomination import Nominator
from warp.peer import AudioReceived, ConnectionState, PeerConnection, Terminated

FULL = replace(WARP, lite=False)
SERVERS = pytest.mark.parametrize("start", [WARP, FULL], ids=["lite", "full"])
ELSEWHERE: Address = ("198.51.100.9", 44444)


def longest_silence(call: Call, node: Node, since: float) -> float:
    """The longest time without audio at one end, seconds."""
    moments = [since, *(at for at, _ in node.named(AudioReceived) if at >= since), call.pair.now]
    return max(later - earlier for earlier, later in pairwise(moments))


def talkative(start: Start) -> Call:
    call = begin(start, frame_s=0.02)
    assert call.until_up()
    call.pair.run_for(1.0)
    return call


# moving -------------------------------------------------------------------------------------------


@pytest.mark.slow
@SERVERS
@pytest.mark.parametrize("seed", range(3))
def test_a_nat_that_forgets(start: Start, seed: int) -> None:
    """The server follows with the client's next check, which is due every 4 to 6 s."""
    call = talkative(replace(start, seed=seed))
    since = call.pair.now
    call.pair.network.rebind(CLIENT, ELSEWHERE)
    call.pair.run_for(8.0)
    assert longest_silence(call, call.pair.server, since) < 0.1
    assert longest_silence(call, call.pair.client, since) < 6.0 + 2 * start.rtt_s
    assert call.works(0.5)
    assert call.server.stats()["flow"].remote == ELSEWHERE


@SERVERS
def test_a_nat_that_forgets_who_nominated_once(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consent check of a client like Firefox is no nomination; that it speaks there tells."""
    monkeypatch.setattr(
        Nominator,
        "marks",
        lambda self, pair: self.role is IceRole.CONTROLLING and pair is self.candidate,
    )
    call = talkative(start)
    since = call.pair.now
    call.pair.network.rebind(CLIENT, ELSEWHERE)
    call.pair.run_for(9.0)
    assert longest_silence(call, call.pair.client, since) < 7.5
    assert call.works(0.5)
    assert call.server.stats()["flow"].remote == ELSEWHERE


@SERVERS
@pytest.mark.parametrize("audio", [True, False], ids=["talking", "silent"])
def test_from_one_network_to_another(start: Start, audio: bool) -> None:
    call = talkative(start)
    if not audio:
        call.talking.clear()
        call.pair.run_for(2.0)
    since = call.pair.now
    call.pair.network.attach("client", ELSEWHERE)
    call.client.add_local_address(ELSEWHERE, since)
    call.client.remove_local_address(CLIENT[0], since)
    call.pair.run_for(2.0)
    assert call.server.stats()["flow"].remote == ELSEWHERE
    assert call.client.stats()["flow"].local == ELSEWHERE
    if audio:
        for node in (call.pair.client, call.pair.server):
            assert longest_silence(call, node, since) < 0.1 + 2 * start.rtt_s
    call.talking.update(("client", "server"))
    assert call.works(0.5)


def test_in_the_middle_of_the_handshake() -> None:
    """What is missing goes to the new pair at once, and waits for no timeout of DTLS."""
    call = begin(replace(WARP, rtt_s=0.2))
    moment = call.began + 0.19

    def move(now: float) -> None:
        call.pair.network.attach("client", ELSEWHERE)
        call.pair.up.down = True  # whatever leaves from the old address is lost
        call.client.add_local_address(ELSEWHERE, now)
        call.client.remove_local_address(CLIENT[0], now)
        call.pair.up.down = False

    call.pair.at(moment, move)
    sieve(call.pair, lambda sender, data: False)
    assert call.until_up()
    # a first check from the new address, its answer with the flight, the last flight
    assert call.pair.now <= moment + 1.6 * call.start.rtt_s + 0.06, show(call.pair)
    assert call.server.stats()["flow"].remote == ELSEWHERE


def test_a_repeated_nomination_moves_nothing() -> None:
    """Somebody who saw a check sends it again as from elsewhere, over and over."""
    call = talkative(WARP)
    since = call.pair.now
    checks = [s.data for s in call.pair.sent("client", "stun") if s.data[:2] == b"\x00\x01"]
    for wait in range(20):
        for check in checks:
            call.pair.at(
                since + wait * 0.25,
                lambda now, check=check: call.pair.inject(check, ELSEWHERE, ("203.0.113.1", 443)),
            )
    call.pair.run_for(6.0)
    assert call.server.stats()["flow"].remote == CLIENT
    assert longest_silence(call, call.pair.client, since) < 0.1


# consent ------------------------------------------------------------------------------------------


@SERVERS
def test_thirty_seconds_of_nothing(start: Start) -> None:
    call = established(start)
    call.talking.clear()
    cut = call.pair.now
    call.pair.up.down = call.pair.down.down = True
    call.pair.run_for(45.0)
    for node in (call.pair.client, call.pair.server):
        [(at, event)] = node.named(Terminated)
        assert isinstance(event.error, ConsentLost)
        assert 23.0 <= at - cut <= 31.0
        assert node.endpoint.state is ConnectionState.FAILED
        assert node.endpoint.get_timer() is None
        assert node.named(ChannelClosed)


@SERVERS
def test_twenty_seconds_of_nothing(start: Start) -> None:
    """A tunnel: the call is there again when the network is."""
    call = established(start)
    call.pair.up.down = call.pair.down.down = True
    call.pair.run_for(20.0)
    call.pair.up.down = call.pair.down.down = False
    call.pair.run_for(8.0)
    assert call.works()


@pytest.mark.slow
@SERVERS
def test_ten_idle_minutes(start: Start) -> None:
    """Consent alone keeps it; nothing grows, and it works at once."""
    call = established(start)
    call.talking.clear()
    before = len(call.pair.ladder)
    call.pair.run_for(600.0)
    per_minute = (len(call.pair.ladder) - before) / 10
    assert per_minute < 120
    call.talking.update(("client", "server"))
    assert call.works()


# descriptions in mid-call -------------------------------------------------------------------------


def renegotiate(
    call: Call,
    *,
    by_server: bool = False,
    ice_restart: bool = False,
    rewrite: Callable[[str], str] = str,
) -> tuple[str, str]:
    """Exchange another offer and answer; returns both."""
    now = call.pair.now
    ours, theirs = (call.server, call.client) if by_server else (call.client, call.server)
    offer = rewrite(ours.create_offer(now, ice_restart=ice_restart))
    ours.set_local_description("offer", offer, now)
    theirs.set_remote_description("offer", offer, now)
    answer = theirs.create_answer(now)
    theirs.set_local_description("answer", answer, now)
    ours.set_remote_description("answer", answer, now)
    return offer, answer


def ice_lines(description: str) -> set[str]:
    return {line for line in description.splitlines() if line.startswith("a=ice-ufrag")}


BY = pytest.mark.parametrize("by_server", [False, True], ids=["client-offers", "server-offers"])


@SERVERS
@BY
def test_an_ice_restart(start: Start, by_server: bool) -> None:
    call = talkative(start)
    since = call.pair.now
    before = ice_lines(call.client.create_offer(since))
    offer, answer = renegotiate(call, by_server=by_server, ice_restart=True)
    assert not ice_lines(offer) & before and not ice_lines(answer) & before
    call.pair.run_for(1.0)
    for node in (call.pair.client, call.pair.server):
        assert longest_silence(call, node, since) < 0.1
        assert not ended(node)
    assert call.works(0.5)
    # once more, and from the other side
    renegotiate(call, by_server=not by_server, ice_restart=True)
    call.pair.run_for(1.0)
    assert call.works(0.5)


@SERVERS
def test_an_ice_restart_after_the_path_has_died(start: Start) -> None:
    """Signalling brings new addresses, and the same keys and channels go on."""
    call = talkative(start)
    now = call.pair.now
    call.pair.up.down = call.pair.down.down = True
    call.pair.run_for(10.0)
    call.pair.up.down = call.pair.down.down = False
    call.pair.network.attach("client", ELSEWHERE)
    call.client.add_local_address(ELSEWHERE, call.pair.now)
    call.client.remove_local_address(CLIENT[0], call.pair.now)
    renegotiate(call, ice_restart=True)
    assert call.works(3.0)
    assert call.pair.now > now + 10.0


@SERVERS
@BY
def test_another_offer_changes_nothing(start: Start, by_server: bool) -> None:
    call = talkative(start)
    since = call.pair.now
    keys = call.server.stats()["dtls_group"]
    offer, answer = renegotiate(call, by_server=by_server)
    again, _ = renegotiate(call, by_server=by_server)
    assert sctp_init(offer) == sctp_init(again) != set()
    assert sctp_init(answer) == sctp_init(renegotiate(call, by_server=by_server)[1])
    call.pair.run_for(2.0)
    assert call.server.stats()["dtls_group"] == keys
    for node in (call.pair.client, call.pair.server):
        assert longest_silence(call, node, since) < 0.1
    assert call.works(0.5)


def sctp_init(description: str) -> set[str]:
    return {line for line in description.splitlines() if line.startswith("a=sctp-init")}


def directed(direction: str) -> Callable[[str], str]:
    return lambda offer: offer.replace("a=sendrecv", f"a={direction}")


@BY
def test_audio_changes_its_direction(by_server: bool) -> None:
    call = talkative(WARP)
    offerer, answerer = call.pair.client, call.pair.server
    if by_server:
        offerer, answerer = answerer, offerer
    for direction, to_answerer, to_offerer in (
        ("sendonly", True, False),
        ("recvonly", False, True),
        ("inactive", False, False),
        ("sendrecv", True, True),
    ):
        renegotiate(call, by_server=by_server, rewrite=directed(direction))
        call.pair.run_for(0.3)
        since = call.pair.now
        call.pair.run_for(0.5)
        assert bool(call.frames(answerer, since)) is to_answerer, direction
        assert bool(call.frames(offerer, since)) is to_offerer, direction
    assert call.works(0.5)


@BY
def test_audio_is_taken_away_and_comes_back(by_server: bool) -> None:
    call = talkative(WARP)

    def without(offer: str) -> str:
        return "\r\n".join(
            "m=audio 0 " + line.split(" ", 2)[2] if line.startswith("m=audio ") else line
            for line in offer.split("\r\n")
        ).replace("BUNDLE 0 1", "BUNDLE 1")

    renegotiate(call, by_server=by_server, rewrite=without)
    call.pair.run_for(0.3)
    since = call.pair.now
    call.pair.run_for(0.5)
    assert not call.frames(call.pair.client, since) and not call.frames(call.pair.server, since)
    for node in (call.pair.client, call.pair.server):
        assert not ended(node)
    channel = call.pair.client.named(ChannelOpened)[0][1].channel
    channel.send("no audio, still data", call.pair.now)
    call.pair.run_for(0.2)
    assert "no audio, still data" in call.messages(call.pair.server)
    renegotiate(call, by_server=by_server)
    call.pair.run_for(0.3)
    assert call.works(0.5)


def test_another_channel_in_mid_call() -> None:
    call = established()
    ours = call.client.create_channel(ChannelConfig(label="more"), call.pair.now)
    call.pair.run_for(0.3)
    assert [e.channel.label for _, e in call.pair.server.named(ChannelOpened)] == ["events", "more"]
    ours.send("hello", call.pair.now)
    call.pair.run_for(0.2)
    assert "hello" in call.messages(call.pair.server)


# the end ------------------------------------------------------------------------------------------

ENDS = {
    "warp": WARP,
    "warp-full": FULL,
    "warp-active": replace(WARP, passive=False),
    "direct": replace(WARP, sped=False),
    "warp-1.2": replace(WARP, version=PLAIN.version),
    "plain": PLAIN,
}
PATIENCE_S = 43.0
"""What a peer that nobody could tell has to wait: for consent 30 s, for a first path 40."""


@pytest.mark.slow
@pytest.mark.parametrize("closer", ["client", "server"])
@pytest.mark.parametrize("kind", ENDS)
def test_closing_at_any_moment_of_the_start(kind: str, closer: str) -> None:
    for step in range(20):
        call = begin(replace(ENDS[kind], connect_timeout_s=4.0), frame_s=0.02)
        node = call.pair.nodes[closer]
        other = call.pair.nodes["server" if closer == "client" else "client"]
        states: list[ConnectionState] = []

        def close(
            now: float,
            call: Call = call,
            node: Node = node,
            other: Node = other,
            states: list[ConnectionState] = states,
        ) -> None:
            states += [node.endpoint.state, other.endpoint.state]
            node.endpoint.close(now)
            call.talking.clear()

        moment = call.began + step * 0.0263
        call.pair.at(moment, close)
        call.pair.run_for(PATIENCE_S + 1.0)
        [(at, event)] = node.named(Terminated)
        assert event.error is None and at == pytest.approx(moment)
        assert node.events[-1][1] is event
        [(at, event)] = other.named(Terminated)
        assert at <= moment + PATIENCE_S
        if states == [ConnectionState.CONNECTED] * 2:
            assert event.error is None
            assert at <= moment + call.start.rtt_s / 2 + 0.01
        else:
            allowed = (ConsentLost, HandshakeTimedOut, NoPath)
            assert event.error is None or isinstance(event.error, allowed)
        for end in (node.endpoint, other.endpoint):
            assert end.get_timer() is None
            assert end.datagrams_to_send(call.pair.now) == []


@pytest.mark.parametrize("early_data", [False, True], ids=["waits", "speaks early"])
def test_a_server_that_ends_before_the_clients_finished_has_come_says_so(
    early_data: bool,
) -> None:
    """The client is connected by then, and would wait for 40 s."""
    call = begin(replace(WARP, early_data=early_data))
    assert call.pair.run(until=lambda: call.client.state is ConnectionState.CONNECTED)
    assert call.server.state is ConnectionState.CONNECTING
    moment = call.pair.now
    call.server.close(moment)
    call.talking.clear()
    call.pair.run_for(call.start.rtt_s)
    [(at, event)] = call.pair.client.named(Terminated)
    assert event.error is None and at <= moment + call.start.rtt_s / 2 + 0.01


@pytest.mark.parametrize("closer", ["client", "server"])
def test_after_the_end(closer: str) -> None:
    """Late datagrams are ignored, and whoever uses it is told that it is over."""
    call = established()
    node = call.pair.nodes[closer]
    end: PeerConnection = node.endpoint
    end.close(call.pair.now)
    end.close(call.pair.now)
    call.pair.run_for(1.0)
    for each in (call.client, call.server):
        assert each.state is ConnectionState.CLOSED
        assert each.error is None
        assert not each.send_audio(OPUS, 0, call.pair.now)
        with pytest.raises(InvalidState):
            each.create_channel(ChannelConfig(label="late"), call.pair.now)
        with pytest.raises(InvalidState):
            each.create_offer(call.pair.now)
    for step in list(call.pair.ladder):
        here, there = (CLIENT, ("203.0.113.1", 443))
        if step.sender == "server":
            here, there = there, here
        call.pair.inject(step.data, here, there)
    sent = len(call.pair.sent("client")) + len(call.pair.sent("server"))
    call.pair.run_for(5.0)
    assert len(call.pair.sent("client")) + len(call.pair.sent("server")) == sent


def test_close_with_words_under_way() -> None:
    """What was sent before the goodbye and arrives before it is delivered."""
    call = established()
    channel = call.pair.client.named(ChannelOpened)[0][1].channel
    channel.send("last words", call.pair.now)
    call.pair.run_for(0.0)
    call.client.close(call.pair.now)
    call.pair.run_for(1.0)
    assert "last words" in call.messages(call.pair.server)
    assert ended(call.pair.server) == [None]
    assert heard(call.pair.server)
