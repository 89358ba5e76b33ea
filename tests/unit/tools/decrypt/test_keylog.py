"""Key logs as programs write them, and as they come damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.pcap import CAPTURES
from tests.captures.pcap import read_keylog as read_independently
from warp_tools.decrypt import keylog
from warp_tools.decrypt.keylog import CLIENT_TRAFFIC, EXPORTER, MASTER, KeyLog, read_keylog
from warp_tools.failure import ToolFailure

RANDOM, SECRET = "ab" * 32, "cd" * 32
LOGS = sorted([*CAPTURES.rglob("*.keylog"), *CAPTURES.rglob("*.keys")])


def log_of(*lines: str) -> KeyLog:
    log = KeyLog()
    for number, line in enumerate(lines, 1):
        log.add_line(line, number)
    return log


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_real_logs_are_read_to_the_last_line(path: Path) -> None:
    log = read_keylog(path)
    expected = {
        random: {label: s for label, s in secrets.items() if label in keylog.LABELS}
        for random, secrets in read_independently(path).items()
    }
    assert dict(log.connections()) == expected
    assert log.broken == 0


def test_labels_with_and_without_a_number() -> None:
    log = log_of(f"CLIENT_TRAFFIC_SECRET {RANDOM} {SECRET}")
    assert log.find(bytes.fromhex(RANDOM)) == {CLIENT_TRAFFIC: bytes.fromhex(SECRET)}


def test_capitals_blanks_tabs_and_comments() -> None:
    log = log_of(
        "# comment",
        "",
        f"  CLIENT_RANDOM\t{RANDOM.upper()}  {'EF' * 48} ",
        f"EXPORTER_SECRET {RANDOM} {SECRET}",
    )
    assert log.find(bytes.fromhex(RANDOM)) == {
        MASTER: b"\xef" * 48,
        EXPORTER: bytes.fromhex(SECRET),
    }
    assert (log.lines, log.broken) == (2, 0)


def test_what_is_not_for_dtls_is_no_fault() -> None:
    log = log_of(
        f"QUIC_CLIENT_TRAFFIC_SECRET_0 {RANDOM} {SECRET}",
        "RSA 0011223344556677 0123",
        "PMS_CLIENT_RANDOM x y",
    )
    assert (len(log), log.broken) == (0, 0)


@pytest.mark.parametrize(
    "line",
    [
        f"CLIENT_RANDOM {RANDOM}",
        f"CLIENT_RANDOM {RANDOM} {SECRET}ab",
        f"CLIENT_RANDOM {RANDOM[:-1]} {SECRET}",
        f"EXPORTER_SECRET {RANDOM} {'zz' * 32}",
        "client_random",
    ],
)
def test_a_broken_line_is_counted_and_named(line: str) -> None:
    log = log_of(f"CLIENT_RANDOM {RANDOM} {'ef' * 48}", line)
    assert (log.lines, log.broken, log.first_broken) == (1, 1, 2)


def test_the_number_of_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keylog, "MAX_CONNECTIONS", 3)
    lines = [f"EXPORTER_SECRET {number:064x} {SECRET}" for number in range(10)]
    log = log_of(*lines, f"CLIENT_TRAFFIC_SECRET_0 {0:064x} {SECRET}")
    assert len(log) == 3
    assert set(log.find(bytes(32)) or {}) == {EXPORTER, CLIENT_TRAFFIC}


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "it is empty"), (b"\x7fELF\0\1", "line 1 is broken"), (b"x" * 100_000, "broken")],
)
def test_a_file_without_secrets_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(ToolFailure, match=says):
        read_keylog(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match=r"cannot read the key log .*No such file"):
        read_keylog(tmp_path / "nothing")
    with pytest.raises(ToolFailure, match="cannot read"):
        read_keylog(tmp_path)


@given(st.text(max_size=300), st.integers(1, 9))
def test_any_line_is_taken_passed_over_or_counted(line: str, number: int) -> None:
    log = KeyLog()
    log.add_line(line, number)
    assert log.lines + log.broken <= 1


def test_endless_lines_marks_and_line_ends_of_others(tmp_path: Path) -> None:
    """What editors and broken disks make of a key log; lines are counted as they are."""
    real = CAPTURES / "calls" / "libwebrtc152_warp.keys"
    lines = real.read_text().splitlines()
    log = tmp_path / "keys"
    log.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert read_keylog(log).lines == len(lines) and not read_keylog(log).broken
    garbage = b"A" * (3 << 20) + b"\n" + b"#" * 10_000 + b"\n" + bytes(range(128, 256)) + b"\n"
    log.write_bytes(garbage + real.read_bytes() + b"B" * 5_000)
    found = read_keylog(log)
    assert found.lines == len(lines)
    assert (found.broken, found.first_broken) == (3, 1)
