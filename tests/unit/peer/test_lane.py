"""The short way of media does what the long way does, and says when there is more to do."""

from __future__ import annotations

from tests.scenarios.live_call import LiveCall
from tests.scenarios.start import OPUS, WARP
from tests.sim.pair import CLIENT
from warp.contract import Flow
from warp.peer import AudioReceived, PeerConnection
from warp.peer.lane import MediaLane
from warp.rtp import AudioFrame


def live() -> LiveCall:
    call = LiveCall(WARP)
    for _ in range(60):
        if call.connected:
            break
        call.turn()
    assert call.connected
    return call


def lane_of(call: LiveCall, name: str) -> MediaLane:
    lane = call.ends[name].lane
    assert lane is not None
    return lane


def spoken(call: LiveCall, count: int, first: int = 0) -> list[bytes]:
    """So many datagrams of the client's audio, in order."""
    out = []
    for number in range(first, first + count):
        item = lane_of(call, "client").make(OPUS, number * 960, call.now, number == 0)
        assert item is not None
        out.append(item[0])
    return out


def frames(peer: PeerConnection) -> list[tuple[int, int]]:
    return [
        (frame.sequence, frame.timestamp)
        for event in peer.events()
        if isinstance(event, AudioReceived)
        for frame in event.frames
    ]


def test_both_ways_hear_the_same() -> None:
    short, long = live(), live()
    heard = []
    for call, way in ((short, "lane"), (long, "datagram")):
        flow, peer = call.flow("server"), call.ends["server"]
        frames(peer)
        for data in spoken(call, 12):
            if way == "lane":
                lane_of(call, "server").receive(data, flow, call.now)
            else:
                peer.receive_datagram(data, flow, call.now)
        heard.append(frames(peer))
    assert len(heard[0]) == 12
    first = heard[0][0]
    assert [(s - first[0], t - first[1]) for s, t in heard[0]] == [
        (s - heard[1][0][0], t - heard[1][0][1]) for s, t in heard[1]
    ]


def test_what_is_next_in_order_asks_for_nothing() -> None:
    call = live()
    flow, lane = call.flow("server"), lane_of(call, "server")
    first, *rest = spoken(call, 6)
    lane.receive(first, flow, call.now)
    call.ends["server"].events()
    timer = call.ends["server"].get_timer()
    assert [lane.receive(data, flow, call.now) for data in rest] == [False] * 5
    assert call.ends["server"].get_timer() == timer
    assert [frame.payload for frame in lane.take()] == [OPUS] * 5
    assert lane.take() == []


def test_a_gap_a_reader_and_a_heap_of_frames_ask_for_more() -> None:
    call = live()
    flow, lane = call.flow("server"), lane_of(call, "server")
    first, second, _, fourth = spoken(call, 4)
    lane.receive(first, flow, call.now)
    assert not lane.receive(second, flow, call.now)
    assert lane.receive(fourth, flow, call.now)
    assert call.ends["server"].get_media_timer() is not None

    call = live()
    flow, lane = call.flow("server"), lane_of(call, "server")
    said = spoken(call, 40)
    lane.receive(said[0], flow, call.now)
    lane.awaited = True
    assert lane.receive(said[1], flow, call.now)
    lane.awaited = False
    assert any(lane.receive(data, flow, call.now) for data in said[2:])


def test_worthless_datagrams_ask_for_nothing_and_are_counted() -> None:
    call = live()
    server = call.ends["server"]
    before = server.stats()["datagrams_received"]
    damaged = bytearray(spoken(call, 1)[0])
    damaged[-1] ^= 1
    for data in (bytes(damaged), b"\x80\x00", b"\x80" * 2000):
        assert not lane_of(call, "server").receive(data, call.flow("server"), call.now)
    assert server.stats()["datagrams_received"] == before + 3
    assert frames(server) == []


def test_media_from_elsewhere_is_followed() -> None:
    call = live()
    server, elsewhere = call.ends["server"], Flow(call.flow("server").local, (CLIENT[0], 4444))
    lane_of(call, "server").receive(spoken(call, 1)[0], elsewhere, call.now)
    rider = server._bundle.transport.rider  # type: ignore[union-attr]
    assert rider.heard.flow == elsewhere


def test_the_lane_ends_with_the_call() -> None:
    call = live()
    assert LiveCall(WARP).ends["client"].lane is None
    call.ends["client"].close(call.now)
    assert call.ends["client"].lane is None
    call.turns(3)
    assert call.ends["server"].lane is None


def test_the_first_frame_of_a_talkspurt_marks_the_milestone() -> None:
    call = live()
    spoken(call, 1)
    assert call.ends["client"].stats()["milestones"]["first_media_sent"] == call.now


def test_the_newest_report_of_the_peer_is_at_hand() -> None:
    call = live()
    lane = lane_of(call, "client")
    for data in spoken(call, 20):
        lane_of(call, "server").receive(data, call.flow("server"), call.now)
    reports = []
    for _ in range(60):
        call.turn()
        if lane.report is not None and not any(lane.report is one for one in reports):
            reports.append(lane.report)
    # each is told from the one before, though both say the same
    assert len(reports) > 2
    assert {one.fraction_lost for one in reports} == {0}


def test_a_reader_is_given_each_frame_within_its_datagram() -> None:
    call = live()
    flow, lane = call.flow("server"), lane_of(call, "server")
    given: list[int] = []
    lane.reader = lambda frames: given.append(len(frames))
    first, second, third = spoken(call, 3)
    lane.receive(first, flow, call.now)
    lane.receive(third, flow, call.now)
    assert given == [1]  # the third waits for the second
    lane.receive(second, flow, call.now)
    assert given == [1, 2]
    assert lane.take() == []


def test_what_a_reader_raises_is_told_and_the_lane_goes_on() -> None:
    call = live()
    flow, lane = call.flow("server"), lane_of(call, "server")
    told: list[Exception] = []
    fault = ValueError("a bug of the application")

    def fail(frames: list[AudioFrame]) -> None:
        raise fault

    lane.reader, lane.reader_failed = fail, told.append
    first, second = spoken(call, 2)
    lane.receive(first, flow, call.now)
    assert told == [fault]
    lane.reader = None
    lane.receive(second, flow, call.now)
    assert len(lane.take()) == 1


def test_after_the_end_nothing_is_heard_by_whoever_kept_the_way() -> None:
    """A port leads media straight to the lane until the session's routes are gone."""
    call = live()
    server, lane = call.ends["server"], lane_of(call, "server")
    said = spoken(call, 3)
    lane.receive(said[0], call.flow("server"), call.now)
    assert [frame.payload for frame in lane.take()] == [OPUS]
    heard: list[AudioFrame] = []
    lane.reader = heard.extend
    server.close(call.now)
    assert server.lane is None
    assert not lane.receive(said[1], call.flow("server"), call.now)
    assert heard == [] and lane.take() == []
