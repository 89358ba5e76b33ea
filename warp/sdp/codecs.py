"""The audio formats we speak, and how two lists of them meet (RFC 3264 section 6.1, RFC 7587).

Opus, RED around Opus (RFC 2198), telephone events (RFC 4733). In an answer the payload types are
the offer's; fmtp is what *we* want to receive, it is not negotiated (RFC 7587 section 6.1).

The lists are few and the same in most sessions: what follows from two of them is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from warp.sdp.model import Codec, HeaderExtension

MID_URI: Final = "urn:ietf:params:rtp-hdrext:sdes:mid"
AUDIO_LEVEL_URI: Final = "urn:ietf:params:rtp-hdrext:ssrc-audio-level"
TRANSPORT_CC_URI: Final = (
    "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
)
# the numbers that browsers use, so that a capture reads alike
AUDIO_EXTENSIONS: Final = (
    HeaderExtension(1, AUDIO_LEVEL_URI),
    HeaderExtension(3, TRANSPORT_CC_URI),
    HeaderExtension(4, MID_URI),
)
MAX_ONE_BYTE_ID: Final = 14
_DYNAMIC: Final = (*range(96, 128), *range(35, 64))


def opus(
    payload_type: int = 111,
    *,
    minptime_ms: int = 10,
    in_band_fec: bool = True,
    dtx: bool = False,
    stereo: bool = False,
    feedback: tuple[str, ...] = ("transport-cc", "nack"),
) -> Codec:
    """Return Opus with the given wishes for what the peer sends us (RFC 7587 section 6.1)."""
    fmtp = f"minptime={minptime_ms};useinbandfec={int(in_band_fec)}"
    if dtx:
        fmtp += ";usedtx=1"
    if stereo:
        fmtp += ";stereo=1;sprop-stereo=1"
    return Codec(payload_type, "opus", 48_000, 2, fmtp, feedback)


def red(payload_type: int = 63, primary: int = 111) -> Codec:
    """Return RED whose blocks are the Opus payload type `primary` (RFC 2198 section 5)."""
    return Codec(payload_type, "red", 48_000, 2, f"{primary}/{primary}")


def telephone_event(payload_type: int, clock_rate: int) -> Codec:
    """Return DTMF events 0-15 and flash at a clock rate (RFC 4733 section 2.4.1)."""
    return Codec(payload_type, "telephone-event", clock_rate, 1, "0-16")


DEFAULT_AUDIO_CODECS: Final = (
    opus(),
    red(),
    telephone_event(110, 48_000),
    telephone_event(126, 8_000),
)


@lru_cache(maxsize=32)
def can_talk(offered: tuple[Codec, ...], ours: tuple[Codec, ...]) -> bool:
    """Whether both lists have the same Opus; RED and telephone events alone are no way to talk."""
    return _primary(offered, ours) is not None


@lru_cache(maxsize=32)
def answer_codecs(offered: tuple[Codec, ...], ours: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """Return the common formats in the offer's order and numbers; () when they `can_talk` not.

    RED counts only when its blocks are the accepted Opus.
    """
    primary = _primary(offered, ours)
    if primary is None:
        return ()
    wanted = {codec.key: codec for codec in ours}
    accepted: dict[tuple[str, int, int], Codec] = {}
    for codec in offered:
        key = codec.key
        mine = wanted.get(key)
        if mine is None or key in accepted:
            continue
        fmtp = mine.fmtp
        if key[0] == "red":
            if codec.fmtp and any(b.strip() != str(primary) for b in codec.fmtp.split("/")):
                continue
            fmtp = f"{primary}/{primary}"
        feedback = mine.feedback and tuple([f for f in codec.feedback if f in mine.feedback])
        accepted[key] = Codec(
            codec.payload_type, codec.name, codec.clock_rate, codec.channels, fmtp, feedback
        )
    return tuple(accepted.values())


@lru_cache(maxsize=32)
def offer_codecs(ours: tuple[Codec, ...], before: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """Return our formats with the payload types that `before` already binds (RFC 3264 8.3.2).

    A format that is new gets its own number, or the next free dynamic one.
    """
    bound = {codec.key: codec.payload_type for codec in before}
    taken = set(bound.values())
    numbers: dict[tuple[str, int, int], int] = {}
    for codec in ours:
        wanted = bound.get(codec.key)
        if wanted is None:
            wanted = codec.payload_type
            if wanted in taken:
                wanted = next(n for n in _DYNAMIC if n not in taken)
            taken.add(wanted)
        numbers[codec.key] = wanted
    primary = next((numbers[c.key] for c in ours if _is_opus(c)), None)
    return tuple(
        Codec(
            numbers[c.key],
            c.name,
            c.clock_rate,
            c.channels,
            f"{primary}/{primary}" if c.name == "red" and primary is not None else c.fmtp,
            c.feedback,
        )
        for c in ours
    )


@lru_cache(maxsize=32)
def answer_extensions(
    offered: tuple[HeaderExtension, ...], ours: tuple[HeaderExtension, ...]
) -> tuple[HeaderExtension, ...]:
    """Return the offered extensions that we know, with the offer's numbers (RFC 8285 section 6).

    Only numbers that fit the one-byte form are accepted, so that the form never changes.
    """
    known = {ext.uri for ext in ours}
    accepted: dict[str, HeaderExtension] = {}
    for ext in offered:
        if ext.uri in known and ext.id <= MAX_ONE_BYTE_ID:
            way = ext.direction.reversed() if ext.direction is not None else None
            accepted.setdefault(ext.uri, HeaderExtension(ext.id, ext.uri, way))
    return tuple(accepted.values())


@lru_cache(maxsize=32)
def offer_extensions(
    ours: tuple[HeaderExtension, ...], before: tuple[HeaderExtension, ...]
) -> tuple[HeaderExtension, ...]:
    """Return our extensions with the numbers that `before` already binds (RFC 8285 section 6)."""
    bound = {ext.uri: ext.id for ext in before}
    taken = set(bound.values())
    result = []
    for ext in ours:
        wanted = bound.get(ext.uri)
        if wanted is None:
            free = (n for n in range(1, MAX_ONE_BYTE_ID + 1) if n not in taken)
            wanted = ext.id if ext.id not in taken else next(free, 0)
        if wanted:
            taken.add(wanted)
            result.append(HeaderExtension(wanted, ext.uri, ext.direction))
    return tuple(result)


@lru_cache(maxsize=32)
def shared_extensions(
    extensions: tuple[HeaderExtension, ...], other: tuple[HeaderExtension, ...]
) -> tuple[HeaderExtension, ...]:
    """Return those of `extensions` that the other list has too, whatever its numbers for them."""
    known = {ext.uri for ext in other}
    return tuple([ext for ext in extensions if ext.uri in known])


@lru_cache(maxsize=32)
def formats_of(codecs: tuple[Codec, ...]) -> tuple[str, ...]:
    """Return the payload types as an m= line lists them."""
    return tuple([str(codec.payload_type) for codec in codecs])


@lru_cache(maxsize=32)
def shared_codecs(codecs: tuple[Codec, ...], other: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """Return those of `codecs` that the other list has too, whatever its numbers for them."""
    keys = {codec.key for codec in other}
    return tuple([codec for codec in codecs if codec.key in keys])


def _is_opus(codec: Codec) -> bool:
    return codec.name.lower() == "opus"


def _primary(offered: Sequence[Codec], ours: Sequence[Codec]) -> int | None:
    for codec in offered:
        if _is_opus(codec) and any(_is_opus(mine) and mine.key == codec.key for mine in ours):
            return codec.payload_type
    return None
