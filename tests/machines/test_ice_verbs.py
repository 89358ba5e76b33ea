"""ICE agents under verbs in any order: nothing raises, timers move on, all stays bounded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenarios.ice_call import ALICE, BOB, CELLULAR
from tests.sim.pair import CLIENT, SERVER
from warp.contract import Flow
from warp.entropy import SeededEntropy
from warp.errors import UsageError
from warp.ice import (
    IceAgent,
    IceConfig,
    IceCredentials,
    IceRole,
    IceState,
    Nomination,
    host_candidate,
)

ADDRESSES = (CLIENT, SERVER, CELLULAR, ("2001:db8::7", 9), ("203.0.113.9", 70))
SPARE = [IceCredentials(f"next{n:02}", "password-of-a-restart-00") for n in range(40)]
ENDED = (IceState.FAILED, IceState.CLOSED)


def make(lite: bool, role: IceRole, mode: Nomination, name: IceCredentials) -> IceAgent:
    config = IceConfig(
        lite=lite, nomination=mode, max_pairs=6, max_remote_candidates=4, max_learned_candidates=3
    )
    return IceAgent(config, role=role, local=name, entropy=SeededEntropy(name.ufrag.encode()))


class World:
    """Two agents and the datagrams between them, delivered, lost or misdirected at will."""

    def __init__(self, lite: bool, role: IceRole, mode: Nomination) -> None:
        self.now = 1000.0
        self.agents = [
            make(False, role, mode, ALICE),
            make(lite, role.opposite, mode, BOB),
        ]
        self.flying: list[tuple[int, bytes, Flow]] = []
        self.restarts = 0

    def act(self, verb: str, side: int, pick: int, dt: float) -> None:
        agent, other = self.agents[side], self.agents[1 - side]
        address = ADDRESSES[pick % len(ADDRESSES)]
        flow = Flow(ADDRESSES[(pick // 5) % len(ADDRESSES)], address)
        now = self.now
        verbs: dict[str, Callable[[], Any]] = {
            "start": lambda: agent.start(now),
            "credentials": lambda: agent.set_remote_credentials(other.local_credentials, now),
            "lite credentials": lambda: agent.set_remote_credentials(
                other.local_credentials, now, lite=True
            ),
            "local": lambda: agent.add_local_candidate(host_candidate(address), now),
            "remote": lambda: agent.add_remote_candidate(host_candidate(address), now),
            "end": lambda: agent.end_of_candidates(now),
            "remove": lambda: agent.remove_local_address(address[0], now),
            "check": lambda: agent.request_check(now, pick % 7),
            "check flow": lambda: agent.check_flow(flow, now),
            "nominate": lambda: agent.nominate(flow, now),
            "restart": lambda: self.restart(agent),
            "deliver": lambda: self.deliver(pick),
            "lose": lambda: self.flying and self.flying.pop(pick % len(self.flying)),
            "misdirect": lambda: (
                self.flying
                and self.agents[pick % 2].receive_datagram(
                    self.flying[pick % len(self.flying)][1], flow, now
                )
            ),
            "junk": lambda: agent.receive_datagram(bytes(pick % 64), flow, now),
            "wait": lambda: self.wait(dt),
            "close": lambda: agent.close(now) if pick % 20 == 0 else None,
        }
        with contextlib.suppress(UsageError):  # the caller's mistake, told to the caller
            verbs[verb]()
        self.drain()

    def restart(self, agent: IceAgent) -> None:
        self.restarts += 1
        agent.restart(SPARE[self.restarts % len(SPARE)], self.now)

    def deliver(self, pick: int) -> None:
        if self.flying:
            side, data, flow = self.flying.pop(pick % len(self.flying))
            # seen from the other side
            self.agents[1 - side].receive_datagram(data, Flow(flow.remote, flow.local), self.now)

    def wait(self, dt: float) -> None:
        self.now += dt
        for agent in self.agents:
            for _ in range(2):
                agent.handle_timer(self.now)
                deadline = agent.get_timer()
                assert deadline is None or deadline > self.now

    def drain(self) -> None:
        for side, agent in enumerate(self.agents):
            before = agent.get_timer()
            assert agent.get_timer() == before
            outgoing = agent.datagrams_to_send(self.now)
            assert len(outgoing) <= 64
            assert agent.datagrams_to_send(self.now) == []
            self.flying += [(side, data, flow) for data, flow in outgoing]
            agent.events()
            self.check(agent)
        del self.flying[:-50]

    def check(self, agent: IceAgent) -> None:
        assert agent.settled_flow == agent.flow
        if agent.state in ENDED:
            assert agent.get_timer() is None
            assert agent.flow is None
        for generation in agent._generations.all():
            checklist = getattr(generation.paths, "checklist", None)
            if checklist is not None:
                assert len(checklist.remotes) <= 4 + 3
                assert len(checklist.pairs) <= 6 + 3 * len(ADDRESSES)
                assert all(flow == pair.flow for flow, pair in checklist.pairs.items())
            if generation.paths.selected_flow is not None:
                assert generation.paths.flow == generation.paths.selected_flow


VERBS = (
    "start", "credentials", "lite credentials", "local", "remote", "end", "remove", "check",
    "check flow", "nominate", "restart", "deliver", "deliver", "deliver", "deliver", "lose",
    "misdirect", "junk", "wait", "wait", "close",
)  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.sampled_from(VERBS),
        st.integers(0, 1),
        st.integers(0, 200),
        st.sampled_from((0.0, 0.001, 0.02, 0.05, 0.3, 1.0, 6.0, 31.0, 45.0)),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(
    lite=st.booleans(),
    role=st.sampled_from(IceRole),
    mode=st.sampled_from(Nomination),
    steps=STEPS,
)
@settings(max_examples=200, deadline=None)
def test_verbs_in_any_order(
    lite: bool, role: IceRole, mode: Nomination, steps: list[tuple[str, int, int, float]]
) -> None:
    world = World(lite, role, mode)
    for verb, side, pick, dt in steps:
        world.act(verb, side, pick, dt)


@pytest.mark.slow
@given(lite=st.booleans(), steps=STEPS)
@settings(max_examples=100, deadline=None)
def test_a_call_in_progress_survives_anything_but_its_end(
    lite: bool, steps: list[tuple[str, int, int, float]]
) -> None:
    world = World(lite, IceRole.CONTROLLING, Nomination.FIRST_VALID)
    for verb, side, pick in (
        ("local", 0, 0), ("local", 1, 1), ("remote", 0, 1), ("remote", 1, 0),
        ("credentials", 1, 0), ("lite credentials" if lite else "credentials", 0, 0),
        ("start", 0, 0), ("start", 1, 0),
    ):  # fmt: skip
        world.act(verb, side, pick, 0)
    for _ in range(12):
        while world.flying:
            world.deliver(0)
            world.drain()
        world.wait(0.06)
        world.drain()
    assert [a.state for a in world.agents] == [IceState.COMPLETED] * 2
    for verb, side, pick, dt in steps:
        world.act(verb, side, pick, dt)


@given(waits=st.lists(st.floats(0, 20), max_size=40), lite=st.booleans())
@settings(max_examples=60, deadline=None)
def test_early_late_and_repeated_timers_are_harmless(waits: list[float], lite: bool) -> None:
    world = World(lite, IceRole.CONTROLLING, Nomination.FIRST_VALID)
    agent = world.agents[0]
    agent.add_local_candidate(host_candidate(CLIENT), world.now)
    agent.set_remote_credentials(BOB, world.now, lite=lite)
    agent.add_remote_candidate(host_candidate(SERVER), world.now)
    agent.start(world.now)
    sent = 0
    for dt in waits:
        world.wait(dt)
        sent += len(agent.datagrams_to_send(world.now))
    assert sent <= len(waits) + 1  # late timers do not catch up in a burst
