"""Peer connections under verbs in any order: nothing raises, timers move on, the end is the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scenarios.start import OPUS, PLAIN, WARP, Start, peer
from tests.sim.pair import CLIENT, SERVER
from warp.contract import Address, Flow
from warp.datachannel import Channel, ChannelConfig
from warp.errors import UsageError
from warp.ice import host_candidate
from warp.peer import ConnectionState, PeerConnection, Terminated

ENDED = (ConnectionState.CLOSED, ConnectionState.FAILED)
ADDRESSES: tuple[Address, ...] = (CLIENT, SERVER, ("198.51.100.7", 40000), ("2001:db8::7", 9))
STARTS = (
    WARP,
    replace(WARP, hybrid=True),
    replace(WARP, lite=False),
    replace(WARP, passive=False),
    replace(WARP, lite=False, sped=False),
    PLAIN,
)


class World:
    """Two ends, the descriptions they have written, and datagrams under way."""

    def __init__(self, start: Start) -> None:
        self.now = 1000.0
        self.ends: list[PeerConnection] = [peer(start, "client"), peer(start, "server")]
        self.ends[0].add_local_address(CLIENT, self.now)
        self.ends[1].add_local_address(SERVER, self.now)
        self.flying: list[tuple[int, bytes, Flow]] = []
        self.texts: list[tuple[int, str, str]] = []
        self.terminated = [0, 0]
        self.channels = 0
        self.opened: dict[bool, list[Channel]] = {False: [], True: []}
        self.stamp = 0

    # what an application does -------------------------------------------------------------

    def act(self, verb: str, side: int, pick: int, dt: float) -> None:
        end, now = self.ends[side], self.now
        address = ADDRESSES[pick % len(ADDRESSES)]
        verbs: dict[str, Callable[[], Any]] = {
            "offer": lambda: self.describe(side, "offer", pick),
            "answer": lambda: self.describe(side, "answer", pick),
            "told": lambda: self.tell(side, pick),
            "rollback": end.rollback,
            "agree": lambda: self.agree(side, pick),
            "address": lambda: end.add_local_address(address, now),
            "no address": lambda: end.remove_local_address(address[0], now),
            "candidate": lambda: end.add_remote_candidate(str(host_candidate(address)), now),
            "no more": lambda: end.add_remote_candidate(None, now),
            "audio": lambda: self.speak(end, pick),
            "channel": lambda: self.open(end, pick),
            "text": lambda: self.write(end, pick),
            "deliver": lambda: self.deliver(pick),
            "deliver all": self.deliver_all,
            "lose": lambda: self.flying and self.flying.pop(pick % len(self.flying)),
            "repeat": lambda: self.repeat(pick),
            "misdirect": lambda: self.misdirect(side, pick, address),
            "damage": lambda: self.damage(pick),
            "junk": lambda: end.receive_datagram(bytes([pick]) * (pick % 90), self.flow(side), now),
            "wait": lambda: self.wait(dt),
            "late": lambda: self.wait(dt * 3, drains=False),
            "close": lambda: end.close(now) if pick % 12 == 0 else None,
        }
        with contextlib.suppress(UsageError):  # the caller's mistake, told to the caller
            verbs[verb]()
        self.drain()

    def describe(self, side: int, kind: str, pick: int) -> None:
        end = self.ends[side]
        if kind == "offer":
            text = end.create_offer(self.now, ice_restart=pick % 4 == 0)
        else:
            text = end.create_answer(self.now)
        end.set_local_description(kind, text, self.now)
        self.texts = [*self.texts, (side, kind, text)][-6:]

    def tell(self, side: int, pick: int) -> None:
        others = [(kind, text) for writer, kind, text in self.texts if writer != side]
        if others:
            kind, text = others[pick % len(others)]
            self.ends[side].set_remote_description(kind, text, self.now)

    def agree(self, side: int, pick: int) -> None:
        self.describe(side, "offer", pick)
        self.ends[1 - side].set_remote_description("offer", self.texts[-1][2], self.now)
        self.describe(1 - side, "answer", pick)
        self.ends[side].set_remote_description("answer", self.texts[-1][2], self.now)

    def speak(self, end: PeerConnection, pick: int) -> None:
        self.stamp += 960
        end.send_audio(OPUS, self.stamp, self.now, non_personal=pick % 2 == 0)

    def open(self, end: PeerConnection, pick: int) -> None:
        self.channels += 1
        if self.channels < 8:
            config = ChannelConfig(label=str(pick), negotiated=pick % 2 == 0, stream_id=pick % 6)
            channel = end.create_channel(config, self.now)
            self.opened[end is self.ends[1]].append(channel)
            channel.send("early", self.now)

    def write(self, end: PeerConnection, pick: int) -> None:
        for channel in self.opened[end is self.ends[1]][:1]:
            if pick % 5:
                channel.send("x" * pick, self.now)
            else:
                channel.close(self.now)

    # what a network does -------------------------------------------------------------------

    def flow(self, side: int) -> Flow:
        return Flow(*((CLIENT, SERVER) if side == 0 else (SERVER, CLIENT)))

    def deliver(self, pick: int) -> None:
        if self.flying:
            side, data, flow = self.flying.pop(pick % len(self.flying))
            self.ends[1 - side].receive_datagram(data, Flow(flow.remote, flow.local), self.now)

    def deliver_all(self) -> None:
        while self.flying:
            self.deliver(0)

    def repeat(self, pick: int) -> None:
        if self.flying:
            self.flying.append(self.flying[pick % len(self.flying)])

    def misdirect(self, side: int, pick: int, remote: Address) -> None:
        if self.flying:
            _, data, _ = self.flying[pick % len(self.flying)]
            self.ends[side].receive_datagram(data, Flow(self.flow(side).local, remote), self.now)

    def damage(self, pick: int) -> None:
        if self.flying:
            index = pick % len(self.flying)
            side, data, flow = self.flying[index]
            at = pick * 7 % max(1, len(data))
            self.flying[index] = (side, data[:at] + b"\x55" + data[at + 1 :], flow)

    def wait(self, dt: float, *, drains: bool = True) -> None:
        self.now += dt
        for end in self.ends:
            for _ in range(2):
                end.handle_timer(self.now)
                deadline = end.get_timer()
                assert deadline is None or deadline > self.now
        if drains:
            self.drain()

    def drain(self) -> None:
        for side, end in enumerate(self.ends):
            before = end.get_timer()
            assert end.get_timer() == before
            self.take_events(side, end)
            outgoing = end.datagrams_to_send(self.now)
            assert len(outgoing) <= 600
            assert all(len(data) <= 1500 for data, _ in outgoing)
            self.flying += [(side, data, flow) for data, flow in outgoing]
            self.take_events(side, end)
            if end.state in ENDED:
                assert end.get_timer() is None
                assert end.datagrams_to_send(self.now) == []
        del self.flying[:-80]

    def take_events(self, side: int, end: PeerConnection) -> None:
        for event in end.events():
            assert not self.terminated[side], f"{event} after the end"
            if isinstance(event, Terminated):
                self.terminated[side] = 1
                assert end.state in ENDED
        assert end.stats()["state"] == end.state.value


VERBS = (
    "offer", "answer", "told", "told", "rollback", "agree", "address", "no address", "candidate",
    "no more", "audio", "audio", "channel", "text", "deliver", "deliver", "deliver all",
    "deliver all", "lose", "repeat", "misdirect", "damage", "junk", "wait", "wait", "late", "close",
)  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.sampled_from(VERBS),
        st.integers(0, 1),
        st.integers(0, 255),
        st.sampled_from((0.0, 0.001, 0.02, 0.05, 0.3, 1.0, 6.0, 31.0, 45.0)),
    ),
    max_size=50,
)


@pytest.mark.slow
@given(start=st.sampled_from(STARTS), steps=STEPS)
# early media would have been allowed in the very moment in which the handshake timed out
@example(start=WARP, steps=[("agree", 0, 0, 0.0), ("deliver", 0, 0, 0.0), ("wait", 0, 0, 31.0)])
@settings(max_examples=150, deadline=None)
def test_verbs_in_any_order(start: Start, steps: list[tuple[str, int, int, float]]) -> None:
    world = World(start)
    for verb, side, pick, dt in steps:
        world.act(verb, side, pick, dt)


@pytest.mark.slow
@given(start=st.sampled_from(STARTS), steps=STEPS)
@settings(max_examples=100, deadline=None)
def test_verbs_in_any_order_in_mid_call(
    start: Start, steps: list[tuple[str, int, int, float]]
) -> None:
    world = World(start)
    world.act("agree", 0, 1, 0.0)
    for _ in range(14):
        world.deliver_all()
        world.wait(0.05)
    assert [end.state for end in world.ends] == [ConnectionState.CONNECTED] * 2
    for verb, side, pick, dt in steps:
        world.act(verb, side, pick, dt)


@pytest.mark.slow
@given(
    start=st.sampled_from(STARTS),
    steps=st.lists(
        st.tuples(
            st.sampled_from(("deliver", "repeat", "misdirect", "junk", "wait", "audio", "lose")),
            st.integers(0, 1),
            st.integers(0, 255),
            st.sampled_from((0.0, 0.001, 0.01, 0.05)),
        ),
        max_size=60,
    ),
)
@settings(max_examples=100, deadline=None)
def test_whatever_happened_first_the_call_comes_up(
    start: Start, steps: list[tuple[str, int, int, float]]
) -> None:
    """Reordered, repeated, misdirected, partly lost: a good network afterwards is enough."""
    world = World(start)
    world.act("agree", 0, 1, 0.0)
    for verb, side, pick, dt in steps:
        world.act(verb, side, pick, dt)
    for _ in range(200):
        world.deliver_all()
        world.wait(0.05)
        if all(end.state is ConnectionState.CONNECTED for end in world.ends):
            return
    raise AssertionError([end.stats() for end in world.ends])
