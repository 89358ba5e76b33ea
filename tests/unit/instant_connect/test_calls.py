from __future__ import annotations

import re

import pytest

from instant_connect.calls import Call, CallInfo, Calls, etag_of
from instant_connect.exchange import Refusal
from instant_connect.offers import Kind
from tests.unit.instant_connect.doubles import DoubleSession
from tests.unit.sdp import shapes
from warp.entropy import SeededEntropy, SystemEntropy


def calls(limit: int = 3) -> Calls:
    return Calls(SeededEntropy(1), limit=limit, retry_after_s=7)


def add(to: Calls, key: str | None = None) -> Call:
    info = CallInfo(id=to.new_id(), kind=Kind.WHIP)
    call = Call(info=info, session=DoubleSession(1, shapes.FIREFOX), key=key)
    to.add(call)
    return call


def test_a_call_is_found_by_its_name_and_by_its_offer() -> None:
    known = calls()
    call = add(known, "key")
    assert known.get(call.info.id) is call
    assert known.find("key") is call
    assert known.find("other") is None
    assert known.list() == [call]
    assert len(known) == 1


def test_a_call_that_has_ended_is_not_found() -> None:
    known = calls()
    call = add(known, "key")
    assert known.of(call.session) is call
    known.remove(call)
    known.remove(call)
    assert known.find("key") is None
    assert known.of(call.session) is None
    with pytest.raises(Refusal, match="no such call") as caught:
        known.get(call.info.id)
    assert (caught.value.status, caught.value.code) == (404, "call_not_found")


def test_an_offer_that_was_replaced_makes_a_new_call() -> None:
    known = calls()
    call = add(known, "key")
    known.forget_offer(call)
    assert known.find("key") is None
    assert known.get(call.info.id) is call
    again = add(known, "key")
    # the end of the first does not harm the second
    known.remove(call)
    assert known.find("key") is again


def test_an_offer_that_comes_later_takes_the_place_of_the_one_before() -> None:
    known = calls()
    call = add(known, "key")
    known.name_offer(call, "other")
    assert (known.find("key"), known.find("other")) == (None, call)
    known.name_offer(call, None)
    assert known.find("other") is None


def test_a_full_house_says_when_to_come_back() -> None:
    known = calls(limit=2)
    first = add(known)
    add(known)
    with pytest.raises(Refusal, match="holds 2 calls: try again after 7 s") as caught:
        known.admit()
    assert caught.value.status == 503
    assert caught.value.headers == (("Retry-After", "7"),)
    known.remove(first)
    known.admit()


def test_names_cannot_be_guessed() -> None:
    known = Calls(SystemEntropy(), limit=1, retry_after_s=1)
    names = {known.new_id() for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"rtc_[0-9a-f]{40}", name) for name in names)


def test_the_tag_is_that_of_the_ice_session() -> None:
    session = DoubleSession(1, shapes.FIREFOX)
    first = etag_of(session.answer)
    # a strong entity-tag (RFC 9110 section 8.8.3)
    assert re.fullmatch(r'"[0-9a-f]+"', first)
    session.accept_offer(shapes.FIREFOX)
    assert etag_of(session.answer) == first
    session.accept_offer(shapes.FIREFOX.replace("b1c2d3e4", "restarted"))
    assert etag_of(session.answer) != first
    assert etag_of(DoubleSession(2, shapes.FIREFOX).answer) != first


def test_whoever_serves_the_calls_says_when_there_is_no_room() -> None:
    known = calls()
    known.room = lambda: "all 16 sessions are taken"
    with pytest.raises(Refusal, match="all 16 sessions are taken: try again after 7 s") as refused:
        known.admit()
    assert (refused.value.status, refused.value.code) == (503, "session_capacity")
    known.room = lambda: None
    known.admit()
