"""Descriptions as transceivers and channels want them: what the stack wrote, cut to shape.

The stack describes audio both ways and data; an application of aiortc's asks for less. ICE and
DTLS lines stay as they are (RFC 9429 section 5.4); called by `RTCPeerConnection`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warp.sdp import (
    Direction,
    MediaDescription,
    SessionDescription,
    TransportDescription,
    parse_description,
)

_DISCARD_PORT = 9  # RFC 8840 section 4.1.1: no candidate known yet


class Wanted(NamedTuple):
    """What the application wants to have described."""

    direction: Direction | None  # of the audio section; None: no audio
    mid: str | None  # of the audio section, once it has one
    track_id: str
    data: bool


def audio_sections(description: SessionDescription) -> Iterator[MediaDescription]:
    """Yield the audio sections that are not refused and hold the codec that we have."""
    for section in description.media:
        if section.kind == "audio" and not section.rejected and section.codec("opus", 48_000):
            yield section


def shape_offer(text: str, wanted: Wanted, agreed: SessionDescription | None) -> str:
    """Return our offer with what is wanted; sections that are agreed on already stay."""
    description = parse_description(text)
    kept = len(agreed.media) if agreed is not None else 0
    sections = [
        section
        for index, section in enumerate(description.media)
        if index < kept or (wanted.data if section.is_data else wanted.direction is not None)
    ]
    if sections and sections[0] is not description.media[0]:
        # candidates stand in the first section (RFC 8843 section 9)
        first = description.media[0]
        sections[0] = sections[0]._replace(
            port=first.port, address=first.address, transport=first.transport
        )
    left = {section.mid for section in sections}
    bundles = tuple(tuple(mid for mid in group if mid in left) for group in description.bundles)
    shaped = description._replace(media=tuple(sections), bundles=bundles)
    return str(_directed(shaped, wanted, None))


def shape_answer(text: str, wanted: Wanted, offer: SessionDescription) -> str:
    """Return our answer with the direction that is wanted, within what was offered."""
    return str(_directed(parse_description(text), wanted, offer))


def _directed(
    description: SessionDescription, wanted: Wanted, offer: SessionDescription | None
) -> SessionDescription:
    section = next(
        (s for s in audio_sections(description) if wanted.mid in (None, s.mid)),
        None,
    )
    if section is None or wanted.direction is None:
        return description
    direction = wanted.direction
    offered = offer.section(section.mid or "") if offer is not None else None
    if offered is not None:
        direction = direction.within(offered.direction.reversed())
    changed = section._replace(
        direction=direction,
        sources=section.sources if direction.sends else (),
        msids=(f"- {wanted.track_id}",) if direction.sends else (),
    )
    media = tuple(changed if s is section else s for s in description.media)
    return description._replace(media=media)


def with_candidates(text: str, lines: Sequence[str]) -> str:
    """Return our description with these candidates, and the word that no more come."""
    description = parse_description(text)
    media = list(description.media)
    index = next((i for i, s in enumerate(media) if not s.rejected), None)
    if index is None or not lines:
        return text
    transport = media[index].transport._replace(candidates=tuple(lines), end_of_candidates=True)
    media[index] = _addressed(media[index], transport, lines[0])
    return str(description._replace(media=tuple(media)))


def _addressed(
    section: MediaDescription, transport: TransportDescription, line: str
) -> MediaDescription:
    if section.port != _DISCARD_PORT:
        return section._replace(transport=transport)
    _, _, _, _, host, port, *_ = line.split(" ")
    return section._replace(transport=transport, address=host, port=int(port))


def track_id_of(section: MediaDescription) -> str:
    """Return the name that the peer gives its track (RFC 8830), or an empty text."""
    return section.msids[0].partition(" ")[2] if section.msids else ""
