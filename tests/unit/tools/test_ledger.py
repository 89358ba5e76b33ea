from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from warp_tools.conversation import Conversation, Said
from warp_tools.delay import Rung
from warp_tools.dissect import Description
from warp_tools.ledger import TARGETS, Had, Ledger, Row, Start, enter, first_check, first_media
from warp_tools.ledger_view import show

RTT_S = 0.1
T = 500.0


def rung(at: float, from_client: bool, kind: str, size: int, text: str = "") -> Rung:
    return Rung(T + at, from_client, size, Description(kind, text or kind), False)


WARP = [
    rung(0.0, True, "stun", 328, "Binding request, carries ClientHello (216)"),
    rung(0.051, False, "stun", 704, "Binding response, carries ServerHello + encrypted×5 (629)"),
    rung(0.052, False, "rtp", 120),
    rung(0.102, True, "dtls", 456, "DTLS encrypted×3"),
    rung(0.103, True, "rtp", 120),
    rung(0.153, False, "dtls", 40, "DTLS encrypted"),
    rung(0.9, True, "stun", 100, "Binding request"),
]
TIMES = {
    "dtls_client": T + 0.101,
    "dtls_server": T + 0.153,
    "channel_client": T + 0.102,
    "channel_server": T + 0.153,
}


def warp_row(**moved: float) -> Row:
    times = {**TIMES, **{name: T + at for name, at in moved.items()}}
    return enter(Start(name="warp", first_check=T, times=times, ladder=WARP), RTT_S)


def test_a_start_becomes_a_row() -> None:
    row = warp_row()
    assert row.to_json() == {
        "name": "warp",
        "dtls_client_rtt": 1.01,
        "dtls_server_rtt": 1.53,
        "server_media_rtt": 0.52,
        "client_media_rtt": 1.03,
        "channel_client_rtt": 1.02,
        "channel_server_rtt": 1.53,
        "ms": {
            "dtls_client": 101.0,
            "dtls_server": 153.0,
            "server_media": 52.0,
            "client_media": 103.0,
            "channel_client": 102.0,
            "channel_server": 153.0,
        },
        # the check at 0.9 s is not part of the start, and media is not counted
        "datagrams": 4,
        "bytes": 328 + 704 + 456 + 40,
    }


def test_firsts_are_found_on_the_wire() -> None:
    assert first_check(WARP) == T
    assert first_media(WARP, from_client=True) == pytest.approx(T + 0.103)
    assert first_media(WARP[:2], from_client=False) is None
    assert first_check([]) is None


def test_the_json_has_the_promised_shape_and_meets_the_targets() -> None:
    ledger = Ledger(rtt_ms=100, rows=[warp_row()], correlation=0.987)
    out = json.loads(json.dumps(ledger.to_json()))
    assert set(out) == {"rtt_ms", "ledger", "audio", "targets", "targets_met", "misses"}
    assert out["targets"] == {"warp": TARGETS["warp"]}
    assert out["audio"]["correlation"] == 0.987
    assert out["misses"] == []
    assert out["targets_met"] is True


@pytest.mark.parametrize(
    ("late", "says"),
    [
        ({"channel_client": 0.2}, "channel_client at 2.00 RTT, target 1"),
        ({"channel_server": 0.25}, "channel_server at 2.50 RTT, target 1.5"),
    ],
)
def test_a_late_milestone_is_a_miss(late: dict[str, float], says: str) -> None:
    ledger = Ledger(rtt_ms=100, rows=[warp_row(**late)], correlation=1.0)
    assert any(says in miss for miss in ledger.misses())


def test_what_never_came_is_a_miss() -> None:
    start = Start(name="warp", first_check=T, times={}, ladder=WARP[:1])
    misses = Ledger(rtt_ms=100, rows=[enter(start, RTT_S)]).misses()
    assert "warp: server_media never came (target 0.5 RTT)" in misses
    assert "warp: the first answer does not carry the server's flight" in misses
    assert "audio: nothing came back" in misses


def test_other_speech_is_a_miss() -> None:
    ledger = Ledger(rtt_ms=100, rows=[warp_row()], correlation=0.3)
    assert ledger.misses() == [
        "audio: what came back is not the speech sent (correlation 0.30, target 0.9)"
    ]


def test_a_first_check_without_the_hello_is_a_miss() -> None:
    bare = [rung(0.0, True, "stun", 100, "Binding request"), *WARP[1:]]
    start = Start(name="warp", first_check=T, times=TIMES, ladder=bare)
    misses = Ledger(rtt_ms=100, rows=[enter(start, RTT_S)], correlation=1.0).misses()
    assert misses == ["warp: the first check does not carry the whole ClientHello"]


def test_people_see_a_table_and_a_ladder() -> None:
    console = Console(width=140, record=True, file=io.StringIO())
    slow = enter(Start(name="warp-pq", first_check=T, times={}, ladder=WARP[:3]), RTT_S)
    show(Ledger(rtt_ms=100, rows=[warp_row(), slow], correlation=0.98), console)
    text = console.export_text()
    assert "carries ClientHello (216)" in text
    assert "· channel, server" in text
    assert "102" in text
    assert "never" in text
    assert "missed: warp-pq: client_media never came (target 1 RTT)" in text
    assert "  0.9" not in text


def shown(ledger: Ledger, width: int = 80, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    show(ledger, Console(file=out, width=width))
    out.flush()
    return raw.getvalue().decode(encoding)


def test_the_verdict_names_what_was_checked_and_what_was_met() -> None:
    step = enter(Start(name="sped", first_check=T, times=TIMES, ladder=WARP), RTT_S)
    text = shown(Ledger(rtt_ms=100, rows=[step, warp_row()], correlation=0.98))
    assert re.search(r"^  warp +1 / 0\.5 \| 1 / 1\.5 +met$", text, re.M)
    assert "sped: steps between, without targets" in text
    assert "all targets met: warp; the speech\n" in text
    late = Ledger(rtt_ms=100, rows=[step, warp_row(channel_client=0.2)], correlation=0.98)
    assert re.search(r"^  warp .*missed$", shown(late), re.M)
    assert "all targets met" not in shown(late)


def test_what_may_have_made_it_late_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)
    plain = enter(Start(name="plain", first_check=T, times={}, ladder=WARP), RTT_S)
    assert "other work" in shown(Ledger(rtt_ms=100, rows=[plain], correlation=1.0))
    late = Ledger(rtt_ms=100, rows=[warp_row(channel_client=0.2)], correlation=1.0)
    assert "other work" not in shown(late)
    monkeypatch.setattr("os.getloadavg", lambda: (1e6, 0.0, 0.0), raising=False)
    assert "other work" in shown(late)
    assert "other work" not in shown(Ledger(rtt_ms=100, rows=[warp_row()], correlation=0.1))
    short = Ledger(rtt_ms=20, rows=[warp_row(channel_client=0.2)], correlation=1.0)
    assert "try --rtt 100" in shown(short)


def test_what_the_machine_tore_is_said() -> None:
    said = Said(speaker="user", text="What is heaven times eight?", start_ms=0, end_ms=900)
    torn = Conversation(transcript=[said], asked="What is seven times eight?", late=7, concealed=1)
    text = shown(Ledger(rtt_ms=100, rows=[warp_row()], correlation=1.0, conversation=torn))
    assert "what was asked: What is seven times eight?\n" in text
    assert "late with 7 frames of the question: the voice heard gaps\n" in text
    assert "late with 1 frame of the voice: you heard gaps\n" in text
    torn.transcript[0] = replace(said, text="What is seven times eight?")
    torn.late = torn.concealed = 0
    text = shown(Ledger(rtt_ms=100, rows=[warp_row()], correlation=1.0, conversation=torn))
    assert "what was asked" not in text
    assert "gaps" not in text


def test_a_narrow_terminal_that_knows_ascii_only() -> None:
    text = shown(Ledger(rtt_ms=100, rows=[warp_row()], correlation=0.98), 40, "ascii")
    assert max(map(len, text.splitlines())) <= 40
    assert "\x1b" not in text
    assert "0.00  ------>" in text
    assert "* channel, server" in text
    assert "first media  1.03 / 0.52" in text
    assert re.search(r"^  warp .*met$", text, re.M)


def test_a_call_by_a_ticket_counts_from_the_intent() -> None:
    had = (Had(52.0, "a session"), Had(153.0, "a client that is proven"))
    start = Start(name="instant", first_check=T - 0.004, times=TIMES, ladder=WARP)
    row = enter(start, RTT_S, had=had)
    assert row.ms["server_media"] == pytest.approx(56.0)
    assert row.to_json()["server_had"] == [
        {"rtt": 0.52, "what": "a session"},
        {"rtt": 1.53, "what": "a client that is proven"},
    ]
    assert Ledger(rtt_ms=100, rows=[row], correlation=0.99).misses() == []
    out = io.StringIO()
    show(Ledger(rtt_ms=100, rows=[row], correlation=0.99), Console(file=out, width=80))
    text = out.getvalue()
    assert "0.04  \u2500" in text
    assert "what the server has of the client" in text
    assert "0.00  nothing" in text
    assert "0.52  a session" in text
    assert "WARP by a ticket" in text


def test_a_call_by_a_ticket_begins_with_one_datagram() -> None:
    plain = [rung(0.0, True, "stun", 268, "Binding request"), *WARP[1:]]
    start = Start(name="instant", first_check=T, times=TIMES, ladder=plain)
    misses = Ledger(rtt_ms=100, rows=[enter(start, RTT_S)], correlation=0.99).misses()
    assert misses == ["instant: the first check does not carry the whole ClientHello"]
