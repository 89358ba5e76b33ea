"""One rule for every command: 2 what is asked for cannot be, 1 it failed, 130 Ctrl-C."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.captures.pcap import CAPTURES
from tests.unit.tools.capture.builder import CLIENT, SERVER, Packet, ethernet, ip_udp, pcap
from warp.errors import InvalidConfig
from warp_tools import cli
from warp_tools.audio import packaged_sound, write_wav
from warp_tools.capture.files import CaptureError
from warp_tools.failure import CommandRefused, ToolFailure
from warp_tools.keys import new_keyring
from warp_tools.main import main

CALL = CAPTURES / "calls/libwebrtc152_warp.pcap"
UNREACHABLE = "http://127.0.0.1:1"


def commands() -> dict[str, Any]:
    """Return every command by its words."""

    def walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        subcommands = getattr(command, "commands", None)
        if subcommands is None:
            yield words.strip(), command
            return
        for name, below in subcommands.items():
            yield from walk(f"{words} {name}", below)

    return dict(walk("", typer.main.get_command(cli.app)))


def status(*arguments: object) -> int:
    """Run a command line; return the status that it ends with."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


COMMANDS = sorted(commands())


@pytest.fixture(autouse=True)
def _needs_no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARP_BACKEND", "echo")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_there_is_not(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(*command.split(), "--no-such-option") == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ToolFailure("it broke off"), 1),
        (OSError(28, "No space left on device"), 1),
        (BrokenPipeError(), 1),
        (CommandRefused("there is no such thing"), 2),
        (CaptureError("no capture"), 2),
        (InvalidConfig("port must be 0 to 65535"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_ends_with(
    command: str,
    raised: BaseException,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    group = typer.main.get_command(cli.app)
    found: Any = group
    for word in command.split():
        found = found.commands[word]

    def fail(**_: object) -> None:
        raise raised

    monkeypatch.setattr(found, "callback", fail)
    monkeypatch.setattr(found, "params", [])
    monkeypatch.setattr(cli, "app", group)
    if isinstance(raised, BrokenPipeError):
        monkeypatch.setattr("os.dup2", lambda *_: None)
    assert status(*command.split()) == expected
    assert "Traceback" not in capfd.readouterr().err


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of every kind, good ones and bad ones."""
    made = tmp_path_factory.mktemp("files")
    write_wav(made / "speech.wav", packaged_sound("speech")[:9_600])
    (made / "text").write_text("this is neither sound nor a capture")
    (made / "private").write_text("{}")
    (made / "private").chmod(0o600)
    (made / "call.pcap").write_bytes(CALL.read_bytes())
    (made / "call.keys").write_bytes(CALL.with_suffix(".keys").read_bytes())
    nothing = pcap([Packet(0, ethernet(ip_udp(CLIENT, SERVER, b"hello")))])
    (made / "nothing.pcap").write_bytes(nothing)
    (made / "call.sqlog").write_text('\x1e{"qlog_version": "0.4"}\n')
    (made / "other.keys").write_text(f"CLIENT_RANDOM {'00' * 32} {'00' * 48}\n")
    new_keyring(made / "cell.keys", 1)
    return made


@pytest.fixture
def place(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in such a folder, which has no models."""
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("WARP_MODELS", str(tmp_path / "models"))


REFUSED = {
    "demo": [
        "--rtt 0",
        "--rtt soon",
        "--speech none.wav",
        "--speech text",
        "--question speech.wav",
        "--out none/reply.wav",
        "--speech speech.wav --out speech.wav",
        "--backend nobody",
    ],
    "serve": [
        "--port 70000",
        "--port {tcp}",
        "--port 0 --udp-port {udp}",
        "--port 0 --udp-port 70000",
        "--port 0 --host 192.0.2.1",
        "--port 0 --backend nobody",
        "--port 0 --cors-origin app.example",
        "--port 0 --advertise voice.example",
        "--port 0 --tls-cert text",
        "--port 0 --tls-cert text --tls-key text",
        "--port 0 --tls-cert none --tls-key none",
        "--port 0 --http3",
        "--port 0 --no-instant --keys cell.keys",
        "--port 0 --keys none",
        "--port 0 --keys text",
        "--port 0 --keys private",
        "--port 0 --workers 0",
        "--port 0 --workers 2 --udp-port {udp}",
        "--port 0 --rotate-every soon",
        "--port 0 --rotate-every nan",
        "--port 0 --rotate-every inf",
        "--port 0 --rotate-every 1e-9",
        "--port 0 --rotate-every -1",
        "--port 0 --responses-url http://127.0.0.1:1",
    ],
    "call": [
        "none.wav",
        "text",
        "--out none/reply.wav",
        "--url nowhere",
        "--url http://me:secret@host",
        "--instant nowhere",
        "--instant http://127.0.0.1:1/whip",
        "--url http://127.0.0.1:1 --instant http://127.0.0.1:1",
        "--wallet wallet.json",
        "--instant http://127.0.0.1:1 --wallet text",
        "--instant http://127.0.0.1:1 --wallet none/wallet.json",
        "--instant http://127.0.0.1:1 --trace t",
        "--trace none/t",
        "speech.wav --out speech.wav",
    ],
    "relay": [
        "",
        "--listen nowhere --upstream 0=127.0.0.1:1 --route-key none",
        "--listen 127.0.0.1:0 --upstream 0=127.0.0.1:1 --route-key none",
        "--listen 127.0.0.1:0 --upstream 0=127.0.0.1:1 --route-key text",
        "--listen 127.0.0.1:0 --upstream nobody --route-key routes",
        "--listen 127.0.0.1:{udp} --upstream 0=127.0.0.1:1 --route-key routes",
    ],
    "probe": [
        "",
        "nowhere",
        "http://me:secret@host/",
        "http://127.0.0.1:1 --delay -1",
        "http://127.0.0.1:1 --patience 0",
        "http://127.0.0.1:1 --host 192.0.2.1",
    ],
    "trace": ["", "none", "text", "call.sqlog --limit 0"],
    "keys new": ["", "cell.keys", "new.keys --cell -1", "none/new.keys"],
    "keys stage": ["none", "text", "private"],
    "keys rotate": ["none", "text", "private"],
    "keys routes": ["none out", "text out", "cell.keys none/out"],
    "models fetch": ["nobody", "--wheels none"],
    "models list": ["nobody"],
    "models path": ["nobody"],
    "bench setup": ["--sessions 1"],
    "bench media": ["--sessions 1"],
    "bench channel": ["--sessions 1"],
    "bench instant": ["--sessions 1"],
    "bench voice": ["--sessions 33", "--sessions 1 --out none/voice.png"],
    "pcap show": [
        "none",
        "text",
        ".",
        "call.pcap --keylog none",
        "call.pcap --keylog text",
        "call.pcap --limit 0",
    ],
    "pcap explain": [
        "none",
        "text",
        "call.pcap --keylog none",
        "call.pcap --plot ladder.doc",
        "call.pcap --plot none/ladder.png",
    ],
    "pcap decrypt": [
        "none",
        "text",
        "call.pcap",
        "call.pcap --keylog none",
        "call.pcap --keylog text",
        "call.pcap --keylog call.keys --out call.pcap",
        "call.pcap --keylog call.keys --out none/plain",
        "call.pcap --keylog call.keys --audio none/call.ogg",
        "call.pcap --keylog call.keys --audio call.wav",
        "call.pcap --keylog call.keys --messages none/said",
    ],
    "pcap redact": [
        "none out",
        "text out",
        "- out",
        "call.pcap call.pcap",
        "call.pcap none/out",
    ],
    "pcap live": ["--iface nosuch0", "--seconds 0", "--packets 1 --write none/out"],
}

FAILED = {
    "call": [f"speech.wav --url {UNREACHABLE}", f"speech.wav --instant {UNREACHABLE}"],
    "probe": [UNREACHABLE],
    "models path": ["ears"],
    "pcap show": ["nothing.pcap", "call.pcap --session 7"],
    "pcap explain": ["nothing.pcap", "call.pcap --session 7"],
    "pcap decrypt": ["nothing.pcap --keylog call.keys", "call.pcap --keylog other.keys"],
    "pcap redact": ["nothing.pcap out"],
    "trace": ["call.sqlog --layer nosuch"],
}


def lines(table: dict[str, list[str]]) -> list[str]:
    return [f"{command} {rest}".strip() for command, all_ in table.items() for rest in all_]


def test_the_table_knows_every_command() -> None:
    assert sorted(REFUSED) == COMMANDS


@pytest.fixture
def ports() -> Iterator[dict[str, int]]:
    """Ports that somebody has."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(("127.0.0.1", 0))
        yield {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("line", lines(REFUSED))
def test_what_cannot_be_is_refused(
    line: str, ports: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    if "route-key routes" in line:
        assert status(*(["keys", "routes", "cell.keys", "routes"])) == 0
    capsys.readouterr()
    assert status(*line.format(**ports).split()) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(("warp: ", "Usage: "))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("line", lines(FAILED))
def test_what_was_tried_and_failed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(*line.split()) == 1
    assert "warp: " in capsys.readouterr().err


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("bench ")])
def test_a_target_that_is_missed(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for met, expected in ((True, 0), (False, 1)):

        class Report:
            targets_met = met

            def to_json(self) -> dict[str, object]:
                return {}

        monkeypatch.setattr(
            "asyncio.run", lambda started, made=Report: (started.close(), made())[1]
        )
        monkeypatch.setattr(cli, "prepare_backend", lambda _: None)
        monkeypatch.setattr("warp_tools.bench.voice.plot", lambda *_: None)
        assert status(*command.split(), "--json") == expected
