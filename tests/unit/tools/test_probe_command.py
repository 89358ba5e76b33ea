"""`warp probe` as a person meets it."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from tests.interop.loops import run
from tests.unit.tools.web_server import echo_site
from warp_tools.main import main


def outcome(*arguments: object) -> int:
    """Run the command line; return its status."""
    with pytest.raises(SystemExit) as ended:
        main(["probe", *map(str, arguments)])
    return ended.value.code if isinstance(ended.value.code, int) else 1


@pytest.mark.slow
def test_a_server_is_probed(capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with echo_site() as (url, _):
            options = (url, "--quick", "--delay", 10)
            assert await asyncio.to_thread(outcome, *options) == 0
            said = capsys.readouterr().out
            assert said.startswith(f"{url}: grade ")
            assert "SPED        as `sped`" in said
            assert await asyncio.to_thread(outcome, *options, "--json") == 0
            report = json.loads(capsys.readouterr().out)
            assert report["features"]["snap"] == {"answered": True, "used": True}
            assert report["sent"]["calls"] == len(report["calls"]) == 5

    run(test(), seconds=60)


@pytest.mark.slow
def test_a_token_is_sent_and_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        def knows(request) -> bool:
            return request.headers.get("authorization") == "Bearer hush"

        async with echo_site(authorize=knows) as (url, _):
            assert await asyncio.to_thread(outcome, url, "--quick") == 1
            said = capsys.readouterr().err
            assert said.endswith("the endpoint wants a token; give one with --token\n")
            options = (url, "--quick", "--delay", 5, "--token", "hush")
            assert await asyncio.to_thread(outcome, *options) == 0
            assert "hush" not in capsys.readouterr().out

    run(test(), seconds=60)


def test_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert outcome(f"http://127.0.0.1:{port}") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"warp: nothing listens at 127.0.0.1:{port}\n"


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--delay", "-5", "it is 0 to 1000 ms"),
        ("--delay", "9e9", "it is 0 to 1000 ms"),
        ("--delay", "nan", "it is 0 to 1000 ms"),
        ("--patience", "0", "it is a time above 0"),
        ("--patience", "inf", "it is a time above 0"),
    ],
)
def test_impossible_options(
    capsys: pytest.CaptureFixture[str], option: str, value: str, says: str
) -> None:
    assert outcome("http://x", option, value) == 2
    assert says in capsys.readouterr().err


def test_a_url_is_wanted() -> None:
    assert outcome() == 2
