"""The table of states (RFC 9260 section 4)."""

from __future__ import annotations

import pytest

from tests.unit.sctp.support import Script
from warp.errors import InternalError
from warp.sctp.complaints import abort_chunk
from warp.sctp.parameters import Cause
from warp.sctp.states import ACCEPTS_MESSAGES, RUNNING, TRANSITIONS, Input, State
from warp.trace import MemoryTrace


def test_every_state_can_be_reached_and_left() -> None:
    reached = {State.NEW}
    while True:
        more = {new for (old, _), new in TRANSITIONS.items() if old in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(State)
    assert {old for old, _ in TRANSITIONS} == set(State) - {State.CLOSED}


def test_every_state_but_the_last_can_end() -> None:
    ends = {old for (old, cause), new in TRANSITIONS.items() if cause is Input.END}
    assert ends == set(State) - {State.CLOSED}


def test_every_input_leads_somewhere() -> None:
    assert {cause for _, cause in TRANSITIONS} == set(Input)


def test_sets_of_states() -> None:
    assert State.CLOSED not in RUNNING | ACCEPTS_MESSAGES
    assert {State.ESTABLISHED} == RUNNING & ACCEPTS_MESSAGES


def test_an_impossible_step_is_a_bug_of_ours() -> None:
    script = Script()
    with pytest.raises(InternalError):
        script.us._become(Input.INIT_ACK, 0.0)


def test_steps_are_traced() -> None:
    trace = MemoryTrace()
    script = Script()
    script.us._trace = trace
    script.us.close(1.0)
    script.says(b"\x0b\0\0\x04", now=2.0)
    [(at, step)] = trace.named("sctp:state_changed")
    assert (at, step["old"], step["new"]) == (1.0, "established", "shutdown-pending")
    [(at, _)] = trace.named("sctp:discarded")
    assert at == 2.0


def test_the_trace_says_what_ended_it() -> None:
    whys = []
    for ends in (
        lambda script: script.us.abort(1.0),
        lambda script: script.us.abort(1.0, "the call is over"),
        lambda script: script.says(abort_chunk(Cause.USER_INITIATED_ABORT, "bye", 1191), now=1.0),
    ):
        trace, script = MemoryTrace(), Script()
        script.us._trace = trace
        ends(script)
        [(_, step)] = trace.named("sctp:state_changed")
        assert (step["old"], step["new"]) == ("established", "closed")
        whys.append(step["why"])
    assert whys == [
        "aborted by us",
        "aborted by us: the call is over",
        "peer aborted the association (cause 12): bye",
    ]
