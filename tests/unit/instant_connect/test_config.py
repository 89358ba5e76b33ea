from __future__ import annotations

from typing import Any

import pytest

from instant_connect.config import IceServer, SignallingConfig
from warp.errors import InvalidConfig


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"max_calls": 0}, "max_calls must be at least 1"),
        ({"max_sdp_bytes": 0}, "max_sdp_bytes"),
        ({"max_session_bytes": -1}, "max_session_bytes"),
        ({"dcid": -1}, "dcid is 0 to 65534"),
        ({"dcid": 65_535}, "dcid is 0 to 65534"),
        ({"cors_origins": "*"}, "tuple of texts"),
        ({"cors_origins": ("https://a.example/",)}, "without a path"),
        ({"cors_origins": ("a.example",)}, "scheme"),
        ({"cors_origins": ("https://a.example\r\nX: y",)}, "scheme"),
        ({"origin_trials": ("a\r\nSet-Cookie: x",)}, "base64"),
        ({"origin_trials": "abc"}, "tuple of texts"),
    ],
)
def test_what_no_server_can_have_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        SignallingConfig(**values)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"url": "http://x"}, "stun:host or turn:host"),
        ({"url": "stun:"}, "stun:host"),
        ({"url": 'stun:x>; rel="y"'}, "stun:host"),
        ({"url": "turn:x", "username": 'a"b'}, "without quotes"),
        ({"url": "turn:x", "credential": "a\r\nb"}, "without quotes"),
    ],
)
def test_an_ice_server_fits_a_header(values: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        IceServer(**values)


def test_links_are_those_of_rfc_9725() -> None:
    assert IceServer(url="stun:stun.example.net").link() == (
        '<stun:stun.example.net>; rel="ice-server"'
    )
    turn = IceServer(
        url="turn:turn.example.net?transport=udp", username="user", credential="myPassword"
    )
    assert turn.link() == (
        '<turn:turn.example.net?transport=udp>; rel="ice-server"; '
        'username="user"; credential="myPassword"; credential-type="password"'
    )
    assert "myPassword" not in repr(turn)


def test_a_form_has_room_for_both_parts() -> None:
    config = SignallingConfig(max_sdp_bytes=100, max_session_bytes=200)
    assert config.max_body_bytes > 300
    assert "secret" not in repr(SignallingConfig(origin_trials=("secret",)))
