"""Every peer of the interop matrix, recorded: verified with its password, opened with our keys."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.captures.pcap import CAPTURES, read_pcap
from warp.crypto import HmacSha1
from warp.stun import Attribute, MessageClass, is_stun, parse_message
from warp_tools.capture.run import read
from warp_tools.decrypt import DecryptConfig, decrypt

PEERS = sorted(path.stem for path in (CAPTURES / "peers").glob("*.pcap"))
SAID = [
    ("client", "open", None),
    ("server", "ack", None),
    ("server", "text", "text"),
    ("client", "text", "text"),
    ("server", "binary", "AAE="),
    ("client", "binary", "AAE="),
]


def config(name: str, folder: Path) -> DecryptConfig:
    return DecryptConfig(
        capture=CAPTURES / f"peers/{name}.pcap",
        keylog=CAPTURES / f"peers/{name}.keys",
        plain=folder / "plain.pcapng",
        audio=None,
        messages=folder / "said.jsonl",
    )


def test_every_peer_is_here() -> None:
    assert len(PEERS) == 9


@pytest.mark.parametrize("name", PEERS)
def test_checks_are_signed_with_the_passwords_of_the_descriptions(name: str) -> None:
    sdp = (CAPTURES / f"peers/{name}.sdp").read_text()
    ufrags, pwds = (re.findall(rf"a=ice-{kind}:(\S+)", sdp) for kind in ("ufrag", "pwd"))
    passwords = dict(zip(ufrags, pwds, strict=True))
    asked: dict[bytes, str] = {}
    for packet in read_pcap(f"peers/{name}.pcap"):
        if not is_stun(packet.payload):
            continue
        message = parse_message(packet.payload)
        if message.message_class is MessageClass.REQUEST:
            username = message.get(Attribute.USERNAME) or b""
            asked[message.transaction_id] = passwords[username.split(b":")[0].decode()]
        assert message.verify_integrity(HmacSha1(asked[message.transaction_id].encode()))
    assert asked


@pytest.mark.parametrize("name", PEERS)
def test_all_of_it_is_opened(name: str, tmp_path: Path) -> None:
    report = decrypt(config(name, tmp_path)).to_json()
    (connection,) = report["connections"]
    assert (connection["verdict"], connection["reasons"]) == ("opened", [])
    assert connection["records"]["shut"] == 0
    assert connection["records"]["repeated"] == (1 if "werift" in name else 0)
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert all((one["label"], one["connection"]) == ("theirs", 1) for one in said)
    heard = [(one["from"], one["kind"], one.get("text", one.get("base64"))) for one in said]
    assert sorted(heard, key=str) == sorted(SAID, key=str)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_tshark_finds_nothing_wrong_in_the_plain_file(
    name: str, tmp_path: Path, require_peer: Any
) -> None:
    require_peer("tshark")
    decrypt(config(name, tmp_path))
    # Firefox's ClientHello comes twice in the same pieces: tshark minds, in the original as well
    wrong = "(_ws.malformed && !(dtls.handshake.type == 1)) || sctp.checksum.status == 0"
    command = ["tshark", "-n", "-r", str(tmp_path / "plain.pcapng"), "-Y", wrong]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("name", PEERS)
def test_the_round_trip_is_that_of_the_path(name: str) -> None:
    """Our end is lite: how far the peer is, only its reactions tell."""
    (facts,) = read(CAPTURES / f"peers/{name}.pcap").facts()
    assert facts.vantage.at_most and facts.vantage.near == "between"
    assert facts.vantage.rtt_ns is not None
    assert 40 <= facts.vantage.rtt_ns / 1e6 < 60
