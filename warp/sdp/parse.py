"""Text to description: the line loop and one small function an attribute (RFC 8866 section 5).

    text --split_lines--> lines --ATTRIBUTES[name]--> drafts --finish--> SessionDescription

A line that breaks a rule raises `SdpError` with its number. Unknown attributes are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from warp.sdp import grammar
from warp.sdp.drafts import SectionDraft
from warp.sdp.errors import SdpError, SdpRule
from warp.sdp.grammar import number, token
from warp.sdp.model import Direction, HeaderExtension, Origin, SessionDescription, Setup, Source

_UINT64: Final = (1 << 64) - 1
_UINT32: Final = (1 << 32) - 1
_DIRECTIONS: Final = {d.value: d for d in Direction}
_SETUPS: Final = {s.value: s for s in Setup}
_IGNORED_TYPES: Final = frozenset("iuepbrzk")


def parse_description(text: str) -> SessionDescription:
    """Return the description that the text holds; raise `SdpError` (with line and rule) if none."""
    lines = grammar.split_lines(text)
    reader = _Reader()
    line_number = 0
    try:
        if not lines or lines[0] != "v=0":
            raise SdpError(SdpRule.VERSION)
        for line in lines:
            line_number += 1
            if line[:2] == "a=":
                name, _, value = line[2:].partition(":")
                handler = ATTRIBUTES.get(name)
                if handler is not None:
                    handler(reader.section, value)
                elif name == "group":
                    reader.receive_group(value)
                elif name == "ice-lite":
                    reader.ice_lite = True
            else:
                reader.receive_line(line)
        return reader.finish()
    except SdpError as error:
        if error.line is not None or error.rule in _WHOLE:
            raise
        raise SdpError(error.rule, error.detail, line_number or 1) from None


_WHOLE: Final = frozenset({SdpRule.MISSING_LINE, SdpRule.GROUP, SdpRule.MID})


class _Reader:
    """What has been read: the session level, the sections, and which one is current."""

    __slots__ = ("groups", "ice_lite", "name", "origin", "section", "sections", "session", "timed")

    def __init__(self) -> None:
        self.session = SectionDraft()
        self.section = self.session
        self.sections: list[SectionDraft] = []
        self.origin: Origin | None = None
        self.name: str | None = None
        self.timed = False
        self.ice_lite = False
        self.groups: list[tuple[str, ...]] = []

    def receive_line(self, line: str) -> None:
        """Take in a line that is not an attribute."""
        kind, value = line[:1], line[2:]
        if line[1:2] != "=":
            raise SdpError(SdpRule.LINE_SHAPE, line[: grammar.MAX_ECHO])
        if kind == "m":
            self._begin_section(value)
        elif kind == "c":
            self.section.address = _connection(value)
        elif kind == "o" and self.origin is None:
            self.origin = _origin(value)
        elif kind == "s" and self.name is None:
            self.name = value
        elif kind == "t":
            self.timed = True
        elif kind not in "vos" and kind not in _IGNORED_TYPES:
            raise SdpError(SdpRule.UNKNOWN_TYPE, line[: grammar.MAX_ECHO])

    def receive_group(self, value: str) -> None:
        """Take in an a=group; only BUNDLE means something here (RFC 8843 section 7)."""
        words = value.split()
        if words[:1] == ["BUNDLE"] and len(words) > 1:
            self.groups.append(tuple(words[1:]))

    def _begin_section(self, value: str) -> None:
        if self.origin is None or self.name is None or not self.timed:
            raise SdpError(SdpRule.MISSING_LINE)
        fields = value.split()
        if len(fields) < 4:
            raise SdpError(SdpRule.MEDIA_LINE, value[: grammar.MAX_ECHO])
        section = SectionDraft()
        section.kind = fields[0]
        section.port = number(fields[1].partition("/")[0], 65535)
        section.protocol = fields[2]
        section.formats = tuple(fields[3:])
        if "RTP/" in section.protocol:
            section.formats = tuple([str(number(name, 127)) for name in section.formats])
        self.sections.append(section)
        self.section = section

    def finish(self) -> SessionDescription:
        """Return the description, after the checks that need all lines."""
        if self.origin is None or self.name is None or not self.timed:
            raise SdpError(SdpRule.MISSING_LINE)
        mids = [section.mid for section in self.sections if section.mid is not None]
        if len(set(mids)) != len(mids):
            raise SdpError(SdpRule.MID, " ".join(mids))
        bundled = [mid for group in self.groups for mid in group]
        if len(set(bundled)) != len(bundled) or not set(bundled) <= set(mids):
            raise SdpError(SdpRule.GROUP, " ".join(bundled))
        session = self.session
        media = tuple([section.finish(session) for section in self.sections])
        return SessionDescription(self.origin, media, tuple(self.groups), self.ice_lite, self.name)


def _origin(value: str) -> Origin:
    fields = value.split()
    if len(fields) != 6:
        raise SdpError(SdpRule.ORIGIN, value[: grammar.MAX_ECHO])
    username, session_id, version, _, address_type, address = fields
    return Origin(
        number(session_id, _UINT64), number(version, _UINT64), username, address_type, address
    )


@lru_cache(maxsize=64)
def _connection(value: str) -> str:
    fields = value.split()
    if len(fields) != 3:
        raise SdpError(SdpRule.CONNECTION, value[: grammar.MAX_ECHO])
    return fields[2].partition("/")[0]


def _once(present: object, value: str) -> None:
    if present:
        raise SdpError(SdpRule.DUPLICATE, value[: grammar.MAX_ECHO])


def _mid(section: SectionDraft, value: str) -> None:
    _once(section.mid is not None, value)
    section.mid = token(value)


def _bundle_only(section: SectionDraft, value: str) -> None:
    section.bundle_only = True


def _ufrag(section: SectionDraft, value: str) -> None:
    _once(section.transport.ufrag, "ice-ufrag")
    section.transport.ufrag = grammar.ice_ufrag(value)


def _pwd(section: SectionDraft, value: str) -> None:
    _once(section.transport.pwd, "ice-pwd")
    section.transport.pwd = grammar.ice_pwd(value)


def _ice_options(section: SectionDraft, value: str) -> None:
    section.transport.ice_options += tuple(value.split())


def _candidate(section: SectionDraft, value: str) -> None:
    section.transport.candidates.append("candidate:" + value)


def _end_of_candidates(section: SectionDraft, value: str) -> None:
    section.transport.end_of_candidates = True


def _fingerprint(section: SectionDraft, value: str) -> None:
    section.transport.fingerprints.append(grammar.fingerprint(value))


def _setup(section: SectionDraft, value: str) -> None:
    _once(section.transport.setup, value)
    setup = _SETUPS.get(value)
    if setup is None:
        raise SdpError(SdpRule.SETUP, value[: grammar.MAX_ECHO])
    section.transport.setup = setup


def _tls_id(section: SectionDraft, value: str) -> None:
    _once(section.transport.tls_id, value)
    section.transport.tls_id = token(value)


@lru_cache(maxsize=256)
def _split_rtpmap(value: str) -> tuple[str, tuple[str, int, int]]:
    payload_type, _, rest = value.partition(" ")
    payload_type = str(number(payload_type, 127))
    fields = rest.strip().split("/")
    if not 2 <= len(fields) <= 3:
        raise SdpError(SdpRule.RTPMAP, value[: grammar.MAX_ECHO])
    channels = number(fields[2], 255, 1) if len(fields) == 3 else 1
    name = token(fields[0], SdpRule.RTPMAP)
    return payload_type, (name, number(fields[1], _UINT32, 1), channels)


def _rtpmap(section: SectionDraft, value: str) -> None:
    payload_type, meaning = _split_rtpmap(value)
    section.rtp.maps.setdefault(payload_type, meaning)


def _fmtp(section: SectionDraft, value: str) -> None:
    target, _, parameters = value.partition(" ")
    if not target or not parameters.strip():
        raise SdpError(SdpRule.FMTP, value[: grammar.MAX_ECHO])
    section.rtp.fmtps.setdefault(target, parameters.strip())


def _rtcp_fb(section: SectionDraft, value: str) -> None:
    target, _, feedback = value.partition(" ")
    feedback = feedback.strip()
    if not target or not feedback:
        raise SdpError(SdpRule.FEEDBACK, value[: grammar.MAX_ECHO])
    section.rtp.feedback.append((target, feedback))


@lru_cache(maxsize=256)
def _split_extmap(value: str) -> HeaderExtension:
    head, _, rest = value.partition(" ")
    identifier, slash, way = head.partition("/")
    uri = rest.split()
    direction = _DIRECTIONS.get(way)
    if not uri or (slash and direction is None):
        raise SdpError(SdpRule.EXTMAP, value[: grammar.MAX_ECHO])
    return HeaderExtension(number(identifier, 4351, 1), uri[0], direction)


def _extmap(section: SectionDraft, value: str) -> None:
    section.rtp.extensions.append(_split_extmap(value))


def _extmap_allow_mixed(section: SectionDraft, value: str) -> None:
    section.rtp.allow_mixed = True


def _msid(section: SectionDraft, value: str) -> None:
    if not 1 <= len(value.split()) <= 2:
        raise SdpError(SdpRule.MSID, value[: grammar.MAX_ECHO])
    section.rtp.msids.append(value)


def _ssrc(section: SectionDraft, value: str) -> None:
    head, _, attribute = value.partition(" ")
    name, _, text = attribute.partition(":")
    if not name:
        raise SdpError(SdpRule.SSRC, value[: grammar.MAX_ECHO])
    ssrc = number(head, _UINT32)
    old = section.rtp.sources.get(ssrc)
    cname, msid = (old.cname, old.msid) if old is not None else ("", "")
    if name == "cname":
        cname = text.strip()
    elif name == "msid":
        msid = text.strip()
    section.rtp.sources[ssrc] = Source(ssrc, cname, msid)


def _rtcp_mux(section: SectionDraft, value: str) -> None:
    section.rtp.mux = True


def _rtcp_mux_only(section: SectionDraft, value: str) -> None:
    section.rtp.mux_only = True


def _rtcp_rsize(section: SectionDraft, value: str) -> None:
    section.rtp.rsize = True


def _ptime(section: SectionDraft, value: str) -> None:
    # RFC 8866 section 6.4 allows a fraction; whole milliseconds are all that packets have
    section.rtp.ptime_ms = number(value.partition(".")[0], 65535)


def _maxptime(section: SectionDraft, value: str) -> None:
    section.rtp.maxptime_ms = number(value.partition(".")[0], 65535)


def _sctp_port(section: SectionDraft, value: str) -> None:
    _once(section.sctp.port is not None, value)
    section.sctp.port = number(value, 65535)


def _sctpmap(section: SectionDraft, value: str) -> None:
    fields = value.split()
    if len(fields) < 2:
        raise SdpError(SdpRule.SCTPMAP, value[: grammar.MAX_ECHO])
    section.sctp.mapped_port = number(fields[0], 65535)


def _max_message_size(section: SectionDraft, value: str) -> None:
    _once(section.sctp.max_message_size is not None, value)
    section.sctp.max_message_size = number(value, _UINT64)


def _sctp_init(section: SectionDraft, value: str) -> None:
    section.sctp.inits.append(value)


def _direction_handler(direction: Direction) -> Callable[[SectionDraft, str], None]:
    def handler(section: SectionDraft, value: str) -> None:
        section.direction = direction

    return handler


ATTRIBUTES: Final[dict[str, Callable[[SectionDraft, str], None]]] = {
    "mid": _mid,
    "bundle-only": _bundle_only,
    "ice-ufrag": _ufrag,
    "ice-pwd": _pwd,
    "ice-options": _ice_options,
    "candidate": _candidate,
    "end-of-candidates": _end_of_candidates,
    "fingerprint": _fingerprint,
    "setup": _setup,
    "tls-id": _tls_id,
    "rtpmap": _rtpmap,
    "fmtp": _fmtp,
    "rtcp-fb": _rtcp_fb,
    "extmap": _extmap,
    "extmap-allow-mixed": _extmap_allow_mixed,
    "msid": _msid,
    "ssrc": _ssrc,
    "rtcp-mux": _rtcp_mux,
    "rtcp-mux-only": _rtcp_mux_only,
    "rtcp-rsize": _rtcp_rsize,
    "ptime": _ptime,
    "maxptime": _maxptime,
    "sctp-port": _sctp_port,
    "sctpmap": _sctpmap,
    "max-message-size": _max_message_size,
    "sctp-init": _sctp_init,
    **{d.value: _direction_handler(d) for d in Direction},
}
