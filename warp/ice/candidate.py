"""Candidates: transport addresses that may carry media (RFC 8445 section 5.1, RFC 8839 5.1).

`parse_candidate` reads the attribute's text, `str()` writes it. Called by `warp.peer` for what
the signalling brings and by the gatherer in `warp.io`.
"""

from __future__ import annotations

import enum
import ipaddress
import re
import zlib
from dataclasses import dataclass
from functools import lru_cache

from warp.contract import Address
from warp.errors import InvalidConfig
from warp.names import Name

MAX_LINE_CHARACTERS = 1024
_MAX_EXTENSIONS = 16
_PEER_REFLEXIVE_PREFERENCE = 110  # RFC 8445 section 5.1.2.2
_FOUNDATION = re.compile(r"[A-Za-z0-9+/]{1,32}", re.ASCII)
_TOKEN = re.compile(r"[!-~]+", re.ASCII)
_HOST_NAME = re.compile(r"[A-Za-z0-9_\-.]{1,253}", re.ASCII)


class CandidateType(Name):
    """How a candidate was found, as spelled on the wire."""

    HOST = "host"
    PEER_REFLEXIVE = "prflx"
    SERVER_REFLEXIVE = "srflx"
    RELAYED = "relay"


TYPE_PREFERENCES = {
    CandidateType.HOST: 126,
    CandidateType.PEER_REFLEXIVE: _PEER_REFLEXIVE_PREFERENCE,
    CandidateType.SERVER_REFLEXIVE: 100,
    CandidateType.RELAYED: 0,
}  # RFC 8445 section 5.1.2.2


_TYPES = {kind.text: kind for kind in CandidateType}


class CandidateFault(enum.Enum):
    """Why a text is no candidate."""

    TOO_LONG = "the line is too long"
    TOO_FEW_FIELDS = "fields are missing"
    BAD_FOUNDATION = "the foundation is not 1 to 32 ice-chars"
    BAD_COMPONENT = "the component is not between 1 and 256"
    BAD_TRANSPORT = "the transport is not a token"
    BAD_PRIORITY = "the priority is not a 32-bit number"
    BAD_ADDRESS = "the address is neither numeric nor a host name"
    BAD_PORT = "a port is not a 16-bit number"
    BAD_TYPE = "the type is missing or unknown"
    BAD_EXTENSION = "an extension has no value"


class CandidateError(InvalidConfig):
    """A candidate's text does not follow RFC 8839 section 5.1; `fault` says where."""

    def __init__(self, fault: CandidateFault, text: str) -> None:
        super().__init__(f"{fault.value}: {text[:120]!r}")
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate. `host` is numeric (canonical form) or, unresolved, a host name."""

    foundation: str
    component: int
    transport: str
    priority: int
    host: str
    port: int
    type: CandidateType
    related_address: Address | None = None
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def address(self) -> Address:
        """Host and port."""
        return self.host, self.port

    @property
    def is_usable(self) -> bool:
        """Whether an agent can check it: UDP, component 1, a numeric unicast address, a port."""
        return (
            self.transport == "udp"
            and self.component == 1
            and self.port > 0
            and _is_unicast(self.host)
        )

    def extension(self, name: str) -> str | None:
        """Return the value of an extension (`tcptype`, `ufrag`, ...), or None."""
        return next((value for key, value in self.extensions if key == name), None)

    def __str__(self) -> str:
        text = (
            f"candidate:{self.foundation} {self.component} {self.transport} {self.priority}"
            f" {self.host} {self.port} typ {self.type.text}"
        )
        if self.related_address is not None:
            text += f" raddr {self.related_address[0]} rport {self.related_address[1]}"
        for name, value in self.extensions:
            text += f" {name} {value}"
        return text


def candidate_priority(
    kind: CandidateType, *, local_preference: int = 65535, component: int = 1
) -> int:
    """Return a candidate's priority (RFC 8445 section 5.1.2.1); `local_preference` is 16 bits."""
    return TYPE_PREFERENCES[kind] << 24 | local_preference << 8 | (256 - component)


def peer_reflexive_priority(priority: int) -> int:
    """Return what PRIORITY says in a check from a candidate of this priority (section 7.1.1)."""
    return _PEER_REFLEXIVE_PREFERENCE << 24 | (priority & 0xFFFFFF)


def make_candidate(
    kind: CandidateType,
    address: Address,
    *,
    base: Address | None = None,
    server: str = "",
    local_preference: int = 65535,
) -> Candidate:
    """Return a local UDP candidate with its foundation and priority.

    `base` is the address it is sent from when that differs (it becomes the related address),
    `server` the STUN or TURN server that told it. The foundation is equal for equal kind, base
    and server (RFC 8445 section 5.1.1.3).
    """
    return _make_candidate(kind, address, base, server, local_preference)


# a server has the same few in every session
@lru_cache(maxsize=64)
def _make_candidate(
    kind: CandidateType, address: Address, base: Address | None, server: str, local_preference: int
) -> Candidate:
    origin = f"{kind.text}|{(base or address)[0]}|{server}"
    return Candidate(
        foundation=str(zlib.crc32(origin.encode())),
        component=1,
        transport="udp",
        priority=candidate_priority(kind, local_preference=local_preference),
        host=canonical_host(address[0]),
        port=address[1],
        type=kind,
        related_address=base,
    )


def host_candidate(address: Address) -> Candidate:
    """Return the host candidate of a bound socket's address."""
    return make_candidate(CandidateType.HOST, address)


@lru_cache(maxsize=512)
def _canonical_host(host: str) -> str | None:
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return None
    # a zone means something on one host only and is no part of a flow
    return str(parsed).partition("%")[0]


@lru_cache(maxsize=512)
def _is_unicast(host: str) -> bool:
    """Tell whether an address is one host's: who names a group makes others be sent to."""
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    everybody = parsed == ipaddress.IPv4Address("255.255.255.255")
    return not (parsed.is_multicast or parsed.is_unspecified or everybody)


def canonical_host(host: str) -> str:
    """Return a numeric address in its one canonical spelling; anything else as it is."""
    return _canonical_host(host) or host


def is_link_local(host: str) -> bool:
    """Tell whether this numeric address is IPv6 link-local (fe80::/10)."""
    return ":" in host and host[:3].lower() in ("fe8", "fe9", "fea", "feb")


def _number(text: str, most: int, fault: CandidateFault, line: str) -> int:
    # int() also takes signs, spaces, underscores and other scripts' digits
    if text.isascii() and text.isdigit() and len(text) <= 10:
        number = int(text)
        if number <= most:
            return number
    raise CandidateError(fault, line)


def _host(text: str, line: str) -> str:
    if (numeric := _canonical_host(text)) is not None:
        return numeric
    if not _HOST_NAME.fullmatch(text):
        raise CandidateError(CandidateFault.BAD_ADDRESS, line)
    return text


def _extensions(fields: list[str], line: str) -> list[tuple[str, str]]:
    if len(fields) % 2:
        raise CandidateError(CandidateFault.BAD_EXTENSION, line)
    if len(fields) > 2 * _MAX_EXTENSIONS:
        raise CandidateError(CandidateFault.TOO_LONG, line)
    return list(zip(fields[::2], fields[1::2], strict=True))


def parse_candidate(text: str) -> Candidate:
    """Return the candidate of a `candidate:` line; `a=` in front and line ends are tolerated.

    Unknown extensions are kept, TCP candidates and host names parsed (an agent passes over
    them). Raises `CandidateError`.
    """
    return _parse_candidate(text.strip())


# a client of one server reads the same few in every session
@lru_cache(maxsize=64)
def _parse_candidate(line: str) -> Candidate:
    if len(line) > MAX_LINE_CHARACTERS:
        raise CandidateError(CandidateFault.TOO_LONG, line)
    fields = line.removeprefix("a=").removeprefix("candidate:").split()
    if len(fields) < 8:
        raise CandidateError(CandidateFault.TOO_FEW_FIELDS, line)
    foundation, component_text, transport, priority_text, host, port_text, typ, kind_text = fields[
        :8
    ]
    if not _FOUNDATION.fullmatch(foundation):
        raise CandidateError(CandidateFault.BAD_FOUNDATION, line)
    component = _number(component_text, 256, CandidateFault.BAD_COMPONENT, line)
    if component == 0:
        raise CandidateError(CandidateFault.BAD_COMPONENT, line)
    if not _TOKEN.fullmatch(transport):
        raise CandidateError(CandidateFault.BAD_TRANSPORT, line)
    kind = _TYPES.get(kind_text.lower())
    if typ.lower() != "typ" or kind is None:
        raise CandidateError(CandidateFault.BAD_TYPE, line)
    related: Address | None = None
    extensions: list[tuple[str, str]] = []
    if len(fields) > 8:
        extensions = _extensions(fields[8:], line)
        if len(extensions) >= 2 and extensions[0][0] == "raddr" and extensions[1][0] == "rport":
            related_port = _number(extensions[1][1], 0xFFFF, CandidateFault.BAD_PORT, line)
            related = (_host(extensions[0][1], line), related_port)
            extensions = extensions[2:]
    return Candidate(
        foundation=foundation,
        component=component,
        transport=transport.lower(),
        priority=_number(priority_text, 0xFFFFFFFF, CandidateFault.BAD_PRIORITY, line),
        host=_host(host, line),
        port=_number(port_text, 0xFFFF, CandidateFault.BAD_PORT, line),
        type=kind,
        related_address=related,
        extensions=tuple(extensions),
    )
