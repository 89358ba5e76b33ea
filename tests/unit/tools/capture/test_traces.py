"""`warp trace`: what the stack's own machines wrote, as a ladder."""

from __future__ import annotations

import io
import json

import pytest

from tests.scenarios.start import CERTIFICATES, WARP, open_channel, signal
from tests.sim.network import LinkConfig
from tests.sim.pair import CLIENT, SERVER, Pair
from warp.entropy import SeededEntropy
from warp.peer import PeerConnection
from warp.trace import JsonSeqTrace
from warp_tools.capture.files import CaptureError
from warp_tools.capture.traces import MAX_RECORD, Trace, trace_lines


def lines(text: str, **options) -> list[str]:
    return [line.plain for line in trace_lines(Trace(io.BytesIO(text.encode())), **options)]


def record(time: object, name: object, data: object = None) -> str:
    fields = {"time": time, "name": name, "data": {} if data is None else data}
    return "\x1e" + json.dumps(fields) + "\n"


HEADER = "\x1e" + json.dumps({"qlog_version": "0.4", "title": "a call"}) + "\n"


def test_a_real_start() -> None:
    written: list[str] = []
    ends = {}
    for name in ("client", "server"):
        ends[name] = PeerConnection(
            WARP.config(server=name == "server"),
            certificate=CERTIFICATES[name],
            entropy=SeededEntropy(name.encode()),
            trace=JsonSeqTrace(written.append, "the client") if name == "client" else None,
        )
    pair = Pair(ends["client"], ends["server"], config=LinkConfig(delay_s=0.05))
    ends["client"].add_local_address(CLIENT, pair.now)
    ends["server"].add_local_address(SERVER, pair.now)
    signal(ends["client"], ends["server"], pair.now)
    open_channel(WARP, pair)
    pair.run_for(1.0)
    drawn = lines("".join(written))
    assert drawn[0].startswith("the client")
    text = "\n".join(drawn)
    for said in ("check sent", "flight sent", "handshake completed", "negotiated"):
        assert said in text
    assert "▶" in text and "·" in text
    only = lines("".join(written), layers={"dtls"})
    assert len(only) < len(drawn) and not any(line.split()[1:2] == ["ice"] for line in only[1:])


def test_arrows_and_words() -> None:
    text = HEADER + record(10.0, "ice:check_sent", {"pair": "~1", "n": 3})
    text += record(12.5, "dtls:ack_received") + record(13, "sctp:state_changed", {"to": "open"})
    drawn = lines(text)
    assert "▶" in drawn[1] and "0.00" in drawn[1] and "pair ~1, n 3" in drawn[1]
    assert "◀" in drawn[2] and "2.50" in drawn[2]
    assert "·" in drawn[3] and "to open" in drawn[3]


def test_a_limit_says_what_is_left() -> None:
    text = HEADER + "".join(record(n, "ice:check_sent") for n in range(9))
    assert lines(text, limit=4)[-1].strip() == "... 5 more lines; --limit shows more"


@pytest.mark.parametrize(
    "broken",
    [
        "\x1e{", "\x1enull\n", "\x1e[1]\n", record("1", "a:b"), record(True, "a:b"),
        record(1, 2), record(1, "a", [1]), record(1e300, "a:b"), "\x1e" + "[" * 5000,
        record(float("nan"), "a:b"), record(10**400, "a:b"),
    ],
)  # fmt: skip
def test_broken_records_are_counted(broken: str) -> None:
    trace = Trace(io.BytesIO((HEADER + broken + record(1, "ice:check_sent")).encode()))
    assert len(list(trace)) == 1 and trace.broken == 1


def test_a_record_without_an_end_is_given_up() -> None:
    text = HEADER.encode() + b"\x1e" + b"x" * (3 * MAX_RECORD)
    trace = Trace(io.BytesIO(text))
    assert list(trace) == [] and trace.broken >= 1


def test_control_characters_do_not_reach_the_terminal() -> None:
    drawn = lines(HEADER + record(1, "ice:x", {"why": "\x1b[31mred\nline"}))
    assert "\x1b" not in drawn[1] and "\n" not in drawn[1]
    title = '\x1e{"qlog_version": "0.3", "title": "\\u001b]0;mine\\u0007"}\n'
    drawn = lines(title + record(1, "i\x1bce:x\x1b[2J", {"\x1bkey": 1}))
    assert not any("\x1b" in line or "\x07" in line for line in drawn)


@pytest.mark.parametrize("depth", [50, 600, 950])
def test_a_value_as_deep_as_it_can_be_read(depth: int) -> None:
    deep = '{"time": 1, "name": "a:b", "data": {"x": ' + "[" * depth + "]" * depth + "}}"
    trace = Trace(io.BytesIO((HEADER + "\x1e" + deep).encode()))
    drawn = [line.plain for line in trace_lines(trace)]
    assert len(drawn) + trace.broken == 2


@pytest.mark.parametrize(
    ("text", "says"), [("", "empty"), ("hello", "not a trace"), ("\x1e{}", "not a trace")]
)
def test_what_is_no_trace(text: str, says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        Trace(io.BytesIO(text.encode()))
