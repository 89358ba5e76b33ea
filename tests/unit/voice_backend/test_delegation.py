"""What is given away, what comes back, and what is too late."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from voice_backend.delegation import (
    Action,
    Begin,
    DelegationConfig,
    DelegationDesk,
    Ended,
    EndReason,
    Part,
    Request,
    Stale,
    Stop,
    Tell,
    ask_of,
)
from voice_backend.model import Inject
from voice_backend.transcript import Transcript
from voice_backend.utterance import Speaker


def desk_with(*ids: str, **config: object) -> DelegationDesk:
    given: dict[str, object] = {"acknowledge_after_s": None, **config}
    desk = DelegationDesk(DelegationConfig(**given))  # type: ignore[arg-type]
    for ident in ids:
        desk.receive_delegation(Request(delegation_id=ident, ask="user: flights?"), 0.0)
    return desk


def told(actions: list[Action]) -> list[tuple[str, str]]:
    return [(a.kind.value, a.text) for a in actions if isinstance(a, Tell)]


def test_an_answer_is_spoken_and_progress_is_not() -> None:
    desk = desk_with("d1")
    assert [type(a) for a in desk.actions()] == [Begin]
    desk.receive_part("d1", Part(text="searching"))
    desk.receive_part("d1", Part(text="Three flights.", done=True))
    actions = desk.actions()
    assert told(actions) == [("thinking", "searching"), ("commentary", "Three flights.")]
    assert actions[-1] == Ended("d1", EndReason.ANSWERED, False)


def test_the_same_id_is_the_same_work() -> None:
    desk = desk_with("d1", "d1")
    assert len(desk.actions()) == 1
    desk.receive_part("d1", Part(text="yes", done=True))
    desk.receive_delegation(Request(delegation_id="d1", ask="again"), 1.0)
    desk.receive_part("d1", Part(text="yes", done=True))
    assert told(desk.actions()) == [("commentary", "yes")]


def test_more_than_may_be_open_are_refused() -> None:
    desk = desk_with("a", "b", "c", open_at_once=2)
    assert [a.request.delegation_id for a in desk.actions() if isinstance(a, Begin)] == ["a", "b"]
    assert desk.refused == 1
    assert desk.open_ids == ("a", "b")


def test_what_takes_too_long_is_stopped_and_said() -> None:
    desk = desk_with("d1", timeout_s=30.0)
    desk.actions()
    assert desk.get_timer() == 30.0
    desk.handle_timer(29.9)
    assert desk.actions() == []
    desk.handle_timer(30.0)
    stop, tell, ended = desk.actions()
    assert stop == Stop("d1")
    assert isinstance(tell, Tell) and tell.kind is Inject.COMMENTARY
    assert ended == Ended("d1", EndReason.TIMED_OUT, False)
    assert desk.get_timer() is None
    desk.receive_part("d1", Part(text="at last", done=True))
    assert desk.actions() == []


def test_a_cancelled_one_is_heard_of_no_more() -> None:
    desk = desk_with("d1")
    desk.actions()
    desk.cancel("d1")
    desk.cancel("d1")
    assert desk.actions() == [Stop("d1"), Ended("d1", EndReason.CANCELLED, False)]
    desk.receive_failure("d1", "late")
    assert desk.actions() == []


def test_a_failure_is_said_without_its_details() -> None:
    desk = desk_with("d1")
    desk.receive_failure("d1", "TimeoutError")
    (_, text), *_ = told(desk.actions())
    assert "TimeoutError" in text


class TestStale:
    def test_a_topic_that_has_moved_on_makes_an_answer_silent(self) -> None:
        desk = desk_with("d1")
        desk.receive_turn()
        desk.receive_turn()
        desk.receive_part("d1", Part(text="It rains.", done=True))
        assert told(desk.actions()) == [("thinking", "It rains.")]
        assert desk.stale == 1

    def test_a_newer_delegation_does_so_too(self) -> None:
        desk = desk_with("d1")
        desk.receive_turn()
        desk.receive_delegation(Request(delegation_id="d2", ask="and Rome?"), 1.0)
        desk.receive_part("d1", Part(text="old", done=True))
        desk.receive_part("d2", Part(text="new", done=True))
        assert told(desk.actions()) == [("thinking", "old"), ("commentary", "new")]

    def test_two_of_the_same_turn_are_both_spoken(self) -> None:
        desk = desk_with("d1", "d2")
        desk.receive_part("d1", Part(text="one", done=True))
        desk.receive_part("d2", Part(text="two", done=True))
        assert [kind for kind, _ in told(desk.actions())] == ["commentary", "commentary"]

    def test_it_can_be_dropped_instead(self) -> None:
        desk = desk_with("d1", stale=Stale.DROP)
        desk.receive_turn()
        desk.receive_turn()
        desk.receive_part("d1", Part(text="It rains.", done=True))
        assert told(desk.actions()) == []


class TestAcknowledgement:
    def test_silence_is_acknowledged_once(self) -> None:
        desk = desk_with("d1", acknowledge_after_s=0.4)
        desk.handle_timer(0.3)
        assert told(desk.actions()) == []
        desk.handle_timer(0.4)
        desk.handle_timer(5.0)
        assert [kind for kind, _ in told(desk.actions())] == ["commentary"]

    def test_a_model_that_says_so_itself_is_not_told_to(self) -> None:
        desk = desk_with(acknowledge_after_s=0.0)
        desk.receive_delegation(Request(delegation_id="d1", ask="x", acknowledged=True), 0.0)
        desk.handle_timer(1.0)
        assert told(desk.actions()) == []

    def test_what_is_told_first_makes_it_superfluous(self) -> None:
        desk = desk_with("d1", "d2", acknowledge_after_s=0.4)
        desk.receive_part("d1", Part(text="searching"))
        desk.handle_timer(1.0)
        assert told(desk.actions()) == [("thinking", "searching")]


def test_the_ask_is_the_talk_since_the_last_one_with_what_is_pending() -> None:
    log = Transcript()
    log.receive_input("find me a flight", 0, 1000)
    log.receive_floor(Speaker.ASSISTANT, 1200)
    log.receive_output("where to", 1300, 1900)
    log.receive_played(1900)
    log.receive_floor(Speaker.USER, 2000)
    log.receive_input("to Rome", 2100, 2600, final=False)
    assert ask_of(log.draft(), 0) == "user: find me a flight\nassistant: where to\nuser: to Rome"
    assert ask_of(log.draft(), 2000) == "user: to Rome"
    assert ask_of(log.draft(), 0, limit=10) == "r: to Rome"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "part", "done", "fail", "cancel", "turn", "timer"]),
        st.integers(0, 9),
        st.floats(0, 40),
    ),
    max_size=60,
)


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_each_ends_once_and_nothing_grows(steps: list[tuple[str, int, float]]) -> None:
    desk = DelegationDesk(DelegationConfig(open_at_once=3, remembered=100))
    now, begun, ended = 0.0, [], []
    for what, n, wait in steps:
        ident = f"d{n}"
        now += wait if what == "timer" else 0.0
        if what == "begin":
            desk.receive_delegation(Request(delegation_id=ident, ask="x"), now)
        elif what in ("part", "done"):
            desk.receive_part(ident, Part(text="x" * 3000, done=what == "done"))
        elif what == "fail":
            desk.receive_failure(ident, "x")
        elif what == "cancel":
            desk.cancel(ident)
        elif what == "turn":
            desk.receive_turn()
        else:
            desk.handle_timer(now)
            timer = desk.get_timer()
            assert timer is None or timer > now
        for action in desk.actions():
            begun += [action.request.delegation_id] if isinstance(action, Begin) else []
            ended += [action.delegation_id] if isinstance(action, Ended) else []
            assert not isinstance(action, Tell) or len(action.text) <= 2000
        assert len(desk.open_ids) <= 3
    desk.close()
    ended += [a.delegation_id for a in desk.actions() if isinstance(a, Ended)]
    assert sorted(begun) == sorted(ended)
    assert len(set(begun)) == len(begun)
