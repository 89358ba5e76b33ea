"""Descriptions that look like one before them: the same peer, another call.

    lines ─ the same where sections do not differ from session to session? ─▶ as the example says
          └ the rest, each by the rule of what stood in the same place ─────▶ what this one says

Most of a description, and which line says what in it, is the same in all sessions of one kind of
peer. `parse` learns how what it has read is laid out, and asks here first; it reads line by line
whatever is laid out otherwise or breaks a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from warp.sdp.attributes import (
    OWN_ATTRIBUTES,
    OWN_PREFIXES,
    add_source,
    connection,
    media_line,
    msid,
    origin,
    sctp_port,
)
from warp.sdp.drafts import OwnDraft
from warp.sdp.errors import SdpError, SdpRule
from warp.sdp.extensions import decode_sctp_init
from warp.sdp.grammar import fingerprint, ice_pwd, ice_ufrag, number, token
from warp.sdp.model import (
    MediaDescription,
    SctpDescription,
    SessionDescription,
    Source,
    TransportDescription,
)

MAX_LAYOUTS: Final = 16
"""Kinds of description that are known: a few browsers' offers and answers, ours among them."""
_NOWHERE: Final = slice(0, 0)
_Places: TypeAlias = dict[str, list[int]]
"""Where, among the own lines, those of an attribute stand, and "o", "m" and "c"."""
_Reader: TypeAlias = Callable[[OwnDraft, str], None]


class _Part(NamedTuple):
    """One section: `example` has what is always the same, the rest are places of own lines."""

    example: MediaDescription
    rest: str
    """What follows the port in its m= line."""
    port: int
    address: int | None
    ufrag: int | None
    pwd: int | None
    fingerprints: slice
    tls_id: int | None
    candidates: slice
    sources: slice
    msids: slice
    sctp_port: int | None
    inits: slice

    def read(self, values: Sequence[str]) -> MediaDescription:
        """Return the section; raise `SdpError` for a value that breaks a rule."""
        example = self.example
        known = example.transport
        address, ufrag, pwd, tls_id = self.address, self.ufrag, self.pwd, self.tls_id
        sources = values[self.sources]
        port, _, rest = values[self.port].partition(" ")
        if rest != self.rest:
            raise SdpError(SdpRule.MEDIA_LINE)
        transport = TransportDescription(
            known.ufrag if ufrag is None else ice_ufrag(values[ufrag]),
            known.pwd if pwd is None else ice_pwd(values[pwd]),
            known.ice_options,
            tuple(map(fingerprint, values[self.fingerprints])),
            known.setup,
            known.tls_id if tls_id is None else token(values[tls_id]),
            tuple(values[self.candidates]),
            known.end_of_candidates,
        )
        return MediaDescription(
            example.kind,
            number(port, 65535),
            example.protocol,
            example.formats,
            example.mid,
            example.direction,
            example.address if address is None else _address(values[address]),
            example.bundle_only,
            transport,
            example.codecs,
            example.extensions,
            example.extmap_allow_mixed,
            _sources(sources) if sources else (),
            tuple(map(msid, values[self.msids])),
            example.rtcp_mux,
            example.rtcp_mux_only,
            example.rtcp_rsize,
            example.ptime_ms,
            example.maxptime_ms,
            None if example.sctp is None else self._sctp(example.sctp, values),
        )

    def _sctp(self, example: SctpDescription, values: Sequence[str]) -> SctpDescription:
        at = self.sctp_port
        port = example.port if at is None else sctp_port(values[at])
        init, fault = decode_sctp_init(values[self.inits])
        return SctpDescription(port, example.max_message_size, init, fault)


def _address(value: str) -> str:
    address = connection(value)
    if not address:
        raise SdpError(SdpRule.CONNECTION)  # says nothing: what stands above counts
    return address


def _sources(values: Sequence[str]) -> tuple[Source, ...]:
    sources: dict[int, Source] = {}
    for value in values:
        add_source(sources, value)
    return tuple(sources.values())


class _Layout:
    """Which line of a description says what."""

    __slots__ = ("_common", "_cuts", "_example", "_expected", "_own", "_parts", "_starts",
                 "_unused", "size")  # fmt: skip

    def __init__(
        self,
        lines: Sequence[str],
        own: Sequence[int],
        places: Sequence[_Places],
        example: SessionDescription,
    ) -> None:
        self.size: Final = len(lines)
        common = sorted(set(range(len(lines))).difference(own))
        self._common: Final = itemgetter(*common)
        self._expected: Final = self._common(lines)
        self._own: Final = itemgetter(*own)
        self._starts: Final = tuple([_start(lines[index]) for index in own])
        # a candidate is told with its name
        self._cuts: Final = tuple([
            "a=" if start == "a=candidate:" else start for start in self._starts
        ])  # fmt: skip
        session, *sections = places
        parts = [
            _part(lines[own[part["m"][0]]], part, session, media)
            for part, media in zip(sections, example.media, strict=True)
        ]
        self._parts: Final = tuple(parts)
        self._unused: Final = _unused(places, parts)
        self._example: Final = example._replace(media=())

    def read(self, lines: Sequence[str]) -> SessionDescription | None:
        """Return the description; None when it is laid out otherwise or is none at all."""
        if self._common(lines) != self._expected:
            return None
        own = self._own(lines)
        if not all(map(str.startswith, own, self._starts)):
            return None
        values = list(map(str.removeprefix, own, self._cuts))
        try:
            for at, reader in self._unused:
                reader(OwnDraft(), values[at])
            media = tuple([part.read(values) for part in self._parts])
            example = self._example
            return SessionDescription(
                origin(values[0]), media, example.bundles, example.ice_lite, example.name
            )
        except SdpError:
            return None


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


def learn_layout(lines: Sequence[str], description: SessionDescription) -> None:
    """Note how what was read is laid out."""
    layout = _layout(lines, description)
    # one that cannot read its own example would be learnt anew each time, and drive out the others
    if layout is not None and layout.read(lines) == description:
        _known.insert(0, layout)
        del _known[MAX_LAYOUTS:]


def _layout(lines: Sequence[str], description: SessionDescription) -> _Layout | None:
    """Return the layout, or None where it is not worth it: lines in an odd order, or cut short."""
    own: list[int] = []
    places: list[_Places] = [{}]
    for index, line in enumerate(lines):
        name = _name(line)
        if name is None or (name == "o" and own):
            continue
        if not name or (not own and name != "o"):
            return None
        if name == "m":
            places.append({})
        places[-1].setdefault(name, []).append(len(own))
        own.append(index)
    if len(own) < 2 or len(lines) - len(own) < 2:
        return None
    for part in places:
        for name, row in part.items():
            if name in OWN_ATTRIBUTES and row[-1] - row[0] >= len(row):
                return None
    return _Layout(lines, own, places, description)


def _name(line: str) -> str | None:
    """Return what an own line is about: "" where it has no value, None for one that is common."""
    kind = line[:2]
    if kind == "a=":
        if line[2:7] not in OWN_PREFIXES:
            return None
        name, colon, _ = line[2:].partition(":")
        return name if colon else ""
    return kind[0] if kind in ("o=", "c=", "m=") else None


def _start(line: str) -> str:
    """Return how an own line begins, up to what differs from session to session."""
    if line[:2] == "m=":
        return line.partition(" ")[0] + " "
    return line[: line.index(":") + 1] if line[0] == "a" else line[:2]


def _part(line: str, own: _Places, session: _Places, section: MediaDescription) -> _Part:
    """Note where the lines of a section stand; what it does not say is the session's."""
    ice = own if "ice-ufrag" in own or "ice-pwd" in own else session
    transport, sctp = section.transport, section.sctp
    data = own if sctp is not None else {}
    rtp = own if sctp is None else {}
    return _Part(
        section._replace(
            transport=TransportDescription(
                ice_options=transport.ice_options,
                setup=transport.setup,
                end_of_candidates=transport.end_of_candidates,
            ),
            sources=(),
            msids=(),
            sctp=sctp and SctpDescription(sctp.port, sctp.max_message_size),
        ),
        media_line(line[2:])[2],
        own["m"][0],
        _last(own.get("c") or session.get("c")),
        _last(ice.get("ice-ufrag")),
        _last(ice.get("ice-pwd")),
        _row(own.get("fingerprint") or session.get("fingerprint")),
        _last(own.get("tls-id") or session.get("tls-id")),
        _row(own.get("candidate")),
        _row(rtp.get("ssrc")),
        _row(rtp.get("msid")),
        # the older form names its port in the m= line
        None if section.protocol == "DTLS/SCTP" else _last(data.get("sctp-port")),
        _row(data.get("sctp-init")),
    )


def _last(row: list[int] | None) -> int | None:
    return row[-1] if row else None


def _row(row: list[int] | None) -> slice:
    return slice(row[0], row[-1] + 1) if row else _NOWHERE


def _read_address(draft: OwnDraft, value: str) -> None:
    draft.address = connection(value)


_READERS: Final[Mapping[str, _Reader]] = {**OWN_ATTRIBUTES, "c": _read_address}


def _unused(places: Sequence[_Places], parts: Sequence[_Part]) -> tuple[tuple[int, _Reader], ...]:
    """Return the lines that say nothing which counts; they have to be in order all the same."""
    used: set[int] = set()
    for _, _, *fields in parts:
        for at in fields:
            if isinstance(at, slice):
                used.update(range(at.start, at.stop))
            elif at is not None:
                used.add(at)
    return tuple([
        (at, _READERS[name])
        for part in places
        for name, row in part.items()
        for at in row
        if name in _READERS and at not in used
    ])  # fmt: skip
