"""From a capture and a key log to files and a report; what is missing or wrong is said."""

from __future__ import annotations

import base64
import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.captures.pcap import CAPTURES, read_pcap
from tests.unit.tools.capture.builder import frames, pcap
from tests.unit.tools.decrypt.support import CALLS, call, keys, write_pcap
from tests.unit.tools.decrypt.test_sessions import ACK, COUNTS, OPEN, SAID
from warp_tools.decrypt import DecryptConfig, Report, Verdict, decrypt
from warp_tools.failure import ToolFailure


def run(capture: Path, log: Path | None, folder: Path | None = None) -> Report:
    names = {"plain": "plain.pcapng", "audio": "audio.ogg", "messages": "messages.jsonl"}
    outputs = {key: folder / name for key, name in names.items()} if folder is not None else {}
    return decrypt(DecryptConfig(capture=capture, keylog=log, **outputs))


def recorded(name: str) -> Path:
    return CAPTURES / "calls" / f"{name}.pcap"


def log_without(path: Path, *labels: str, to: Path) -> Path:
    lines = [line for line in path.read_text().splitlines() if not line.startswith(labels)]
    to.write_text("\n".join(lines) + "\n")
    return to


@pytest.mark.parametrize("name", CALLS)
def test_everything_at_once(name: str, tmp_path: Path) -> None:
    report = run(recorded(name), keys(name), tmp_path)
    assert report.exit_status == 0
    assert dict(report.packets) == COUNTS[name]
    assert report.messages == len(SAID[name])
    facts = report.to_json()
    (connection,) = facts["connections"]
    assert connection["verdict"] == "opened"
    assert connection["reasons"] == []
    assert connection["srtp_profile"] == "AEAD_AES_128_GCM"
    assert connection["dtls_version"] == ("1.2" if "dtls12" in name else "1.3")
    assert [Path(one["file"]).is_file() for one in facts["audio"]] == [True, True]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["plain.pcapng", "messages.jsonl", *(Path(one["file"]).name for one in facts["audio"])]
    )
    json.dumps(facts)


@pytest.mark.parametrize("name", CALLS)
def test_messages_as_json_lines(name: str, tmp_path: Path) -> None:
    run(recorded(name), keys(name), tmp_path)
    found, last = [], 0.0
    for line in (tmp_path / "messages.jsonl").read_text().splitlines():
        one = json.loads(line)
        assert last <= one["seconds"] < 5
        last = one["seconds"]
        content = {
            "open": lambda m: OPEN,
            "ack": lambda m: ACK,
            "text": lambda m: m["text"],
            "binary": lambda m: base64.b64decode(m["base64"]),
        }[one["kind"]](one)
        found.append((one["from"], one["stream"], one["label"], content))
    assert found == [(role.value, *rest) for role, *rest in SAID[name]]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.interop
@pytest.mark.slow
def test_tshark_decodes_what_was_written(name: str, tmp_path: Path, require_peer) -> None:
    """Without a preference, a profile or a plugin; times, ports and the original numbers kept."""
    require_peer("tshark")
    run(recorded(name), keys(name), tmp_path)

    def fields(capture: Path, shown: str, *names: str) -> list[list[str]]:
        command = [shutil.which("tshark") or "tshark", "-n", "-r", str(capture), "-Y", shown]
        command += ["-T", "fields", "-E", "separator=;"]
        for each in names:
            command += ["-e", each]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return [line.split(";") for line in done.stdout.splitlines()]

    plain = tmp_path / "plain.pcapng"
    for protocol, dissector in (("stun", "stun-udp"), ("rtp", "rtp"), ("rtcp", "rtcp")):
        assert len(fields(plain, protocol, "frame.number")) == COUNTS[name][dissector]
    sctp = fields(plain, "sctp", "sctp.srcport", "sctp.dstport")
    assert sctp == [["5000", "5000"]] * COUNTS[name]["sctp"]
    wrong = "_ws.malformed || sctp.checksum.status == 0"
    assert fields(plain, wrong, "frame.number") == []
    opening = fields(plain, "rtcdc.message_type == 3", "rtcdc.label")
    assert [label for (label,) in opening] == [s[2] for s in SAID[name] if s[3] == OPEN]
    # RTP headers are in the clear in the original too, where tshark has to be told of the port
    port = call(name)[0].source[1]
    command = ["tshark", "-n", "-r", str(recorded(name)), "-d", f"udp.port=={port},rtp"]
    command += ["-Y", "rtp.version == 2 && rtp.p_type in {0..63, 96..127}"]
    names = ("frame.number", "frame.time_epoch", "rtp.ssrc", "rtp.seq", "rtp.timestamp")
    command += ["-T", "fields", "-E", "separator=;", *(w for f in names for w in ("-e", f))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    names = ("exported_pdu.orig_fno", *names[1:])
    assert fields(plain, "rtp", *names) == [line.split(";") for line in done.stdout.splitlines()]


def test_the_plain_file_block_by_block(tmp_path: Path) -> None:
    """The frame of pcapng, by the letter of the draft, in case no tshark is at hand."""
    name = "libwebrtc152_warp"
    run(recorded(name), keys(name), tmp_path)
    blob, at, kinds = (tmp_path / "plain.pcapng").read_bytes(), 0, []
    while at < len(blob):
        kind, length = struct.unpack_from("<II", blob, at)
        assert length % 4 == 0
        assert struct.unpack_from("<I", blob, at + length - 4)[0] == length
        kinds.append(kind)
        at += length
    assert kinds == [0x0A0D0D0A, 1] + [6] * sum(COUNTS[name].values())


# -- what is missing, and what is wrong ---------------------------------------------------------


def reasons(report: Report) -> str:
    return " | ".join(reason for outcome in report.outcomes for reason in outcome.reasons())


def test_the_key_log_of_another_call() -> None:
    report = run(recorded("libwebrtc152_warp"), keys("libwebrtc152_plain"))
    assert report.exit_status == 1
    (outcome,) = report.outcomes
    assert outcome.verdict is Verdict.SHUT
    assert reasons(report) == (
        "the key log has no line for client random 3a5b4972bac02b6e…: it is of another call"
    )
    assert outcome.shut_media == 179


def test_secrets_that_do_not_fit(tmp_path: Path) -> None:
    right = keys("libwebrtc152_warp").read_text()
    other = {
        line.split()[0]: line.split()[2]
        for line in keys("libwebrtc152_plain").read_text().splitlines()
    }
    lines = []
    for line in right.splitlines():
        label, client_random, _ = line.split()
        lines.append(f"{label} {client_random} {other[label]}")
    (tmp_path / "keys").write_text("\n".join(lines))
    report = run(recorded("libwebrtc152_warp"), tmp_path / "keys")
    assert report.exit_status == 1
    assert "do not fit" in reasons(report)
    assert "the keys of media that follow from the key log do not fit" in reasons(report)


def damaged(datagram: bytes) -> bytes:
    """Spoil the tag of every protected record of DTLS 1.2."""
    out, at = bytearray(datagram), 0
    while 20 <= datagram[0] <= 63 and at + 13 <= len(datagram):
        end = at + 13 + int.from_bytes(datagram[at + 11 : at + 13], "big")
        if datagram[at + 3 : at + 5] != b"\0\0":
            out[end - 1] ^= 1
        at = end
    return bytes(out)


def test_a_key_that_opens_media_fits_though_no_record_opens(tmp_path: Path) -> None:
    """Both follow from the one secret of DTLS 1.2."""
    name = "aiortc116_dtls12"
    packets = read_pcap(f"calls/{name}.pcap")
    spoilt = [packet._replace(payload=damaged(packet.payload)) for packet in packets]
    (tmp_path / "spoilt.pcap").write_bytes(pcap(frames(spoilt), ns=True))
    report = run(tmp_path / "spoilt.pcap", keys(name))
    assert report.exit_status == 3 and report.packets["rtp"]
    told = reasons(report)
    assert "do not fit" not in told
    assert "fits, for media opened with it" in told and "did not: damaged or cut" in told


def test_without_an_exporter_secret_media_stays_shut(tmp_path: Path) -> None:
    log = log_without(keys("libwebrtc152_warp"), "EXPORTER", to=tmp_path / "keys")
    report = run(recorded("libwebrtc152_warp"), log)
    assert report.exit_status == 3
    (outcome,) = report.outcomes
    assert outcome.verdict is Verdict.PARTLY
    assert outcome.shut_records == 0
    assert "no EXPORTER_SECRET" in reasons(report)
    assert report.messages == 10


def test_only_an_exporter_secret_opens_media(tmp_path: Path) -> None:
    log = log_without(keys("libwebrtc152_warp"), "CLIENT", "SERVER", to=tmp_path / "keys")
    report = run(recorded("libwebrtc152_warp"), log)
    assert report.exit_status == 3
    assert report.packets["rtp"] == 163
    assert report.messages == 0
    assert "traffic secrets" in reasons(report)


def test_dtls12_without_its_hello(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "late.pcap", call("aiortc116_dtls12")[30:])
    report = run(path, keys("aiortc116_dtls12"))
    assert report.exit_status == 1
    assert "its ClientHello is not in the capture" in reasons(report)


def test_two_calls_of_which_one_has_keys(tmp_path: Path) -> None:
    both = call("libwebrtc152_warp") + call("libwebrtc152_plain")
    report = run(write_pcap(tmp_path / "both.pcap", both), keys("libwebrtc152_plain"))
    assert report.exit_status == 3
    assert [outcome.verdict for outcome in report.outcomes] == [Verdict.SHUT, Verdict.OPENED]


def test_a_file_that_ends_too_early(tmp_path: Path) -> None:
    blob = recorded("libwebrtc152_warp").read_bytes()
    path = tmp_path / "cut.pcap"
    path.write_bytes(blob[:20_000])
    report = run(path, keys("libwebrtc152_warp"))
    assert report.exit_status == 0
    assert any("ends inside packet" in note for note in report.notes)
    assert 10 < report.packets["rtp"] < 160


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"not a capture at all"), "not a capture"),
        (lambda path: write_pcap(path, []), "it holds no DTLS and no media"),
        (
            lambda path: write_pcap(path, call("libwebrtc152_warp")[:1]),
            "a handshake in the clear is all there is",
        ),
    ],
)
def test_nothing_to_decrypt(tmp_path: Path, make, says: str) -> None:
    path = tmp_path / "x.pcap"
    make(path)
    with pytest.raises(ToolFailure, match=says):
        run(path, keys("libwebrtc152_warp"))


def test_a_snap_length_is_named(tmp_path: Path) -> None:
    blob = bytearray(recorded("libwebrtc152_warp").read_bytes())
    out, at = blob[:24], 24
    while at < len(blob):
        seconds, micros, kept, length = struct.unpack_from("<IIII", blob, at)
        short = min(kept, 60)
        out += (
            struct.pack("<IIII", seconds, micros, short, length) + blob[at + 16 : at + 16 + short]
        )
        at += 16 + kept
    (tmp_path / "short.pcap").write_bytes(out)
    with pytest.raises(ToolFailure, match=r"were cut by the snap length: capture with -s 0"):
        run(tmp_path / "short.pcap", keys("libwebrtc152_warp"))


def test_no_key_log_and_none_inside() -> None:
    with pytest.raises(ToolFailure, match="carries no secrets: give a key log with --keylog"):
        run(recorded("libwebrtc152_warp"), None)


def test_secrets_inside_a_pcapng(tmp_path: Path) -> None:
    """A decryption secrets block (draft-ietf-opsawg-pcapng section 4.7), as editcap writes it."""

    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    log = keys("libwebrtc152_warp").read_bytes()
    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack("<HHI", 1, 0, 0))
    out += block(10, struct.pack("<II", 0x544C534B, len(log)) + log + bytes(-len(log) % 4))
    blob, at = recorded("libwebrtc152_warp").read_bytes(), 24
    while at < len(blob):
        seconds, micros, kept, length = struct.unpack_from("<IIII", blob, at)
        ticks = seconds * 1_000_000 + micros
        head = struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFF_FFFF, kept, length)
        data = blob[at + 16 : at + 16 + kept]
        out += block(6, head + data + bytes(-len(data) % 4))
        at += 16 + kept
    (tmp_path / "with.pcapng").write_bytes(out)
    assert run(tmp_path / "with.pcapng", None).exit_status == 0


def test_broken_lines_are_noted(tmp_path: Path) -> None:
    log = tmp_path / "keys"
    log.write_text(keys("libwebrtc152_warp").read_text() + "EXPORTER_SECRET 3a5b\n")
    report = run(recorded("libwebrtc152_warp"), log)
    assert report.notes == ["1 line of the key log is broken, the first at line 6"]


@pytest.mark.parametrize("which", ["plain", "audio", "messages"])
def test_nothing_is_written_over_what_is_read(tmp_path: Path, which: str) -> None:
    capture = tmp_path / "call.pcap"
    shutil.copy(recorded("libwebrtc152_warp"), capture)
    config = DecryptConfig(capture=capture, keylog=keys("libwebrtc152_warp"), **{which: capture})
    with pytest.raises(ToolFailure, match="is read or written already"):
        decrypt(config)
    assert capture.read_bytes() == recorded("libwebrtc152_warp").read_bytes()


@pytest.mark.parametrize("which", ["plain", "audio", "messages"])
def test_a_place_that_cannot_be_written(tmp_path: Path, which: str) -> None:
    path = tmp_path / "no" / "file"
    config = DecryptConfig(
        capture=recorded("libwebrtc152_warp"), keylog=keys("libwebrtc152_warp"), **{which: path}
    )
    with pytest.raises(ToolFailure, match="cannot write"):
        decrypt(config)


@pytest.mark.parametrize(
    "label",
    ["SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"],
)
def test_a_secret_that_the_key_log_lacks_is_named(label: str, tmp_path: Path) -> None:
    name = "libwebrtc152_warp"
    log = log_without(recorded(name).with_suffix(".keys"), label, to=tmp_path / "part.keys")
    report = run(recorded(name), log)
    assert report.exit_status == 3
    assert f"the key log has no {label} for client random" in reasons(report)
    assert "damaged" not in reasons(report)


def test_what_the_capture_cut_was_not_opened(tmp_path: Path) -> None:
    """Everything that is whole opens, and that is not everything."""
    name = "libwebrtc152_warp"
    source = recorded(name)
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(pcap(frames(read_pcap(f"calls/{name}.pcap")), snap=96))
    report = run(cut, source.with_suffix(".keys"))
    assert [outcome.verdict for outcome in report.outcomes] == [Verdict.OPENED]
    assert report.exit_status == 3
