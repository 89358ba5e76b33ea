from __future__ import annotations

import pytest

from warp.errors import InvalidConfig
from warp.io import ClientConfig, ServerConfig, WarpOptions


def test_the_defaults_are_whole() -> None:
    server, client = ServerConfig().peer(), ClientConfig().peer(wall_offset_s=5.0)
    assert server.lite and not client.lite
    assert server.sped and server.snap and client.audio and client.data
    assert (server.wall_offset_s, client.wall_offset_s) == (0.0, 5.0)


def test_options_reach_the_connection() -> None:
    config = ServerConfig(
        warp=WarpOptions(sped=False, snap=False, simultaneous_open=False),
        lite=False,
        passive=False,
        early_data=True,
        audio=False,
        max_message_size=1000,
        connect_timeout_s=7.0,
    ).peer()
    assert not (config.sped or config.snap or config.simultaneous_open or config.lite)
    assert not config.passive and config.early_data and not config.audio
    assert (config.max_message_size, config.connect_timeout_s) == (1000, 7.0)
    assert not ClientConfig(data=False).peer().data


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (ServerConfig, {"max_sessions": 0}, "max_sessions"),
        (ServerConfig, {"advertise": ("voice.example.org",)}, "numeric"),
        (ServerConfig, {"advertise": ("0.0.0.0",)}, "can reach"),
        (ServerConfig, {"advertise_port": 65_536}, "advertise_port is a port"),
        (ServerConfig, {"audio": False, "data": False}, "audio, data"),
        (ServerConfig, {"connect_timeout_s": 0}, "connect_timeout_s"),
        (ClientConfig, {"audio": False, "data": False}, "audio, data"),
        (ClientConfig, {"connect_timeout_s": -1}, "connect_timeout_s"),
        (ClientConfig, {"gather_timeout_s": 0}, "gather_timeout_s"),
        (ClientConfig, {"stun_servers": ("ok.example.org", "bad:port")}, r"stun_servers\[1\]"),
        (ClientConfig, {"stun_servers": "stun.example.org"}, "a tuple of texts"),
        (ClientConfig, {"turn_servers": "turn:a:secret@b"}, "a tuple of texts"),
        (ClientConfig, {"turn_servers": ("turn:host:3478",)}, r"turn_servers\[0\].*user:password"),
        (WarpOptions, {"versions": ()}, "versions"),
    ],
)
def test_what_cannot_be_is_said_at_once(kind: type, options: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidConfig, match=text):
        kind(**options)


def test_no_password_is_ever_shown() -> None:
    with pytest.raises(InvalidConfig) as caught:
        ClientConfig(turn_servers=("turn:ann:hidden@host:99999",))
    assert "hidden" not in str(caught.value)
    config = ClientConfig(turn_servers=("turn:ann:hidden@host",))
    assert "hidden" not in repr(config)
    assert "hidden" not in repr(config.gathering())


def test_servers_are_parsed() -> None:
    config = ClientConfig(
        stun_servers=("stun:stun.example.org", "[2001:db8::1]:99"),
        turn_servers=("turns:ann:pw@turn.example.org",),
        gather_timeout_s=2.0,
    ).gathering()
    assert config.stun_servers == (("stun.example.org", 3478), ("2001:db8::1", 99))
    assert [server.transport for server in config.turn_servers] == ["tls"]
    assert config.timeout_s == 2.0
