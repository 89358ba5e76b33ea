"""What each line of a description says: one small function an attribute.

Called by `parse`, which sorts the lines: those of one session by `OWN_ATTRIBUTES`, those that many
sessions share by `COMMON_ATTRIBUTES`. A value that breaks a rule raises `SdpError` without a line
number, which `parse` adds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from warp.sdp import grammar
from warp.sdp.drafts import CommonDraft, OwnDraft
from warp.sdp.errors import SdpError, SdpRule
from warp.sdp.grammar import number, token
from warp.sdp.model import Direction, HeaderExtension, Origin, Setup, Source

_UINT64: Final = (1 << 64) - 1
_UINT32: Final = (1 << 32) - 1
_DIRECTIONS: Final = {d.value: d for d in Direction}
_SETUPS: Final = {s.value: s for s in Setup}
OWN_PREFIXES: Final = frozenset(
    {"ice-u", "ice-p", "candi", "finge", "tls-i", "ssrc:", "ssrc", "msid:", "msid", "sctp-"}
)
"""How the attributes begin (the first five characters) that belong to one session."""


def origin(value: str) -> Origin:
    """Return what an o= line says."""
    fields = value.split()
    if len(fields) != 6:
        raise SdpError(SdpRule.ORIGIN, value[: grammar.MAX_ECHO])
    username, session_id, version, _, address_type, address = fields
    return Origin(
        number(session_id, _UINT64), number(version, _UINT64), username, address_type, address
    )


def media_line(value: str) -> tuple[int, str, str]:
    """Return port, kind, and what else an m= line says."""
    fields = value.split(None, 2)
    if len(fields) < 3 or len(fields[2].split(None, 1)) < 2:
        raise SdpError(SdpRule.MEDIA_LINE, value[: grammar.MAX_ECHO])
    return number(fields[1].partition("/")[0], 65535), fields[0], fields[2]


@lru_cache(maxsize=64)
def connection(value: str) -> str:
    """Return the address of a c= line."""
    fields = value.split()
    if len(fields) != 3:
        raise SdpError(SdpRule.CONNECTION, value[: grammar.MAX_ECHO])
    return fields[2].partition("/")[0]


def _once(present: object, value: str) -> None:
    if present:
        raise SdpError(SdpRule.DUPLICATE, value[: grammar.MAX_ECHO])


def _group(common: CommonDraft, value: str) -> None:
    # only BUNDLE means something here (RFC 8843 section 7)
    words = value.split()
    if words[:1] == ["BUNDLE"] and len(words) > 1:
        common.groups.append(tuple(words[1:]))


def _ice_lite(common: CommonDraft, value: str) -> None:
    common.ice_lite = True


def _mid(common: CommonDraft, value: str) -> None:
    _once(common.mid is not None, value)
    common.mid = token(value)


def _bundle_only(common: CommonDraft, value: str) -> None:
    common.bundle_only = True


def _ufrag(own: OwnDraft, value: str) -> None:
    _once(own.ufrag, "ice-ufrag")
    own.ufrag = grammar.ice_ufrag(value)


def _pwd(own: OwnDraft, value: str) -> None:
    _once(own.pwd, "ice-pwd")
    own.pwd = grammar.ice_pwd(value)


def _ice_options(common: CommonDraft, value: str) -> None:
    common.ice_options += value.split()


def _candidate(own: OwnDraft, value: str) -> None:
    own.candidates.append("candidate:" + value)


def _end_of_candidates(common: CommonDraft, value: str) -> None:
    common.end_of_candidates = True


def _fingerprint(own: OwnDraft, value: str) -> None:
    own.fingerprints.append(grammar.fingerprint(value))


def _setup(common: CommonDraft, value: str) -> None:
    _once(common.setup, value)
    setup = _SETUPS.get(value)
    if setup is None:
        raise SdpError(SdpRule.SETUP, value[: grammar.MAX_ECHO])
    common.setup = setup


def _tls_id(own: OwnDraft, value: str) -> None:
    _once(own.tls_id, value)
    own.tls_id = token(value)


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


def _rtpmap(common: CommonDraft, value: str) -> None:
    payload_type, meaning = _split_rtpmap(value)
    common.rtp.maps.setdefault(payload_type, meaning)


def _fmtp(common: CommonDraft, value: str) -> None:
    target, _, parameters = value.partition(" ")
    if not target or not parameters.strip():
        raise SdpError(SdpRule.FMTP, value[: grammar.MAX_ECHO])
    common.rtp.fmtps.setdefault(target, parameters.strip())


def _rtcp_fb(common: CommonDraft, value: str) -> None:
    target, _, feedback = value.partition(" ")
    feedback = feedback.strip()
    if not target or not feedback:
        raise SdpError(SdpRule.FEEDBACK, value[: grammar.MAX_ECHO])
    common.rtp.feedback.append((target, feedback))


@lru_cache(maxsize=256)
def _split_extmap(value: str) -> HeaderExtension:
    head, _, rest = value.partition(" ")
    identifier, slash, way = head.partition("/")
    uri = rest.split()
    direction = _DIRECTIONS.get(way)
    if not uri or (slash and direction is None):
        raise SdpError(SdpRule.EXTMAP, value[: grammar.MAX_ECHO])
    return HeaderExtension(number(identifier, 4351, 1), uri[0], direction)


def _extmap(common: CommonDraft, value: str) -> None:
    common.rtp.extensions.append(_split_extmap(value))


def _extmap_allow_mixed(common: CommonDraft, value: str) -> None:
    common.rtp.allow_mixed = True


def msid(value: str) -> str:
    """Return what an msid line says."""
    if not 1 <= len(value.split()) <= 2:
        raise SdpError(SdpRule.MSID, value[: grammar.MAX_ECHO])
    return value


def add_source(sources: dict[int, Source], value: str) -> None:
    """Take in what an ssrc line says of its source."""
    head, _, attribute = value.partition(" ")
    name, _, text = attribute.partition(":")
    if not name:
        raise SdpError(SdpRule.SSRC, value[: grammar.MAX_ECHO])
    ssrc = number(head, _UINT32)
    old = sources.get(ssrc)
    cname, stream = (old.cname, old.msid) if old is not None else ("", "")
    if name == "cname":
        cname = text.strip()
    elif name == "msid":
        stream = text.strip()
    sources[ssrc] = Source(ssrc, cname, stream)


@lru_cache(maxsize=16)
def sctp_port(value: str) -> int:
    """Return what an sctp-port line says."""
    return number(value, 65535, 1)


def _msid(own: OwnDraft, value: str) -> None:
    own.msids.append(msid(value))


def _ssrc(own: OwnDraft, value: str) -> None:
    add_source(own.sources, value)


def _rtcp_mux(common: CommonDraft, value: str) -> None:
    common.rtp.mux = True


def _rtcp_mux_only(common: CommonDraft, value: str) -> None:
    common.rtp.mux_only = True


def _rtcp_rsize(common: CommonDraft, value: str) -> None:
    common.rtp.rsize = True


def _ptime(common: CommonDraft, value: str) -> None:
    # RFC 8866 section 6.4 allows a fraction; whole milliseconds are all that packets have
    common.rtp.ptime_ms = number(value.partition(".")[0], 65535)


def _maxptime(common: CommonDraft, value: str) -> None:
    common.rtp.maxptime_ms = number(value.partition(".")[0], 65535)


def _sctp_port(own: OwnDraft, value: str) -> None:
    _once(own.sctp_port is not None, value)
    own.sctp_port = sctp_port(value)


def _sctpmap(common: CommonDraft, value: str) -> None:
    fields = value.split()
    if len(fields) < 2:
        raise SdpError(SdpRule.SCTPMAP, value[: grammar.MAX_ECHO])
    common.mapped_port = number(fields[0], 65535, 1)


def _max_message_size(common: CommonDraft, value: str) -> None:
    _once(common.max_message_size is not None, value)
    common.max_message_size = number(value, _UINT64)


def _sctp_init(own: OwnDraft, value: str) -> None:
    own.inits.append(value)


def _direction_handler(direction: Direction) -> Callable[[CommonDraft, str], None]:
    def handler(common: CommonDraft, value: str) -> None:
        common.direction = direction

    return handler


COMMON_ATTRIBUTES: Final[dict[str, Callable[[CommonDraft, str], None]]] = {
    "group": _group,
    "ice-lite": _ice_lite,
    "mid": _mid,
    "bundle-only": _bundle_only,
    "ice-options": _ice_options,
    "end-of-candidates": _end_of_candidates,
    "setup": _setup,
    "rtpmap": _rtpmap,
    "fmtp": _fmtp,
    "rtcp-fb": _rtcp_fb,
    "extmap": _extmap,
    "extmap-allow-mixed": _extmap_allow_mixed,
    "rtcp-mux": _rtcp_mux,
    "rtcp-mux-only": _rtcp_mux_only,
    "rtcp-rsize": _rtcp_rsize,
    "ptime": _ptime,
    "maxptime": _maxptime,
    "sctpmap": _sctpmap,
    "max-message-size": _max_message_size,
    **{d.value: _direction_handler(d) for d in Direction},
}
OWN_ATTRIBUTES: Final[dict[str, Callable[[OwnDraft, str], None]]] = {
    "ice-ufrag": _ufrag,
    "ice-pwd": _pwd,
    "candidate": _candidate,
    "fingerprint": _fingerprint,
    "tls-id": _tls_id,
    "msid": _msid,
    "ssrc": _ssrc,
    "sctp-port": _sctp_port,
    "sctp-init": _sctp_init,
}
