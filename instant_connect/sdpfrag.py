"""Pieces of a description for trickle and restart (application/trickle-ice-sdpfrag, RFC 8840 9).

    PATCH body ─ parse_sdpfrag ─▶ Fragment ─┬ candidates ────────────▶ the session
                                            └ restarted_offer(offer) ─▶ an offer ─▶ answer
    answer ─ fragment_of ─▶ the body of the response (RFC 9725 section 4.3.3)

WHIP renegotiates nothing but ICE: a restart is the last offer with other credentials. Called by
`signalling`; a malformed fragment raises `SdpError` with its line.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warp.sdp import MediaDescription, SdpError, SdpRule, grammar, parse_description

MAX_CANDIDATES: Final = 100


class Fragment(NamedTuple):
    """What a fragment says of one ICE session. `candidates` begin with `candidate:`."""

    ufrag: str = ""
    pwd: str = ""
    candidates: tuple[str, ...] = ()
    end_of_candidates: bool = False


def parse_sdpfrag(text: str) -> Fragment:
    """Return what the fragment says; raise `SdpError` when it is none.

    The credentials may stand above the m= lines or below each (RFC 8840 section 4.4); all sections
    share one transport, so they must agree.
    """
    reader = _Reader()
    for number, line in enumerate(grammar.split_lines(text), 1):
        try:
            reader.receive(line)
        except SdpError as error:
            raise SdpError(error.rule, error.detail, error.line or number) from None
    return reader.finish()


class _Reader:
    """Takes in the lines; unknown attributes are skipped (RFC 8840 section 9.2)."""

    __slots__ = ("_candidates", "_ended", "_pwd", "_ufrag")

    def __init__(self) -> None:
        self._ufrag = ""
        self._pwd = ""
        self._candidates: list[str] = []
        self._ended = False

    def receive(self, line: str) -> None:
        if line[1:2] != "=" or line[:1] not in ("a", "m"):
            raise SdpError(SdpRule.LINE_SHAPE, "a fragment has a= and m= lines")
        if line[0] == "m":
            if len(line.split()) < 4:
                raise SdpError(SdpRule.MEDIA_LINE, line[2 : 2 + grammar.MAX_ECHO])
            return
        name, _, value = line[2:].partition(":")
        if name == "ice-ufrag":
            self._ufrag = _same(self._ufrag, grammar.ice_ufrag(value))
        elif name == "ice-pwd":
            self._pwd = _same(self._pwd, grammar.ice_pwd(value))
        elif name == "candidate" and value:
            if len(self._candidates) >= MAX_CANDIDATES:
                detail = f"a fragment has at most {MAX_CANDIDATES} candidates"
                raise SdpError(SdpRule.TOO_MANY_LINES, detail)
            self._candidates.append(line[2:])
        elif name == "end-of-candidates":
            self._ended = True

    def finish(self) -> Fragment:
        if self._pwd and not self._ufrag:
            raise SdpError(SdpRule.ICE_MISSING, "a password without an ice-ufrag")
        return Fragment(self._ufrag, self._pwd, tuple(self._candidates), self._ended)


def _same(before: str, given: str) -> str:
    if before and before != given:
        # the values are secrets, so they are not repeated
        raise SdpError(SdpRule.NOT_BUNDLED, "the sections name different ICE sessions")
    return given


def credentials_of(description: str) -> tuple[str, str]:
    """Return ufrag and pwd of the transport that a description's live sections share."""
    parsed = parse_description(description)
    for section in parsed.media:
        if not section.rejected:
            transport = parsed.transport_of(section)
            return transport.ufrag, transport.pwd
    return "", ""


def restarted_offer(offer: str, fragment: Fragment) -> str:
    """Return the offer again with the fragment's credentials and candidates in it."""
    parsed = parse_description(offer)
    media: list[MediaDescription] = []
    is_first = True
    for section in parsed.media:
        if section.rejected:
            media.append(section)
            continue
        transport = section.transport._replace(
            ufrag=fragment.ufrag,
            pwd=fragment.pwd,
            candidates=fragment.candidates if is_first else (),
            end_of_candidates=fragment.end_of_candidates and is_first,
        )
        media.append(section._replace(transport=transport))
        is_first = False
    origin = parsed.origin._replace(session_version=parsed.origin.session_version + 1)
    return str(parsed._replace(origin=origin, media=tuple(media)))


def fragment_of(answer: str) -> str:
    """Return the ICE lines of our answer: what the response to a restart carries."""
    parsed = parse_description(answer)
    lines = ["a=ice-lite"] if parsed.ice_lite else []
    lines += [f"a=group:BUNDLE {' '.join(group)}" for group in parsed.bundles]
    for section in parsed.media:
        if section.rejected:
            continue
        transport = parsed.candidates_of(section)
        if transport.ice_options:
            lines.insert(0, f"a=ice-options:{' '.join(transport.ice_options)}")
        formats = " ".join(section.formats)
        lines.append(f"m={section.kind} {section.port} {section.protocol} {formats}")
        if section.mid is not None:
            lines.append(f"a=mid:{section.mid}")
        lines.append(f"a=ice-ufrag:{transport.ufrag}")
        lines.append(f"a=ice-pwd:{transport.pwd}")
        lines += [f"a={candidate}" for candidate in transport.candidates]
        if transport.end_of_candidates:
            lines.append("a=end-of-candidates")
        # candidates stand in the tagged section only (RFC 9143 section 9)
        break
    return "".join(f"{line}\r\n" for line in lines)
