from __future__ import annotations

import json
from typing import Any

import pytest

from instant_connect.exchange import (
    FORM,
    SDP,
    Ask,
    Refusal,
    media_type,
    refuse_sdp,
    require_type,
    text_of,
)
from warp.sdp import SdpError, SdpRule


def body(refusal: Refusal) -> dict[str, Any]:
    reply = refusal.reply()
    assert reply.content_type == "application/json"
    found: dict[str, Any] = json.loads(reply.body)["error"]
    return found


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_a_refusal_has_the_shape_that_voice_apis_use(status: int, kind: str) -> None:
    refusal = Refusal(status, "a_code", 'says "why"', details={"param": "sdp"})
    assert body(refusal) == {
        "type": kind,
        "code": "a_code",
        "message": 'says "why"',
        "param": "sdp",
    }
    assert refusal.reply().status == status


def test_the_line_and_the_rule_of_a_description_are_told() -> None:
    refusal = refuse_sdp(SdpError(SdpRule.ICE_UFRAG, line=7))
    assert refusal.status == 400
    told = body(refusal)
    assert (told["rule"], told["line"], told["code"]) == ("ice_ufrag", 7, "invalid_sdp")
    assert told["message"].startswith("line 7: an ice-ufrag has 4 to 256 characters")
    assert "line" not in body(refuse_sdp(SdpError(SdpRule.MISSING_LINE)))


def test_an_offer_that_holds_nothing_for_us_is_not_acceptable() -> None:
    assert refuse_sdp(SdpError(SdpRule.NOTHING_LEFT)).status == 406


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("application/sdp", SDP),
        ("Application/SDP ; charset=utf-8", SDP),
        ("multipart/form-data; boundary=x", FORM),
        ("", ""),
    ],
)
def test_media_types_have_no_case_and_no_parameters(given: str, kind: str) -> None:
    assert media_type(given) == kind


def test_a_wrong_type_is_told_what_is_right() -> None:
    assert require_type(Ask(content_type="application/sdp"), SDP, FORM) == SDP
    for given, shown in (("text/plain", "text/plain"), ("", "no Content-Type")):
        with pytest.raises(Refusal, match=shown) as caught:
            require_type(Ask(content_type=given), SDP, FORM)
        assert caught.value.status == 415
        assert caught.value.headers == (("Accept-Post", f"{SDP}, {FORM}"),)


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "empty_body"),
        (b" \r\n\t", 400, "empty_body"),
        (b"v=0\xff", 400, "invalid_utf8"),
        (b"x" * 11, 413, "too_large"),
    ],
)
def test_a_body_that_is_no_text(raw: bytes, status: int, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        text_of(raw, "the offer", limit=10)
    assert (caught.value.status, caught.value.code) == (status, code)


def test_a_text_may_have_any_letters() -> None:
    assert text_of("s=ü".encode(), "the offer", limit=10) == "s=ü"
