"""The story of each start: what was negotiated, where the time went, what WARP would have saved.

    explanation(facts)   one session, for machines (`warp pcap explain --json`); what the capture
                         does not show is None, and `unknown` says why

Called by the command line and by the view for people, which shows the same facts.
"""

from __future__ import annotations

from typing import Any, Final

from warp_tools.capture import names
from warp_tools.capture.channel import NO_MESSAGE
from warp_tools.capture.early import Turn, turn
from warp_tools.capture.facts import Facts
from warp_tools.capture.findings import findings
from warp_tools.capture.spent import saved, sctp_only, spent
from warp_tools.capture.stages import Stage

_NEAR: Final = {"side 0": 0, "side 1": 1}


def explanation(facts: Facts) -> dict[str, Any]:
    """Return the explanation of one session for machines."""
    unknown: dict[str, str] = {}
    evidence: dict[str, str] = {}
    session = facts.session
    found = {
        "session": session.number,
        "began": session.span[0] / 1e9,
        "lasted_ms": round((session.span[1] - session.span[0]) / 1e6, 3),
        "datagrams": session.datagrams,
        "parties": {facts.letter(side): _party(facts, side) for side in _a_first(facts)},
        **_negotiated(facts, unknown),
        "sped": _sped(facts, unknown),
        "snap": facts.channel.snap,
        "dcep": facts.channel.dcep,
        "roles": _roles(facts, unknown),
        "lite": _lite(facts, unknown),
        "rtt": _rtt(facts, unknown),
        "stages": {stage.name: _stage(facts, stage) for stage in facts.stages},
        "ledger": [
            {
                "spent_on": part.on,
                "text": part.text,
                "from_ms": round(part.from_ms, 3),
                "ms": round(part.ms, 3),
                "round_trips": part.trips,
            }
            for part in spent(facts)
        ],
        "with_warp": [
            {
                "what": s.what,
                "round_trips": s.now,
                "with_warp": s.warp,
                "saved": s.trips,
                "at_least": s.at_least,
            }
            for s in saved(facts)
        ],
        "findings": [finding.to_json() for finding in findings(facts)],
    }
    if found["with_warp"]:
        _savings(facts, unknown)
    _channel(facts, evidence, unknown)
    return {**found, "evidence": evidence, "unknown": unknown}


def _savings(facts: Facts, unknown: dict[str, str]) -> None:
    """Say what the comparison with WARP leaves out, and why."""
    if turn(facts) is Turn.UNTOLD:
        unknown["with_warp.server_media"] = (
            "what the server sent first came behind the client's flight, which does not show "
            "whether it had to wait for that"
        )
    if sctp_only(facts):
        reason = facts.channel.dcep_reason
        if facts.channel.opens != (None, None) or facts.channel.dcep is not None:
            reason = "the DCEP OPEN is not among the packets that were looked at"
        unknown["with_warp.channel"] = f"SCTP alone is counted: {_with_keys(facts, reason)}"


def _channel(facts: Facts, evidence: dict[str, str], unknown: dict[str, str]) -> None:
    """Say how SNAP, DCEP and the end of SCTP's handshake are known, or why they are not."""
    channel = facts.channel
    for key, value, reason in (
        ("snap", channel.snap, channel.snap_reason),
        ("dcep", channel.dcep, channel.dcep_reason),
    ):
        if value is None:
            unknown[key] = _with_keys(facts, reason)
        else:
            evidence[key] = reason
    if channel.others:
        unknown["dcep.others"] = _with_keys(facts, channel.others)
    opened = [facts.stage(f"sctp_{letter}") for letter in facts.letters]
    if all(opened) or not channel.packets or facts.start.missing:
        return
    if channel.snap:
        evidence["stages.sctp"] = (
            "with SNAP there is no handshake of SCTP that could end: DTLS is all there is to wait "
            "for"
        )
    elif channel.snap is None:
        unknown["stages.sctp"] = _with_keys(facts, channel.snap_reason)
    else:
        why = "a COOKIE ACK stands in a longer packet, it is not known in which"
        why = why if channel.hidden else "no COOKIE ACK was captured"
        unknown["stages.sctp"] = _with_keys(facts, why)


def _with_keys(facts: Facts, reason: str) -> str:
    """Add to what sizes do not tell that keys would."""
    channel = facts.channel
    no_help = not channel.packets or channel.in_clear or facts.start.missing
    if no_help or reason == NO_MESSAGE:
        return reason
    if facts.opened is None:
        return f"{reason} (keys needed: give --keylog)"
    return f"{reason} (the key log does not open them)"


def _negotiated(facts: Facts, unknown: dict[str, str]) -> dict[str, Any]:
    start = facts.start
    version, group = start.version, start.group
    nothing = "no whole ServerHello was captured"
    if start.missing:
        nothing = "the start is not in the capture"
    if version is None:
        unknown["dtls_version"] = nothing
    hello = facts.session.handshake.server_hello
    if hello is None:
        unknown["suite"] = nothing
    if group is None:
        why = "the message that names the group was not captured, or there is none"
        unknown["group"] = unknown["pq"] = nothing if hello is None else why
    return {
        "dtls_version": None if version is None else names.version(version),
        "group": None if group is None else names.group(group),
        "pq": None if group is None else group in names.POST_QUANTUM,
        "suite": None if hello is None else names.suite(hello.suite),
    }


def _a_first(facts: Facts) -> tuple[int, int]:
    return (0, 1) if facts.letters[0] == "A" else (1, 0)


def _party(facts: Facts, side: int) -> dict[str, Any]:
    session = facts.session
    asker = session.checks.askers[side]
    return {
        "addresses": [_address(host, port) for host, port in session.addresses[side]],
        "ufrag": session.ufrags[side],
        "implementation": "libwebrtc" if asker.google else None,
        "checks": asker.requests,
        "rtp_packets": session.sources.packets[side],
    }


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _sped(facts: Facts, unknown: dict[str, str]) -> dict[str, Any]:
    offered: list[int] = facts.offered
    dialect = facts.dialect(offered[0]) if offered else None
    if offered and dialect is None:
        unknown["sped.dialect"] = "nothing seen tells the readings of the draft apart"
    used = facts.sped_used
    known = facts.session.checks.first is not None
    why = "the answer to it is not in the capture"
    if facts.alone is not None:
        why = "only what one side sent was captured"
    elif facts.session.checks.cut:
        why = "the checks were cut"
    elif facts.start.missing or facts.start.headless:
        why = "the start is not in the capture"
    if not known:
        unknown["sped"] = "no check was captured"
    elif used is None:
        unknown["sped.used" if offered else "sped"] = why
        known = bool(offered)
    return {
        "offered": [facts.letter(side) for side in offered] if known else None,
        "dialect": dialect,
        "used": used,
    }


def _roles(facts: Facts, unknown: dict[str, str]) -> dict[str, Any]:
    controlling, client = facts.controlling, facts.start.client
    both = bool(facts.session.handshake.rivals)
    client = None if both else client
    if controlling is None:
        unknown["roles.controlling"] = (
            "no check was captured"
            if facts.session.checks.first is None
            else "both sides claim the same role, or the checks do not say"
        )
    if client is None:
        why = "both sides sent a ClientHello" if both else "no hello was captured"
        unknown["roles.dtls_client"] = why
    return {
        "controlling": None if controlling is None else facts.letter(controlling),
        "dtls_client": None if client is None else facts.letter(client),
        "dtls_server": None if client is None else facts.letter(1 - client),
    }


def _lite(facts: Facts, unknown: dict[str, str]) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for side in _a_first(facts):
        lite, reason = facts.lite(side)
        letter = facts.letter(side)
        found[letter] = lite
        if lite is None:
            unknown[f"lite.{letter}"] = reason
    return found


def _rtt(facts: Facts, unknown: dict[str, str]) -> dict[str, Any]:
    vantage = facts.vantage
    near = vantage.near
    if near in _NEAR:
        near = f"near {facts.letter(_NEAR[near])}"
    if vantage.reason is not None:
        unknown["rtt"] = vantage.reason
    if near is None:
        unknown["vantage"] = vantage.reason or "nothing tells which side is near"
    return {
        "ms": None if vantage.rtt_ns is None else round(vantage.rtt_ns / 1e6, 3),
        "at_most": vantage.at_most,
        "from": vantage.source,
        "countable": vantage.countable,
        "vantage": near,
    }


def _stage(facts: Facts, stage: Stage) -> dict[str, Any]:
    return {
        "at": facts.letter(stage.side),
        "ms": round(stage.seen_ms, 3),
        "own_ms": round(stage.own_ms, 3),
        "rtt": None if stage.rtt is None else round(stage.rtt, 2),
        "round_trips": stage.trips,
        "datagram": stage.number,
    }
