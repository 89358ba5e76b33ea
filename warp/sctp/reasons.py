"""Why a packet is worthless, and which rule a peer broke (enums, so that they can be counted)."""

from __future__ import annotations

import enum


class SctpDiscard(enum.Enum):
    """Why one packet or chunk was thrown away; the association lives on."""

    TOO_SHORT = "shorter than a header and one chunk"
    BAD_CHECKSUM = "checksum does not match"
    BAD_PORTS = "not our pair of ports"
    BAD_TAG = "not our verification tag"
    BAD_CHUNK_LENGTH = "chunk length below 4 or beyond the packet"
    TRUNCATED_CHUNK = "chunk shorter than its own fields say"
    BAD_PARAMETER = "parameter length below 4 or beyond the chunk"
    INVALID_INIT = "not a valid INIT chunk"
    INIT_NOT_ALONE = "INIT, INIT ACK or SHUTDOWN COMPLETE bundled with other chunks"
    UNEXPECTED_CHUNK = "chunk does not fit the state"
    UNKNOWN_CHUNK = "chunk type not known"
    BAD_COOKIE = "not a cookie of ours"
    STALE_COOKIE = "cookie older than its lifetime"
    BAD_SACK = "acknowledges what was never sent, or is not well formed"
    OLD_SACK = "acknowledges less than an earlier one"
    TSN_TOO_FAR = "transmission sequence number too far ahead"
    NO_ROOM = "receive buffer is full"
    NO_USER_DATA = "DATA without user data"
    BAD_STREAM = "stream id beyond what was agreed"
    BAD_FRAGMENT = "fragment can never become part of a message"
    OLD_SEQUENCE = "stream sequence number was delivered before"
    EARLY_OVERFLOW = "too much arrived before the association started"
    ENDED = "the association has ended"


class SctpRule(enum.Enum):
    """A rule whose breach ends the association."""

    FRAGMENTS_OUT_OF_ORDER = "fragments of different messages share consecutive TSNs"
    WRONG_CHUNK_FAMILY = "DATA and I-DATA families must not be mixed"
    NOT_NEGOTIATED = "chunk of an extension that was not negotiated"
    MISSING_COOKIE = "INIT ACK without a State Cookie"
    RECEIVE_WINDOW_IGNORED = "sent far more than the receive window allows"
    BAD_RECONFIG = "RE-CONFIG with an impossible set of parameters"
