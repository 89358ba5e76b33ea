"""The commands as they are typed: output, exit statuses, errors in one line, pictures."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.captures.pcap import CAPTURES, read_pcap
from tests.unit.tools.capture.builder import (
    CLIENT,
    SERVER,
    Packet,
    block,
    call,
    enhanced,
    ethernet,
    frames,
    interface,
    ip_udp,
    pcap,
    section,
)
from warp_tools.capture.opened import opened_with
from warp_tools.capture.plot import label
from warp_tools.capture.run import read
from warp_tools.cli import app
from warp_tools.pcap_cli import app as pcap_app

WARP = str(CAPTURES / "stun/chromium156_warp_nopqc.pcap")
CALL = CAPTURES / "calls/libwebrtc152_warp"
runner = CliRunner()
pytestmark = pytest.mark.slow


def run(*arguments: str) -> Result:
    return runner.invoke(app, list(arguments))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two sessions in one file."""
    packets = [p for n in range(2) for p in call("stun/chromium156_warp_nopqc", n, SERVER)[:20]]
    path = tmp_path / "two.pcap"
    path.write_bytes(pcap(frames(sorted(packets, key=lambda packet: packet.time))))
    return path


def test_show_prints_a_line_a_datagram() -> None:
    done = run("pcap", "show", WARP)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("session 1  2026-11-29")
    assert "127.0.0.1:44849, controlling, DTLS server, libwebrtc" in lines[1]
    assert "carries 216 bytes of DTLS: ClientHello (191 bytes)" in lines[4]
    assert "offers DTLS 1.3, 1.2; shares for x25519" in lines[4]
    assert "acks #1; answers #1" in lines[5] and "chooses DTLS 1.3, x25519" in lines[5]
    assert "and 23 more" in done.stdout  # media that goes on is one line
    assert "\x1b" not in done.stdout


def test_packets_with_absurd_lengths_are_told_of(tmp_path: Path) -> None:
    absurd = block(6, struct.pack("<IIIII", 0, 0, 0, 1 << 31, 1 << 31))
    packets = [*frames(call("stun/chromium156_warp_nopqc", 0))]
    path, out = tmp_path / "odd", tmp_path / "out"
    path.write_bytes(section() + interface() + absurd * 3 + b"".join(map(enhanced, packets)))
    said = "3 packets passed over: more bytes claimed than the block holds"
    for done in (run("pcap", "show", str(path)), run("pcap", "redact", str(path), str(out))):
        assert done.exit_code == 0 and f"note: {said}" in done.stderr.splitlines()
    assert json.loads(run("pcap", "explain", str(path), "--json").stdout)["notes"] == [said]
    path.write_bytes(section() + interface() + absurd)
    done = run("pcap", "explain", str(path))
    assert done.exit_code == 1
    assert "1 packet passed over: more bytes claimed than the block holds" in done.stderr


def test_show_all_and_limits() -> None:
    every = run("pcap", "show", WARP, "--all").stdout.strip().splitlines()
    assert len(every) == 4 + 101
    few = run("pcap", "show", WARP, "--limit", "3").stdout.strip()
    assert "more lines; --limit shows more" in few and len(few.splitlines()) == 4 + 3 + 1


def test_one_session_of_several(two: Path) -> None:
    assert run("pcap", "show", str(two)).stdout.count("session ") == 2
    only = run("pcap", "show", str(two), "--session", "2").stdout
    assert "session 2" in only and "session 1" not in only
    done = run("pcap", "explain", str(two), "--session", "7")
    assert done.exit_code == 1 and "no session 7: there are 2" in done.stderr


def test_explain_for_people() -> None:
    text = run("pcap", "explain", WARP).stdout
    for said in (
        "DTLS 1.3, x25519, TLS_AES_128_GCM_SHA256",
        "SPED offered by B and A (libwebrtc), used",
        "SNAP; channels agreed on in advance",
        "the ClientHello is out",
        "1 round trip",
        "client can send media after 1 round trip, as it was",
        "warp ",
        "not known",
    ):
        assert said in text, said


def test_explain_for_machines(two: Path) -> None:
    told = json.loads(run("pcap", "explain", str(two), "--json").stdout)
    assert [one["session"] for one in told["sessions"]] == [1, 2]
    assert told["notes"] == []
    one = told["sessions"][0]
    for key in (
        "dtls_version", "group", "pq", "sped", "snap", "dcep", "roles", "lite", "stages",
        "findings", "ledger", "with_warp", "rtt", "unknown", "evidence",
    ):  # fmt: skip
        assert key in one
    assert set(one["sped"]) == {"offered", "dialect", "used"}


def test_a_key_log_opens_sctp() -> None:
    done = run("pcap", "show", f"{CALL}.pcap", "--keylog", f"{CALL}.keys", "--limit", "12")
    assert "EncryptedExtensions" in done.stdout and "[SCTP DATA]" in done.stdout
    told = run("pcap", "explain", f"{CALL}.pcap", "--keylog", f"{CALL}.keys").stdout
    assert "channels agreed on in advance and announced by DCEP" in told
    missing = run("pcap", "show", f"{CALL}.pcap", "--keylog", "/no/such/log")
    assert missing.exit_code != 0


@pytest.mark.parametrize("where", ["", "-"])
def test_keys_that_a_capture_carries_open_it(where: str, tmp_path: Path) -> None:
    """As editcap --inject-secrets writes them; no option is needed."""
    log = Path(f"{CALL}.keys").read_bytes()
    secrets = struct.pack("<II", 0x544C534B, len(log)) + log + bytes(-len(log) % 4)
    blocks = section() + interface() + block(10, secrets)
    blocks += b"".join(enhanced(packet) for packet in frames(read_pcap(f"{CALL}.pcap")))
    capture = tmp_path / "with.pcapng"
    capture.write_bytes(blocks)
    done = runner.invoke(
        pcap_app, ["explain", "--json", where or str(capture)], input=blocks if where else None
    )
    (told,) = json.loads(done.stdout)["sessions"]
    assert told["dcep"] == "both" and not any("keylog" in why for why in told["unknown"].values())


def test_standard_input_and_a_note(tmp_path: Path) -> None:
    capture = pcap(frames(read_pcap("stun/chromium156_warp.pcap")), snap=96)
    done = runner.invoke(pcap_app, ["explain", "-"], input=capture)
    assert done.exit_code == 0
    assert "were cut by the capture's snap length" in done.stderr


@pytest.mark.parametrize("command", ["show", "explain"])
def test_exit_statuses(command: str, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pcap"
    nothing.write_bytes(pcap([Packet(0, ethernet(ip_udp(CLIENT, SERVER, b"hello")))]))
    done = run("pcap", command, str(nothing))
    assert done.exit_code == 1 and "no session in" in done.stderr
    assert "1 datagrams in 1 packets" in done.stderr
    for content in (b"", b"GET / HTTP/1.1", b"\x28\xb5\x2f\xfd"):
        nothing.write_bytes(content)
        done = run("pcap", command, str(nothing))
        assert done.exit_code == 2 and done.stderr.startswith("warp: ")
        assert len(done.stderr.splitlines()) == 1
    assert run("pcap", command, str(tmp_path / "missing")).exit_code == 2
    assert run("pcap", command, str(tmp_path)).exit_code == 2
    assert run("pcap", command).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [("--seconds", "nan"), ("--seconds", "0"), ("--seconds", "inf"), ("--packets", "0")],
)
def test_live_without_an_end_is_asked_for_by_saying_nothing(arguments: tuple[str, str]) -> None:
    done = run("pcap", "live", *arguments)
    assert done.exit_code == 2 and "Invalid value" in done.stderr


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures(suffix: str, two: Path, tmp_path: Path) -> None:
    single, several = tmp_path / f"one{suffix}", tmp_path / f"more{suffix}"
    done = run("pcap", "explain", f"{CALL}.pcap", "--plot", str(single))
    assert done.exit_code == 0 and single.stat().st_size > 5_000
    done = run("pcap", "explain", str(two), "--plot", str(several))
    assert [p.name for p in sorted(tmp_path.glob("more*"))] == [
        f"more-1{suffix}",
        f"more-2{suffix}",
    ]


def test_pictures_of_the_wrong_kind(tmp_path: Path) -> None:
    done = run("pcap", "explain", WARP, "--plot", str(tmp_path / "ladder.doc"))
    assert done.exit_code == 2 and not done.stdout, "nothing is told before it is refused"
    assert ".png, .svg" in done.stderr


def test_a_picture_names_what_keys_have_opened() -> None:
    path = CAPTURES / "peers/chromium156"
    opened = opened_with(Path(f"{path}.keys"))
    (facts,) = read(f"{path}.pcap", opened=opened).facts()
    event = next(event for event in facts.session.events if event.number == 16)
    assert label(facts, event) == ("#16  DTLS encrypted (epoch 3, 117 bytes)  [SCTP COOKIE ECHO]")


def test_redact(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    done = run("pcap", "redact", WARP, str(out))
    assert done.exit_code == 0 and "101 datagrams of 1 session;" in done.stdout
    assert run("pcap", "explain", str(out)).exit_code == 0
    assert run("pcap", "redact", str(tmp_path / "no"), str(out)).exit_code == 2
    empty = tmp_path / "nothing.pcap"
    empty.write_bytes(pcap([Packet(0, b"x" * 60)]))
    assert run("pcap", "redact", str(empty), str(out)).exit_code == 1


def test_trace(tmp_path: Path) -> None:
    path = tmp_path / "call.sqlog"
    path.write_text(
        '\x1e{"qlog_version": "0.4"}\n\x1e{"time": 1, "name": "a:b", "data": {}}\n\x1ex'
    )
    done = run("trace", str(path))
    assert done.exit_code == 0 and "· " in done.stdout
    assert "1 record could not be read" in done.stderr
    assert run("trace", str(path), "--layer", "a").exit_code == 0
    done = run("trace", str(path), "--layer", "nope")
    assert done.exit_code == 1
    assert "no layer nope in this trace: it has a" in done.stderr
    done = run("trace", str(path), "--layer", "nope", "--layer", "a")
    assert done.exit_code == 0 and "no layer nope" in done.stderr
    assert run("trace", WARP).exit_code == 2
    assert run("trace", str(tmp_path / "no")).exit_code == 2


def test_pictures_that_are_too_many(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warp_tools.capture.plot.MAX_PICTURES", 1)
    done = run("pcap", "explain", str(two), "--plot", str(tmp_path / "more.svg"))
    assert "1 of 2 sessions were drawn" in done.stderr and "--session" in done.stderr


def test_help_reads_well() -> None:
    text = run("pcap", "--help").stdout
    for command in ("show", "explain", "live", "redact", "decrypt"):
        assert command in text
        told = run("pcap", command, "--help")
        assert told.exit_code == 0 and "Exit status: 0" in told.stdout
    assert "Exit status" in text
    for command in ("trace", "probe"):
        assert "Exit status: 0" in run(command, "--help").stdout
