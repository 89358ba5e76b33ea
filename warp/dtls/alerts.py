"""What an alert means, and when to believe it (RFC 8446 section 6, RFC 9147 section 4.5.2).

Called by the connection. A plaintext alert can be forged by anyone: it counts only while the
peer has no keys to protect one with.
"""

from __future__ import annotations

import enum
from typing import Final

from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.handshake import Handshake
from warp.dtls.intake import Record
from warp.dtls.records import FATAL
from warp.dtls.suites import DtlsVersion

MAX_REPEATS: Final = 3  # of a fatal alert of ours, while the peer keeps talking


class AlertEffect(enum.Enum):
    """What an alert asks us to do."""

    IGNORE = "nothing"
    CLOSE = "the peer sends nothing more"
    FAIL = "the connection is over"
    DISBELIEVE = "it may be forged"


def judge(record: Record, handshake: Handshake) -> AlertEffect:
    """Return what to do about an alert. Raises HandshakeFault for a protected malformed one."""
    if len(record.content) != 2:
        if record.epoch:
            raise misbehaved(Alert.DECODE_ERROR, DtlsRule.MALFORMED_ALERT, "RFC 8446 section 6")
        return AlertEffect.DISBELIEVE
    level, description = record.content
    if record.epoch == 0:
        credible = level == FATAL and _plaintext_counts(handshake)
        return AlertEffect.FAIL if credible else AlertEffect.DISBELIEVE
    if description == Alert.CLOSE_NOTIFY:
        return AlertEffect.CLOSE
    if description == Alert.USER_CANCELED:
        return AlertEffect.IGNORE
    if handshake.outcome.version is DtlsVersion.DTLS12 and level != FATAL:
        return AlertEffect.IGNORE
    return AlertEffect.FAIL  # in 1.3 the level says nothing (RFC 8446 section 6)


def _plaintext_counts(handshake: Handshake) -> bool:
    if handshake.outcome.completed:
        return False
    if handshake.outcome.version is DtlsVersion.DTLS12:
        return True  # its peers have no keys until almost the end
    return handshake.epochs.newest_read == 0


def name_of(description: int) -> str:
    """Return the name of an alert, or an empty text."""
    try:
        return Alert(description).name.lower()
    except ValueError:
        return ""
