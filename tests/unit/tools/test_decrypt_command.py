"""`warp pcap decrypt` as a person meets it: what it prints, its status, a line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.captures.pcap import CAPTURES
from tests.unit.tools.decrypt.support import call, keys, write_pcap
from warp_tools.decrypt_command import decrypt
from warp_tools.failure import ToolFailure

CALL = CAPTURES / "calls" / "libwebrtc152_warp.pcap"
KEYS = keys("libwebrtc152_warp")

app = typer.Typer()
app.command()(decrypt)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, ToolFailure):
        raise result.exception
    return result.exit_code, result.output


def test_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, said = run(
        CALL, "--keylog", KEYS, "--out", "p.pcapng", "--audio", "a.ogg", "--messages", "m.jsonl"
    )
    assert status == 0
    assert said.splitlines() == [
        "connection 1: 127.0.0.1:53665 → 127.0.0.1:42712, DTLS 1.3 AES_128_GCM_SHA256: opened",
        "  opened 37 records, 179 packets of media (AEAD_AES_128_GCM), 10 messages",
        "p.pcapng: 228 packets",
        "m.jsonl: 10 messages",
        "a-1-client-b0a7a433.ogg: 1.76 s of Opus from 0.039 s on",
        "a-1-server-9782d387.ogg: 1.50 s of Opus from 0.073 s on",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a-1-client-b0a7a433.ogg",
        "a-1-server-9782d387.ogg",
        "m.jsonl",
        "p.pcapng",
    ]


def test_json() -> None:
    status, said = run(CALL, "--keylog", KEYS, "--json")
    assert status == 0
    assert json.loads(said)["connections"][0]["verdict"] == "opened"


def test_a_part_that_stays_shut_has_a_status_of_its_own(tmp_path: Path) -> None:
    both = write_pcap(
        tmp_path / "both.pcap", call("libwebrtc152_warp") + call("libwebrtc152_plain")
    )
    status, said = run(both, "--keylog", KEYS)
    assert status == 3
    assert ": shut\n" in said
    assert "it is of another call" in said


def test_nothing_opened_says_why_and_fails() -> None:
    with pytest.raises(ToolFailure, match="nothing could be opened: the key log has no line"):
        run(CALL, "--keylog", keys("libwebrtc152_plain"))


def test_what_is_no_capture_has_a_status_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no capture")
    for wrong in (path, tmp_path / "nothing.pcap"):
        status, said = run(wrong, "--keylog", KEYS)
        assert status == 2
        assert said.startswith(f"warp: {wrong}")
        assert len(said.splitlines()) == 1


def test_many_connections_are_summed_up(tmp_path: Path) -> None:
    items = []
    hello = call("libwebrtc152_plain")[:20]
    for number in range(30):
        for item in hello:
            data = item.payload
            if data[0] == 22 and data[13] == 1:
                data = data[:27] + bytes((number,)) * 32 + data[59:]
            items.append(
                item._replace(
                    payload=data,
                    source=(f"10.0.{number}.1", item.source[1]),
                    destination=(f"10.0.{number}.1", item.destination[1]),
                )
            )
    path = write_pcap(tmp_path / "many.pcap", call("libwebrtc152_warp") + items)
    status, said = run(path, "--keylog", KEYS)
    assert status == 3
    assert "… and 11 connections more: 11 shut (--json has them all)" in said
    assert said.startswith("connection 1: 127.0.0.1")  # what was opened comes first
    assert "connection 2: 10.0.0.1" in said
