"""Descriptions that look like one before them: the same peer, another call.

    lines ─ the same where sections do not differ from session to session? ─▶ Form, known
          └ the rest, each by the reader that the same place had ───────────▶ OwnDraft

Most of a description, and which line says what in it, is the same in all sessions of one kind of
peer. `parse` learns how what it has read is laid out, and asks here first; it reads line by line
whatever is laid out otherwise or breaks a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from warp.sdp.attributes import (
    OWN_ATTRIBUTES,
    OWN_PREFIXES,
    connection,
    media_line,
    origin,
)
from warp.sdp.drafts import Form, OwnDraft, Section
from warp.sdp.errors import SdpError
from warp.sdp.model import SessionDescription

MAX_LAYOUTS: Final = 16
"""Kinds of description that are known: a few browsers' offers and answers, ours among them."""
_Reader = Callable[[OwnDraft, str], None]


class _Part(NamedTuple):
    """The session level, or one section: `kind` and `rest` of its m= line, readers of its lines."""

    kind: str
    rest: str
    form: Form
    readers: tuple[tuple[int, _Reader], ...]


class _Layout:
    """Which line of a description says what."""

    __slots__ = ("_bundles", "_common", "_expected", "_ice_lite", "_name", "_own", "_parts",
                 "_starts", "size")  # fmt: skip

    def __init__(
        self,
        lines: Sequence[str],
        own: Sequence[int],
        parts: Sequence[_Part],
        example: SessionDescription,
    ) -> None:
        self.size: Final = len(lines)
        common = sorted(set(range(len(lines))).difference(own))
        self._common: Final = itemgetter(*common)
        self._expected: Final = self._common(lines)
        self._own: Final = itemgetter(*own)
        self._starts: Final = tuple([_start(lines[index]) for index in own])
        self._parts: Final = tuple(parts)
        # which follow from the lines that are always the same
        self._bundles: Final = example.bundles
        self._ice_lite: Final = example.ice_lite
        self._name: Final = example.name

    def read(self, lines: Sequence[str]) -> SessionDescription | None:
        """Return the description; None when it is laid out otherwise or is none at all."""
        if self._common(lines) != self._expected:
            return None
        own = self._own(lines)
        if not all(map(str.startswith, own, self._starts)):
            return None
        try:
            return self._read(own)
        except SdpError:
            return None

    def _read(self, own: Sequence[str]) -> SessionDescription | None:
        sections: list[Section] = []
        at = port = 0
        for kind, rest, form, readers in self._parts:
            if kind:
                port, found, formats = media_line(own[at][2:])
                if found != kind or formats != rest:
                    return None
            draft = OwnDraft()
            for skip, reader in readers:
                at += 1
                reader(draft, own[at][skip:])
            at += 1
            sections.append(Section(port, form, draft))
        session, *media = sections
        return SessionDescription(
            origin(own[0][2:]),
            tuple([section.finish(session) for section in media]),
            self._bundles,
            self._ice_lite,
            self._name,
        )


_known: list[_Layout] = []
"""What was learnt, the latest first."""


def read_alike(lines: Sequence[str]) -> SessionDescription | None:
    """Return the description if one that was laid out alike is known and it is in order."""
    for layout in _known:
        if layout.size == len(lines):
            found = layout.read(lines)
            if found is not None:
                return found
    return None


def learn_layout(
    lines: Sequence[str], sections: Sequence[Section], description: SessionDescription
) -> None:
    """Note how what was read is laid out; `sections` begin with the session level."""
    layout = _layout(lines, sections, description)
    if layout is not None:
        _known.insert(0, layout)
        del _known[MAX_LAYOUTS:]


def _layout(
    lines: Sequence[str], sections: Sequence[Section], description: SessionDescription
) -> _Layout | None:
    """Return the layout, or None where it is not worth it: lines in an odd order, or cut short."""
    own: list[int] = []
    parts: list[_Part] = []
    readers: list[tuple[int, _Reader]] = []
    for index, line in enumerate(lines):
        kind = line[:2]
        if kind == "m=" or (kind == "o=" and not own):
            own.append(index)
            _, media, rest = media_line(line[2:]) if kind == "m=" else (0, "", "")
            readers = []
            parts.append(_Part(media, rest, sections[len(parts)].form, ()))
        elif kind == "c=" or (kind == "a=" and line[2:7] in OWN_PREFIXES):
            if not own or (kind == "a=" and ":" not in line):
                return None
            own.append(index)
            readers.append((len(_start(line)), _reader(line)))
            parts[-1] = parts[-1]._replace(readers=tuple(readers))
    if len(parts) != len(sections) or len(own) < 2 or len(lines) - len(own) < 2:
        return None
    return _Layout(lines, own, parts, description)


def _start(line: str) -> str:
    """Return how a line of its kind begins, up to what differs from session to session."""
    return line[: line.index(":") + 1] if line[0] == "a" else line[:2]


def _reader(line: str) -> _Reader:
    if line[0] == "c":
        return _read_address
    return OWN_ATTRIBUTES.get(line[2 : line.index(":")], _pass_over)


def _read_address(draft: OwnDraft, value: str) -> None:
    draft.address = connection(value)


def _pass_over(draft: OwnDraft, value: str) -> None:
    """What an attribute says that means nothing to us."""
