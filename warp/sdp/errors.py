"""What can be wrong with a description: one rule an enum member, with its section.

Raised by every module of this package to whoever handed the description in.
"""

from __future__ import annotations

import enum

from warp.errors import InvalidConfig


class SdpRule(enum.Enum):
    """The rule that a description breaks."""

    TOO_LARGE = "a description is at most 256 KiB"
    TOO_MANY_LINES = "a description has at most 10 000 lines"
    LINE_TOO_LONG = "a line has at most 8 192 characters"
    BAD_CHARACTER = "NUL and a lone CR may not occur (RFC 8866 section 9)"
    LINE_SHAPE = "a line is <type>=<value> (RFC 8866 section 5)"
    UNKNOWN_TYPE = "a description with an unknown type letter is refused (RFC 8866 section 5)"
    VERSION = "the first line is v=0 (RFC 8866 section 5.1)"
    ORIGIN = "o= has six fields, numbers second and third (RFC 8866 section 5.2)"
    MISSING_LINE = "v=, o=, s= and t= come before the first m= (RFC 8866 section 5)"
    CONNECTION = "c= is <nettype> <addrtype> <address> (RFC 8866 section 5.7)"
    MEDIA_LINE = "m= is <media> <port> <proto> <fmt> ... (RFC 8866 section 5.14)"
    NUMBER = "a number is a plain decimal inside its range (RFC 8866 section 9)"
    TOKEN = "a token is 1 to 255 ASCII characters without blanks (RFC 8866 section 9)"
    DUPLICATE = "this attribute may occur only once in a section (RFC 8866 section 5.13)"
    MID = "a mid is unique in its description (RFC 5888 section 4)"
    GROUP = "a BUNDLE group names mids of this description, each once (RFC 8843 section 7)"
    RTPMAP = "rtpmap is <payload type> <name>/<clock rate>[/<channels>] (RFC 8866 section 6.6)"
    FMTP = "fmtp is <format> <parameters> (RFC 8866 section 6.15)"
    FEEDBACK = "rtcp-fb is <payload type or *> <value> (RFC 4585 section 4.2)"
    EXTMAP = "extmap is <id>[/<direction>] <uri>, id 1 to 4351 (RFC 8285 section 8)"
    SSRC = "ssrc is <32-bit number> <attribute>[:<value>] (RFC 5576 section 4.1)"
    MSID = "msid is <id> [<appdata>] (RFC 8830 section 2)"
    ICE_UFRAG = "an ice-ufrag has 4 to 256 characters, no colon (RFC 8839 section 5.4)"
    ICE_PWD = "an ice-pwd has 22 to 256 characters (RFC 8839 section 5.4)"
    ICE_MISSING = "an accepted section has ice-ufrag and ice-pwd (RFC 8839 section 4.2)"
    FINGERPRINT = "fingerprint is <hash> <pairs of hex digits> (RFC 8122 section 5)"
    FINGERPRINT_MISSING = "an accepted section has a fingerprint (RFC 8842 section 5.1)"
    SETUP = "setup is actpass, active or passive (RFC 8842 section 5)"
    SETUP_ANSWER = "the setup of an answer complements the offer's (RFC 8842 section 5.3)"
    SETUP_CHANGED = "the DTLS roles stay as long as the association (RFC 8842 section 5.5)"
    SCTPMAP = "sctpmap is <port> <application> [<streams>] (RFC 8841 history, draft 05)"
    ANSWER_SHAPE = "an answer mirrors the m= lines of its offer (RFC 3264 section 6)"
    ANSWER_CODECS = "an answer lists only formats of its offer (RFC 3264 section 6.1)"
    ANSWER_BUNDLE = "an answer bundles only what its offer bundles (RFC 8843 section 7.3)"
    NOT_BUNDLED = "we have one transport: accepted sections are bundled (RFC 8843 section 7)"
    RTCP_MUX = "RTCP shares the RTP flow (RFC 8834 section 4.5, RFC 5761 section 5.1.3)"
    NOTHING_LEFT = "no section could be accepted (RFC 3264 section 6)"
    ORDER_CHANGED = "m= lines stay in place, with mid and kind (RFC 3264 section 8, RFC 9429)"
    SNAP_CHANGED = "a negotiated sctp-init is repeated unchanged (SNAP section 5)"
    SNAP_MUNGED = "the own sctp-init is the one that was generated (SNAP section 8)"


class SdpError(InvalidConfig):
    """A description cannot be used; `rule` says why, `line` (from 1) where, if in one line."""

    def __init__(self, rule: SdpRule, detail: str = "", line: int | None = None) -> None:
        where = f"line {line}: " if line is not None else ""
        super().__init__(where + rule.value + (f": {detail[:120]}" if detail else ""))
        self.rule = rule
        self.detail = detail
        self.line = line
