"""What a request that begins or changes a call carries: the offer, and what comes along with it.

    application/sdp ────────────────┐
    multipart/form-data: sdp, session ┴─▶ read_offer ─▶ Offer ─ key: a retry is known by it
    ?dcid=N ─────────────────────────┘

Called by `signalling`; whatever cannot be used is a `Refusal`. An offer is bounded in bytes, in
sections and in candidates, so that reading the worst one takes a few milliseconds: media waits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from instant_connect.config import MAX_DCID, SignallingConfig
from instant_connect.exchange import (
    FORM,
    SDP,
    Ask,
    Refusal,
    refuse_sdp,
    require_type,
    text_of,
)
from warp.names import Name
from warp.sdp import SdpError, SessionDescription, parse_description

MAX_SECTIONS: Final = 64
MAX_CANDIDATES: Final = 256


class Kind(Name):
    """Through which door a call comes."""

    WHIP = "whip"
    REALTIME = "realtime"
    PIPECAT = "pipecat"
    INSTANT = "instant"
    """By its first datagram; its offer has not come yet, if it ever does."""


class Offer(NamedTuple):
    """One offer with its company. `key` is None when the offer names no transport of its own."""

    sdp: str
    key: str | None
    session: Mapping[str, Any]  # the JSON object sent with it
    dcid: int | None  # stream id of the negotiated events channel


def read_offer(ask: Ask, kind: Kind, config: SignallingConfig) -> Offer:
    """Return the offer of a POST; raise `Refusal` when there is none that can be used."""
    limit = config.max_sdp_bytes
    session: Mapping[str, Any] = {}
    accepted = (SDP,) if kind is Kind.WHIP else (SDP, FORM)
    if require_type(ask, *accepted) == SDP:
        text = text_of(ask.body, "the offer", limit=limit)
    else:
        parts = ask.parts or {}
        if "sdp" not in parts:
            raise _refused("missing_part", "the form has no part named sdp", "sdp")
        text = text_of(parts["sdp"], "sdp", limit=limit)
        if "session" in parts:
            object_text = text_of(parts["session"], "session", limit=config.max_session_bytes)
            session = parse_object(object_text)
    dcid = parse_dcid(ask.query.get("dcid")) if kind is Kind.REALTIME else None
    description = described(text)
    if dcid is not None and description.data_section() is None:
        raise _refused(
            "no_data_section",
            "dcid names a channel, and the offer has no m=application section to carry it",
            "dcid",
        )
    return Offer(text, offer_key(kind, description, dcid), session, dcid)


def described(offer: str) -> SessionDescription:
    """Return the description that the text holds; raise `Refusal` when it is none, or too long."""
    for beginning, limit, what in (
        ("m=", MAX_SECTIONS, "m= sections"),
        ("a=candidate:", MAX_CANDIDATES, "candidates"),
    ):
        if offer.count(f"\n{beginning}") > limit:
            raise _refused("too_many_lines", f"an offer has at most {limit} {what}", "sdp")
    try:
        return parse_description(offer)
    except SdpError as error:
        raise refuse_sdp(error) from error


def parse_dcid(text: str | None) -> int | None:
    """Return the stream id of the events channel; None when the client opens one by DCEP."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= MAX_DCID:
        return int(text)
    what = f"dcid is the stream id of a negotiated channel, 0 to {MAX_DCID}"
    raise _refused("invalid_dcid", what, "dcid")


def parse_object(text: str, name: str = "session") -> dict[str, Any]:
    """Return the JSON object that came with an offer; raise `Refusal` when it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        what = str(error)[:200] if isinstance(error, ValueError) else "it is nested too deeply"
        raise _refused("invalid_json", f"{name} is not JSON: {what}", name) from None
    if not isinstance(value, dict):
        what = f"{name} is a JSON object, not {type(value).__name__}"
        raise _refused("invalid_session", what, name)
    return value


def offer_key(kind: Kind, description: SessionDescription, dcid: int | None) -> str | None:
    """Return what makes two requests the same one: door, channel, transport, and what is offered.

    Candidates that were found meanwhile change nothing. None for an offer without a usable
    transport. The key is a digest: it holds no secret.
    """
    for section in description.media:
        if section.rejected:
            continue
        transport = description.transport_of(section)
        if not (transport.ufrag and transport.pwd and transport.fingerprints):
            return None
        prints = sorted(" ".join(pair) for pair in transport.fingerprints)
        told = [kind.value, str(dcid), transport.ufrag, transport.pwd, *prints]
        # an answer fits the sections of its own offer and no others (RFC 3264 section 6)
        told += [
            f"{m.kind} {m.mid} {m.rejected} {m.direction.value} {' '.join(m.formats)}"
            for m in description.media
        ]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()
    return None


def _refused(code: str, message: str, param: str) -> Refusal:
    return Refusal(400, code, message, details={"param": param})
