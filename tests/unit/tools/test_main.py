"""The command line as a person meets it: every mistake is one clear line, status not 0."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import wave
from pathlib import Path

import pytest

from warp_tools import main as entry
from warp_tools.audio import packaged_sound, write_wav
from warp_tools.keys import change_keyring, new_keyring, rotate
from warp_tools.main import main

ECHO = ("serve", "--backend", "echo")


@pytest.fixture(autouse=True)
def _needs_no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is wrong in another way fetches nothing before it says so."""
    monkeypatch.setenv("WARP_BACKEND", "echo")


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command line; return the one line that it ends with."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code not in (0, None)
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("warp: ")
    return line


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "speech.wav"
    path.write_text("this is no sound")
    return path


def test_a_service_for_slow_work_is_named_whole(capsys: pytest.CaptureFixture[str]) -> None:
    url = ("--responses-url", "https://responses.example/v1")
    model = ("--responses-model", "m")
    serve = ("serve", "--port", 0, "--backend", "duplex-cpu")
    assert "--responses-url needs --responses-model" in fails(capsys, *serve, *url)
    assert "--responses-model needs --responses-url" in fails(capsys, *serve, *model)
    for options in (url, model, (*url, *model)):
        line = fails(capsys, *ECHO, "--port", 0, *options)
        assert f"{options[0]} is of no use with --backend echo" in line
    line = fails(capsys, *serve, "--responses-url", "ftp://x", *model)
    assert "--responses-url: 'ftp://x' is not an http(s) address" in line


def test_a_missing_extra_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "NEEDED", ("typer", "no_such_package"))
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "warp: no_such_package not installed: pip install 'warp-rtc[tools]'\n"
    )


class _Interrupted:
    """Ctrl-C while a module is being imported."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, *_: object) -> None:
        if name == self._module:
            raise KeyboardInterrupt


@pytest.mark.parametrize("module", ["warp_tools.cli", "warp_tools.demo"])
def test_an_interrupt_in_the_first_second_says_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupted(module), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    assert ended.value.code == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_names_that_are_no_text_and_terminals_that_know_ascii_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for encoding, shown in (("utf-8", b"\xe2\x94\x80 \\udcff"), ("ascii", b"? ?")):
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
        monkeypatch.setattr(sys, "stdout", out)
        entry.accept_any_text()
        out.write("\u2500 \udcff")
        out.flush()
        assert out.buffer.getvalue() == shown


def test_what_a_stranger_said_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        entry.fail("line 2: \x1b[31mevil\x1b]0;title\x07 \u202egnp", 1)
    shown = capsys.readouterr().err
    assert shown == "warp: line 2: \ufffd[31mevil\ufffd]0;title\ufffd \ufffdgnp\n"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, says in ((["--help"], "bench"), (["--version"], "warp-rtc 0.")):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        assert says in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--rtt", "soon"], ["call", "--odd"]])
def test_usage_errors_have_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "Usage" in capsys.readouterr().err


def test_demo_mistakes(capsys: pytest.CaptureFixture[str], tmp_path: Path, text_file: Path) -> None:
    assert "between 1 and 2000" in fails(capsys, "demo", "--rtt", 0)
    assert "no such file" in fails(capsys, "demo", "--speech", tmp_path / "none.wav")
    assert "unreadable audio" in fails(capsys, "demo", "--speech", text_file)
    assert "cannot write" in fails(capsys, "demo", "--out", tmp_path / "no" / "reply.wav")
    speech = tmp_path / "mine.wav"
    write_wav(speech, packaged_sound("speech")[:9_600])
    assert "overwritten" in fails(capsys, "demo", "--speech", speech, "--out", speech)
    assert "need --backend duplex-cpu" in fails(capsys, "demo", "--question", speech)
    for wrong in ("nan", "-5", "1e12"):
        assert "between 1 and 2000" in fails(capsys, "demo", "--rtt", wrong)


def test_call_mistakes(capsys: pytest.CaptureFixture[str], tmp_path: Path, text_file: Path) -> None:
    speech = Path(entry.__file__).parent / "data" / "speech.wav"
    out = tmp_path / "reply.wav"
    assert "no such file" in fails(capsys, "call", tmp_path / "none.wav", "--out", out)
    assert "unreadable audio" in fails(capsys, "call", text_file, "--out", out)
    lost = tmp_path / "no" / "reply.wav"
    assert "cannot write" in fails(capsys, "call", speech, "--out", lost)
    assert "not an http" in fails(capsys, "call", speech, "--out", out, "--url", "nowhere")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert "no answer from" in fails(capsys, "call", speech, "--out", out, "--url", url)
    assert not out.exists()


def test_ports_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert "cannot listen on http://127.0.0.1" in fails(capsys, "serve", "--port", port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        line = fails(capsys, "serve", "--port", 0, "--udp-port", port)
        assert str(port) in line
        assert "in use" in line


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--cors-origin", "app.example", "an origin is scheme://host"),
        ("--cors-origin", "https://app.example/page", "without a path"),
        ("--advertise", "voice.example", "numeric addresses"),
        ("--advertise", "0.0.0.0", "numeric addresses"),
        ("--origin-trial", "not base64!", "base64"),
        ("--tls-cert", "certificate.pem", "belong together"),
        ("--tls-key", "key.pem", "belong together"),
        ("--host", "192.0.2.1", "cannot listen on http://192.0.2.1"),
        ("--keys", "nowhere.json", "warp keys new"),
    ],
)
def test_what_no_server_can_be_told(
    capsys: pytest.CaptureFixture[str], option: str, value: str, says: str
) -> None:
    assert says in fails(capsys, "serve", "--port", 0, option, value)


def test_serve_options_that_need_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert "needs --tls-cert" in fails(capsys, "serve", "--port", 0, "--http3")
    line = fails(capsys, "serve", "--port", 0, "--no-instant", "--keys", "keys.json")
    assert "--no-instant" in line


@pytest.mark.parametrize("port", [-1, 65536])
def test_ports_that_do_not_exist(capsys: pytest.CaptureFixture[str], port: int) -> None:
    assert "0-65535" in fails(capsys, "serve", "--port", port)
    assert "0 to 65535" in fails(capsys, "serve", "--port", 0, "--udp-port", port)


@pytest.mark.slow
def test_an_interrupt_ends_a_server_cleanly() -> None:
    command = [sys.executable, "-u", "-m", "warp_tools.main", *ECHO, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        server_line = server.stdout.readline().decode()
        assert server_line.startswith("echo at http://127.0.0.1:")
        # one who connects and says nothing holds nobody up
        host, _, port = server_line.split()[2].removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))):
            server.send_signal(signal.SIGINT)
            assert server.wait(10) == 0
        assert server.stderr.read() == b""


@pytest.mark.slow
def test_serve_and_call_from_two_processes(tmp_path: Path) -> None:
    run = [sys.executable, "-u", "-m", "warp_tools.main"]
    # not on the command line, where every user of the machine can read it
    environment = {**os.environ, "WARP_TOKEN": "a secret"}
    speech = Path(entry.__file__).parent / "data" / "speech.wav"
    with subprocess.Popen(
        [*run, *ECHO, "--port", "0"], stdout=subprocess.PIPE, env=environment
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().split()[2]
        out = tmp_path / "reply.wav"
        trace = ("--trace", str(tmp_path / "call.qlog"))
        done = subprocess.run(
            [*run, "call", str(speech), "--url", url, "--out", str(out), "--json", *trace],
            capture_output=True,
            check=False,
            timeout=60,
            env=environment,
        )
        assert "call 1 begins" in server.stdout.readline().decode()
        assert "call 1 has ended: hung up" in server.stdout.readline().decode()
        server.terminate()
    assert done.stderr == b""
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["correlation"] > 0.9
    assert told["path"] == "signalled"
    assert out.stat().st_size > 500_000
    drawn = subprocess.run([*run, "trace", trace[1]], capture_output=True, check=True, timeout=60)
    assert b"handshake completed" in drawn.stdout


class Serving:
    """`warp serve` as a process; `lines` are what it says."""

    def __init__(self, *options: object) -> None:
        command = [sys.executable, "-u", "-m", "warp_tools.main", *ECHO, "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.url = self.line().split()[2]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def until(self, figure: str, *, within_s: float = 20.0) -> None:
        """Wait until a line of `/metrics` says so."""
        end = time.monotonic() + within_s
        while True:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
                if figure in answer.read().decode().splitlines():
                    return
            assert time.monotonic() < end, figure
            time.sleep(0.02)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["--url", "--instant"])
def test_a_server_that_is_killed_in_mid_call_is_said_to_be_gone(tmp_path: Path, way: str) -> None:
    speech = tmp_path / "speech.wav"
    write_wav(speech, packaged_sound("speech")[:96_000])
    server = Serving()
    command = [sys.executable, "-m", "warp_tools.main", "call", str(speech), way, server.url]
    with subprocess.Popen(
        [*command, "--json", "--out", str(tmp_path / "reply.wav")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as calling:
        assert "call 1 begins" in server.line()
        server.until('instant_connect_sessions{tier="confirmed"} 1')
        server.process.kill()
        server.stop()
        out, err = calling.communicate(timeout=60)
    assert calling.returncode == 1
    told = json.loads(out)
    assert told["ended_by"] == "error"
    assert 0 < told["unsaid_s"] <= 2
    assert err.startswith(b"warp: the call broke off after ")
    assert b"nothing came any more" in err


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal (proc(5), SigCgt)."""
    status = Path(f"/proc/{pid}/status").read_text()
    [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) & 1 << number - 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells when Ctrl-C is listened for")
def test_whoever_interrupts_a_call_keeps_what_was_heard(tmp_path: Path) -> None:
    reply = tmp_path / "reply.wav"
    server = Serving()
    command = [sys.executable, "-m", "warp_tools.main", "call", "--url", server.url]
    with subprocess.Popen(
        [*command, "--json", "--out", str(reply)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as calling:
        end = time.monotonic() + 20
        while not catches(calling.pid, signal.SIGTERM):
            assert time.monotonic() < end
            time.sleep(0.02)
        calling.send_signal(signal.SIGINT)
        out, err = calling.communicate(timeout=60)
    server.stop()
    assert (calling.returncode, err) == (130, b"")
    told = json.loads(out)
    assert (told["ended_by"], told["end_reason"]) == ("caller", "interrupted")
    assert told["unsaid_s"] > 0
    with wave.open(str(reply)) as kept:
        assert kept.getnframes() == pytest.approx(told["seconds"] * 48_000, abs=960)


@pytest.mark.slow
def test_tickets_outlive_their_server(tmp_path: Path) -> None:
    """By a ticket; by one of before a restart with the same keys; by one that had expired."""
    write_wav(tmp_path / "speech.wav", packaged_sound("speech")[:72_000])
    keys, wallet, out = tmp_path / "keys.json", tmp_path / "wallet.json", tmp_path / "reply.wav"
    new_keyring(keys, 3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def call(url: str) -> dict[str, object]:
        command = [sys.executable, "-m", "warp_tools.main", "call", str(tmp_path / "speech.wav")]
        done = subprocess.run(
            [*command, "--instant", url, "--wallet", wallet, "--out", str(out), "--json"],
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        told: dict[str, object] = json.loads(done.stdout)
        return told

    for turn in range(2):
        server = Serving("--keys", keys, "--udp-port", port)
        try:
            if turn == 0:
                assert call(server.url)["path"] == "attached"
                assert re.fullmatch(r"call 1 begins \((instant|attached)\)\n", server.line())
                change_keyring(keys, rotate)
                server.process.send_signal(signal.SIGHUP)
                assert "call 1 has ended" in server.line()
                assert "keys read again" in server.line()
            else:
                # the wallet holds tickets of the first server, and of the keys before
                told = call(server.url)
                assert told["path"] == "attached"
                assert float(str(told["correlation"])) > 0.9
                # what has expired is fetched anew, and the call begins by a ticket all the same
                kept = json.loads(wallet.read_text())
                wallet.write_text(json.dumps({**kept, "expires_at": time.time() - 1}))
                assert call(server.url)["path"] == "attached"
        finally:
            server.stop()


def test_a_wallet_needs_tickets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "--instant" in fails(capsys, "call", "--wallet", tmp_path / "wallet.json")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        line = fails(capsys, "call", "--instant", url, "--out", tmp_path / "reply.wav")
        assert "no answer from" in line
        wallet = tmp_path / "wallet.json"
        wallet.write_text("spoilt")
        instant = ("call", "--instant", url, "--out", tmp_path / "reply.wav")
        line = fails(capsys, *instant, "--wallet", wallet)
        assert f"{wallet} cannot be used" in line
        assert "remove it" in line
        lost = tmp_path / "no" / "wallet.json"
        assert f"cannot write {lost}" in fails(capsys, *instant, "--wallet", lost)
        line = fails(capsys, *instant, "--token", "SECRET\n")
        assert "a token is ASCII" in line
        assert "SECRET" not in line
        line = fails(capsys, *instant, "--url", url)
        assert "leave out --url" in line
        assert "or --instant" in line
    assert "not an http" in fails(capsys, "call", "--instant", "x", "--out", tmp_path / "r.wav")
