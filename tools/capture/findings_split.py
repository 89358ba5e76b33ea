"""What a start shows about a ClientHello that takes several datagrams, and what that cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warp_tools.capture import names
from warp_tools.capture.facts import Facts
from warp_tools.capture.finding import Finding, Weight
from warp_tools.capture.split import TOGETHER_MS, Split, Wait, split_of

_HEADERS: Final = 25  # of a record and a handshake message
_SHARE_HEADER: Final = 4


def split_findings(facts: Facts) -> Iterator[Finding]:
    """Yield what is to be said about a ClientHello in parts."""
    hello = facts.start.hello
    split = None if hello is None else split_of(facts.start, facts.vantage, hello)
    if hello is None or split is None:
        return
    group = facts.pq_share
    share = facts.shares().get(group, 0) + _SHARE_HEADER if group is not None else 0
    small = hello.length - share + _HEADERS <= hello.length / hello.parts + _HEADERS
    because = group is not None and small
    text = f"The ClientHello ({hello.length} bytes) takes {hello.parts} datagrams"
    if group is not None and because:
        text += f" because of its share for {names.group(group)} ({share - _SHARE_HEADER} bytes)"
    cost = split.wait is Wait.ANSWER or split.took_ms >= TOGETHER_MS
    if split.wait is Wait.UNTOLD and _too_short(facts):
        cost = False  # it may be computing
    yield Finding(
        id="clienthello-split-pq" if because else "clienthello-split",
        weight=Weight.COST if cost else Weight.NOTE,
        text=f"{text}; {_why(facts, split)}",
        trips=_trips(facts, split),
        ms=split.took_ms if cost else 0.0,
        datagrams=(hello.began.number, hello.whole.number),
    )


def _why(facts: Facts, split: Split) -> str:
    """Say what the datagrams show, and no more."""
    hello, answer = facts.start.hello, split.answer
    took = f"{split.took_ms:.0f} ms" if split.took_ms >= 1 else f"{split.took_ms:.1f} ms"
    after = f"the rest left {took} after the first part"
    number = 0 if answer is None else answer.number
    side = None if hello is None else hello.side
    match split.wait:
        case Wait.NOTHING:
            return "they left together, so it cost nothing."
        case Wait.UNANSWERED:
            return f"{after}, and no answer to that one is in the capture."
        case Wait.BEFORE:
            return f"{after}, before an answer to that one had arrived: it did not wait for it."
        case Wait.ANSWER:
            return f"{after}, when that was answered (#{number})."
        case Wait.LATER:
            return (
                f"{after}, and {split.gap_ms:.0f} ms after that one's answer (#{number}) had "
                "arrived: not at once, so something else was waited for."
            )
        case Wait.UNTOLD if _too_short(facts):
            return (
                f"the rest left {took} after the first part and behind its answer (#{number}). "
                "That may be computing as well: at a round trip this short it cannot be told "
                "whether the rest waited, and no round trip is counted for it."
            )
        case Wait.UNTOLD:
            return (
                f"here the rest passed {took} after the first part and behind its "
                f"answer (#{number}); how far {facts.letter(side)} is from the capture is not "
                "known, so neither is whether the rest waited for it."
            )


def _too_short(facts: Facts) -> bool:
    """Tell whether the round trip is known and computing may be as long."""
    vantage = facts.vantage
    return vantage.rtt_ns is not None and vantage.source != "DTLS" and not vantage.countable


def _trips(facts: Facts, split: Split) -> float:
    """Round trips between the first part of the ClientHello and the last one."""
    hello, depth = facts.start.hello, facts.trips.hello
    if split.wait is not Wait.ANSWER or facts.start.ignored or facts.start.retries:
        return 0.0
    if hello is None or depth is None or not hello.began.embedded:
        return 0.0
    stun = hello.began.contents.stun
    first = 0.0 if stun is not None and stun.is_request else 0.5
    asker = facts.session.checks.askers[hello.side]
    if first == 0.0 and asker.first is not hello.began:
        return 0.0
    return max(0.0, depth - first)
