"""The two attributes through which WARP is announced: `ice-options` and `sctp-init`.

`ice-options` (RFC 8839 section 5.6) carries tokens; which of them announce SPED is the caller's
knowledge, passed in. `sctp-init` (SNAP section 4) carries the base64 of one SCTP INIT chunk;
whether the bytes *are* an INIT is for `warp.sctp` to say, before the answer is made.
"""

from __future__ import annotations

import binascii
import enum
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

MAX_SCTP_INIT_OCTETS: Final = 2048
_MAX_TEXT: Final = (MAX_SCTP_INIT_OCTETS + 2) // 3 * 4


class SctpInitFault(enum.Enum):
    """Why an `sctp-init` counts as absent."""

    REPEATED = "more than one sctp-init line"
    NOT_BASE64 = "not base64 with padding"
    EMPTY = "no bytes"
    TOO_LONG = "longer than 2048 bytes"


def decode_sctp_init(values: Sequence[str]) -> tuple[bytes | None, SctpInitFault | None]:
    """Return (chunk bytes, None), or (None, why it counts as absent), or (None, None).

    `values` are all `sctp-init` values of one section. A bad one never refuses the whole
    description: the channel then starts with the ordinary handshake.
    """
    if not values:
        return None, None
    if len(values) > 1:
        return None, SctpInitFault.REPEATED
    text = values[0]
    if len(text) > _MAX_TEXT:
        return None, SctpInitFault.TOO_LONG
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None, SctpInitFault.NOT_BASE64
    if not raw:
        return None, SctpInitFault.EMPTY
    if len(raw) > MAX_SCTP_INIT_OCTETS:
        return None, SctpInitFault.TOO_LONG
    return raw, None


def encode_sctp_init(chunk: bytes) -> str:
    """Return the attribute value for an INIT chunk (standard alphabet, padded, one line)."""
    return binascii.b2a_base64(chunk, newline=False).decode("ascii")


def echo_ice_options(offered: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the offered tokens that are in `known`, in the offer's order and spelling."""
    wanted = set(known)
    return tuple(dict.fromkeys([token for token in offered if token in wanted]))


@lru_cache(maxsize=64)
def merge_ice_options(*lists: tuple[str, ...]) -> tuple[str, ...]:
    """Return all tokens in order, each once."""
    return tuple(dict.fromkeys(token for tokens in lists for token in tokens))
