"""Text to description: lines are sorted, read and put together (RFC 8866 section 5).

    text --split_lines--> lines --┬─ own:    OWN_ATTRIBUTES[name] ----> OwnDraft --┐
              ┌ laid out as others┤                                                ├-> finish
              ▼                   └─ common: COMMON_ATTRIBUTES[name] -> Form ------┘
           Layout

A line that breaks a rule raises `SdpError` with its number. Unknown attributes are skipped. What
sections have in common with those of other sessions is most of the text, and is read once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from warp.sdp import grammar
from warp.sdp.attributes import (
    COMMON_ATTRIBUTES,
    OWN_ATTRIBUTES,
    OWN_PREFIXES,
    connection,
    media_line,
    origin,
)
from warp.sdp.drafts import CommonDraft, Form, OwnDraft, Section
from warp.sdp.errors import SdpError, SdpRule
from warp.sdp.grammar import number
from warp.sdp.layout import learn_layout, read_alike
from warp.sdp.model import Origin, SessionDescription

_KNOWN_TYPES: Final = frozenset("vostiuepbrzk")  # besides a, c and m


def parse_description(text: str) -> SessionDescription:
    """Return the description that the text holds; raise `SdpError` (with line and rule) if none."""
    lines = grammar.split_lines(text)
    if not lines or lines[0] != "v=0":
        raise SdpError(SdpRule.VERSION, line=1)
    remembers = len(text) <= _REMEMBERED_LENGTH
    if remembers:
        found = read_alike(lines)
        if found is not None:
            return found
    return _read(lines, remembers=remembers)


def _read(lines: list[str], *, remembers: bool) -> SessionDescription:
    """Read line by line, and learn how it is done."""
    reader = _Reader(lines, remembers=remembers)
    own, common = reader.own, reader.common
    for index, line in enumerate(lines):
        kind = line[:2]
        if kind == "a=":
            if line[2:7] in OWN_PREFIXES:
                own.append(line)
            else:
                common.append(line)
        elif kind == "m=":
            reader.end_part(index)
            own, common = reader.own, reader.common
        elif kind == "c=":
            own.append(line)
        else:
            common.append(line)
    reader.end_part(len(lines))
    try:
        description = reader.finish()
    except SdpError as error:
        raise _at(error, len(lines)) from None
    if remembers:
        learn_layout(lines, description)
    return description


_REMEMBERED_LENGTH: Final = 16 * 1024
"""Characters of a description whose sections are remembered; real ones are much shorter."""
_WHOLE: Final = frozenset({SdpRule.MISSING_LINE, SdpRule.GROUP, SdpRule.MID})


def _at(error: SdpError, line: int) -> SdpError:
    """Return the error with its line, unless it has one or is about the whole description."""
    if error.line is not None or error.rule in _WHOLE:
        return error
    return SdpError(error.rule, error.detail, line)


class _Reader:
    """Reads the session level and each section when its last line is known.

    `own` and `common` take the lines of the part that is open, which `_start` begins with.
    """

    __slots__ = ("_lines", "_remembers", "_start", "common", "name", "origin", "own", "sections",
                 "session", "timed")  # fmt: skip

    def __init__(self, lines: list[str], *, remembers: bool) -> None:
        self._lines = lines
        self._remembers = remembers
        self._start = 0
        self.own: list[str] = []
        self.common: list[str] = []
        self.sections: list[Section] = []
        self.session: Section | None = None
        self.origin: Origin | None = None
        self.name: str | None = None
        self.timed = False

    def end_part(self, end: int) -> None:
        """Read the part that ends before line `end` (from 0)."""
        start, own, common = self._start, self.own, self.common
        self._start, self.own, self.common = end, [], []
        if not start:
            self._read_session_level(end, own, common)
            return
        try:
            port, kind, rest = media_line(self._lines[start][2:])
            form = self._read_form(kind, rest, common)
            self.sections.append(Section(port, form, _read_own(own, OwnDraft())))
        except SdpError as error:
            raise self._located(error, start, end) from None

    def _read_form(self, kind: str, rest: str, lines: list[str]) -> Form:
        read = _read_form if self._remembers else _read_form.__wrapped__
        return read(kind, rest, tuple(lines))

    def _read_session_level(self, end: int, own: list[str], common: list[str]) -> None:
        head = [line for line in common if line[:2] != "a="]
        try:
            for line in head:
                self._receive_head(line)
            form = self._read_form("", "", [line for line in common if line[:2] == "a="])
            self.session = Section(0, form, _read_own(own, OwnDraft()))
        except SdpError as error:
            raise self._located(error, 0, end) from None
        if end < len(self._lines) and not self._has_head:
            raise SdpError(SdpRule.MISSING_LINE)

    @property
    def _has_head(self) -> bool:
        return self.origin is not None and self.name is not None and self.timed

    def _receive_head(self, line: str) -> None:
        _check_type(line)
        kind, value = line[:2], line[2:]
        if kind == "o=" and self.origin is None:
            self.origin = origin(value)
        elif kind == "s=" and self.name is None:
            self.name = value
        elif kind == "t=":
            self.timed = True

    def _located(self, error: SdpError, start: int, end: int) -> SdpError:
        """Return the error of the first bad line of a part, which is read again line by line."""
        own, common = OwnDraft(), CommonDraft()
        for index in range(start, end):
            line = self._lines[index]
            try:
                if index == start and start:
                    _, _, rest = media_line(line[2:])
                    _formats(rest)
                elif line[:2] == "c=" or (line[:2] == "a=" and line[2:7] in OWN_PREFIXES):
                    _read_own((line,), own)
                elif start or line[:2] == "a=":
                    _receive_common(common, line)
                else:
                    self._receive_head(line)
            except SdpError as found:
                return _at(found, index + 1)
        return error

    def finish(self) -> SessionDescription:
        """Return the description, after the checks that need all lines."""
        session, origin, name = self.session, self.origin, self.name
        if session is None or origin is None or name is None or not self.timed:
            raise SdpError(SdpRule.MISSING_LINE)
        mids = [section.form.mid for section in self.sections if section.form.mid is not None]
        if len(set(mids)) != len(mids):
            raise SdpError(SdpRule.MID, " ".join(mids))
        groups, ice_lite = session.form.groups, session.form.ice_lite
        for section in self.sections:
            groups += section.form.groups
            ice_lite = ice_lite or section.form.ice_lite
        bundled = [mid for group in groups for mid in group]
        if len(set(bundled)) != len(bundled) or not set(bundled) <= set(mids):
            raise SdpError(SdpRule.GROUP, " ".join(bundled))
        media = tuple([section.finish(session) for section in self.sections])
        return SessionDescription(origin, media, groups, ice_lite, name)


def _formats(rest: str) -> tuple[str, tuple[str, ...]]:
    """Return profile and formats of an m= line; none, at the session level."""
    protocol, *formats = rest.split() or ("",)
    if "RTP/" in protocol:
        formats = [str(number(name, 127)) for name in formats]
    return protocol, tuple(formats)


# sections differ from session to session in their own lines alone
@lru_cache(maxsize=64)
def _read_form(kind: str, rest: str, lines: tuple[str, ...]) -> Form:
    protocol, formats = _formats(rest)
    draft = CommonDraft()
    for line in lines:
        _receive_common(draft, line)
    return draft.finish(kind, protocol, formats)


def _receive_common(draft: CommonDraft, line: str) -> None:
    """Take in a line that says the same in many sessions."""
    if line[:2] == "a=":
        name, _, value = line[2:].partition(":")
        handler = COMMON_ATTRIBUTES.get(name)
        if handler is not None:
            handler(draft, value)
    else:
        _check_type(line)


def _check_type(line: str) -> None:
    """Raise for a line that is none, or of a type that RFC 8866 does not know."""
    if line[1:2] != "=":
        raise SdpError(SdpRule.LINE_SHAPE, line[: grammar.MAX_ECHO])
    if line[0] not in _KNOWN_TYPES:
        raise SdpError(SdpRule.UNKNOWN_TYPE, line[: grammar.MAX_ECHO])


def _read_own(lines: Iterable[str], draft: OwnDraft) -> OwnDraft:
    """Take in lines that belong to one session."""
    for line in lines:
        name, _, value = line[2:].partition(":")
        if line[0] == "c":
            draft.address = connection(line[2:])
        elif name in OWN_ATTRIBUTES:
            OWN_ATTRIBUTES[name](draft, value)
    return draft
