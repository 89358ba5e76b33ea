from __future__ import annotations

import pytest

from instant_connect.exchange import Refusal
from instant_connect.origins import (
    cors_headers,
    is_preflight,
    preflight_headers,
    require_origin,
)

PAGE = "https://app.example"
OTHER = "https://evil.example"


def allowed(headers: dict[str, str], *origins: str) -> bool:
    try:
        require_origin(headers, origins)
    except Refusal as refusal:
        assert refusal.status == 403
        assert "cors_origins" in str(refusal)
        return False
    return True


def test_what_is_no_page_may_call() -> None:
    assert allowed({"host": "voice.example"})


@pytest.mark.parametrize("host", ["voice.example", "voice.example:8080", "[::1]:8080"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page_of_ours_may_call(scheme: str, host: str) -> None:
    # the scheme may have changed in front of us: whoever ends TLS speaks HTTP to us
    assert allowed({"host": host, "origin": f"{scheme}://{host}"})


@pytest.mark.parametrize("origin", [OTHER, "null", "http://voice.example:81", "garbage"])
def test_a_page_elsewhere_may_not(origin: str) -> None:
    assert not allowed({"host": "voice.example", "origin": origin})
    assert not allowed({"host": "voice.example", "origin": origin}, PAGE)
    assert allowed({"host": "voice.example", "origin": origin}, "*")
    assert allowed({"host": "voice.example", "origin": origin}, PAGE, origin)


@pytest.mark.parametrize(
    ("site", "expected"),
    [("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False)],
)
def test_the_browser_knows_better_than_the_names(site: str, expected: bool) -> None:
    """A proxy may have changed Host; Sec-Fetch-Site is the browser's own word."""
    headers = {"host": "backend:8000", "origin": OTHER, "sec-fetch-site": site}
    assert allowed(headers) is expected


def test_without_configured_origins_nothing_is_shared() -> None:
    assert cors_headers({"origin": PAGE}, ()) == ()


def test_a_configured_origin_may_read() -> None:
    headers = dict(cors_headers({"origin": PAGE}, (PAGE,)))
    assert headers["Access-Control-Allow-Origin"] == PAGE
    assert {"Location", "ETag"} <= set(headers["Access-Control-Expose-Headers"].split(", "))
    assert headers["Vary"] == "Origin"
    assert "Access-Control-Allow-Credentials" not in headers


@pytest.mark.parametrize("headers", [{}, {"origin": OTHER}])
def test_others_get_nothing_but_what_caches_need(headers: dict[str, str]) -> None:
    assert cors_headers(headers, (PAGE,)) == (("Vary", "Origin"),)


def test_a_star_names_nobody() -> None:
    assert dict(cors_headers({"origin": OTHER}, ("*",)))["Access-Control-Allow-Origin"] == "*"


def test_preflights() -> None:
    asks = {"origin": PAGE, "access-control-request-method": "PATCH"}
    assert is_preflight("OPTIONS", asks)
    assert not is_preflight("OPTIONS", {"origin": PAGE})
    assert not is_preflight("PATCH", asks)
    told = dict(preflight_headers(("POST", "PATCH")))
    assert told["Access-Control-Allow-Methods"] == "POST, PATCH"
    assert {"Authorization", "Content-Type", "If-Match"} <= set(
        told["Access-Control-Allow-Headers"].split(", ")
    )
