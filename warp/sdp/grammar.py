"""Lines and tokens of SDP (RFC 8866 section 9), with the limits that keep hostile text cheap.

Used by `parse`; knows nothing of what a line means. Every error leaves here without a line
number, `parse` adds it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from warp.sdp.errors import SdpError, SdpRule

MAX_LENGTH: Final = 256 * 1024
MAX_LINES: Final = 10_000
MAX_LINE_LENGTH: Final = 8192
MAX_ECHO: Final = 80

# RFC 8839 section 5.4 asks for ice-chars; real peers also use - _ = and others. A colon would
# make the STUN USERNAME ambiguous (RFC 8445 section 7.2.2).
_UFRAG: Final = re.compile(r"[!-9;-~]{4,256}")
_PWD: Final = re.compile(r"[!-~]{22,256}")
_DECIMAL: Final = re.compile(r"[0-9]{1,20}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})*")
HASH_OCTETS: Final = {"sha-1": 20, "sha-224": 28, "sha-256": 32, "sha-384": 48, "sha-512": 64,
                      "md5": 16, "md2": 16}  # fmt: skip


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends; CRLF and LF both end a line.

    Raises `SdpError` when the text is larger than the limits or holds NUL or a lone CR.
    """
    if len(text) > MAX_LENGTH:
        raise SdpError(SdpRule.TOO_LARGE, f"{len(text)} characters")
    text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) > MAX_LINES:
        raise SdpError(SdpRule.TOO_MANY_LINES, f"{len(lines)} lines")
    if "\r" in text or "\0" in text:
        number = next(n for n, line in enumerate(lines, 1) if "\r" in line or "\0" in line)
        raise SdpError(SdpRule.BAD_CHARACTER, line=number)
    if lines and len(text) > MAX_LINE_LENGTH and len(max(lines, key=len)) > MAX_LINE_LENGTH:
        number = next(n for n, line in enumerate(lines, 1) if len(line) > MAX_LINE_LENGTH)
        raise SdpError(SdpRule.LINE_TOO_LONG, line=number)
    return lines


def number(value: str, maximum: int, minimum: int = 0) -> int:
    """Return a plain decimal inside [minimum, maximum], or raise `SdpError`."""
    # int() alone would let other scripts' digits, signs and underscores through
    if _DECIMAL.fullmatch(value) is None:
        raise SdpError(SdpRule.NUMBER, value[:MAX_ECHO])
    result = int(value)
    if not minimum <= result <= maximum:
        raise SdpError(SdpRule.NUMBER, f"{value} is not in {minimum}..{maximum}")
    return result


def token(value: str, rule: SdpRule = SdpRule.TOKEN) -> str:
    """Return an ASCII value without blanks, at most 255 characters, or raise `SdpError`."""
    if not value.isascii() or len(value.split()) != 1 or value != value.strip() or len(value) > 255:
        raise SdpError(rule, value[:MAX_ECHO])
    return value


def ice_ufrag(value: str) -> str:
    """Return a well-formed ufrag, or raise `SdpError`."""
    if _UFRAG.fullmatch(value) is None:
        raise SdpError(SdpRule.ICE_UFRAG)
    return value


def ice_pwd(value: str) -> str:
    """Return a well-formed password, or raise `SdpError`. The error never shows it."""
    if _PWD.fullmatch(value) is None:
        raise SdpError(SdpRule.ICE_PWD)
    return value


# every section of a description has the same
@lru_cache(maxsize=64)
def fingerprint(value: str) -> tuple[str, str]:
    """Return (hash name in lower case, upper-case hex with colons), or raise `SdpError`."""
    algorithm, _, digest = value.partition(" ")
    algorithm = algorithm.lower()
    octets = HASH_OCTETS.get(algorithm)
    wrong_size = octets is not None and len(digest) != 3 * octets - 1
    if not algorithm or wrong_size or _HEX.fullmatch(digest) is None:
        raise SdpError(SdpRule.FINGERPRINT, value[:MAX_ECHO])
    return algorithm, digest.upper()
