"""What a client is given ahead of time: tickets with their passwords, and the terms of an answer.

    GET /v1/instant ─▶ Bundle.to_json ~~~▶ parse_bundle ─ Wallet ─▶ one ticket a call

JSON, never to be stored by caches: a ticket with its password starts one session. What is not in
the bundle the client knows from its own offer; what is in it is the same in every answer of the
cell (`profile.Terms`). Called by the server around `host`, and by `client`.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from instant_connect.profile import Terms
from instant_connect.ticket import TICKET_BYTES
from warp.errors import Discard, InvalidConfig
from warp.ice import Candidate, CandidateType, make_candidate
from warp.sctp import InitChunk, parse_init

FORMAT: Final = 1
MAX_TICKETS: Final = 16
MAX_CANDIDATES: Final = 16
MAX_TEXT_BYTES: Final = 65_536
T = TypeVar("T")


class SealedTicket(NamedTuple):
    """A ticket and the ICE password that goes with it."""

    raw: bytes
    password: str

    def __repr__(self) -> str:
        return "<SealedTicket>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What `GET /v1/instant` returns. Times of the wall are whole seconds since 1970."""

    tickets: tuple[SealedTicket, ...] = field(repr=False)
    fingerprint: str  # "AB:CD:..": SHA-256 of the cell's certificate in this epoch
    terms: Terms = field(repr=False)
    issued_at: int
    expires_at: int
    refresh_after_s: int = 300
    dcid: int = 4  # stream id of the negotiated channel
    fallback: str = ""  # where offers go

    def to_json(self) -> str:
        """Return the bundle as JSON text, secrets included."""
        terms = self.terms
        value: dict[str, Any] = {
            "v": FORMAT,
            "issued_at": self.issued_at,
            "expires_at": self.expires_at,
            "refresh_after_s": self.refresh_after_s,
            "tickets": [
                {"t": b64encode(raw).decode("ascii"), "pwd": password}
                for raw, password in self.tickets
            ],
            "fingerprint": f"sha-256 {self.fingerprint}",
            "candidates": [f"udp {c.host} {c.port}" for c in terms.candidates],
            "setup": "passive",
            "ice_options": ["sped"] if terms.sped else [],
            "snap": terms.snap,
            "sctp_init": b64encode(terms.init.to_bytes()).decode("ascii"),
            "dcid": self.dcid,
            "max_message_size": terms.max_message_size,
            "fallback": self.fallback,
        }
        return json.dumps(value)


def parse_bundle(text: str) -> Bundle:
    """Read a bundle. Raises `InvalidConfig`, which names the member and no secret.

    Members that are not known are passed over; candidates of other transports too.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise InvalidConfig(f"a bundle has at most {MAX_TEXT_BYTES} characters")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidConfig("a bundle is JSON") from None
    if not isinstance(value, dict) or value.get("v") != FORMAT:
        raise InvalidConfig(f'a bundle is a JSON object with "v": {FORMAT}')
    if value.get("setup", "passive") != "passive":
        raise InvalidConfig("setup: only a passive server can be called by its bundle")
    expires_at = _number(value, "expires_at", 0, 0xFFFFFFFF)
    return Bundle(
        tickets=tuple(_parse_ticket(item) for item in _list(value, "tickets", MAX_TICKETS)),
        fingerprint=_parse_fingerprint(_get(value, "fingerprint", str)),
        terms=_parse_terms(value),
        issued_at=_number(value, "issued_at", 0, expires_at),
        expires_at=expires_at,
        refresh_after_s=_number(value, "refresh_after_s", 0, 86_400, default=300),
        dcid=_number(value, "dcid", 0, 65_534, default=4),
        fallback=_get(value, "fallback", str, ""),
    )


def _parse_terms(value: Mapping[str, Any]) -> Terms:
    candidates: list[Candidate] = []
    for item in _list(value, "candidates", MAX_CANDIDATES):
        transport, _, address = (item if isinstance(item, str) else "").partition(" ")
        host, _, port = address.rpartition(" ")
        if not (host and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 0x10000):
            raise InvalidConfig('candidates: each is "transport address port"')
        candidate = make_candidate(
            CandidateType.HOST,
            (host.strip("[]"), int(port)),
            local_preference=0xFFFF - len(candidates),
        )
        if transport == "udp" and candidate.is_usable:
            candidates.append(candidate)
    if not candidates:
        raise InvalidConfig("candidates: none is a numeric UDP address")
    return Terms(
        candidates=tuple(candidates),
        init=_parse_template(_get(value, "sctp_init", str)),
        max_message_size=_number(value, "max_message_size", 0, 0xFFFFFFFF, default=65_536),
        sped="sped" in _list(value, "ice_options", 16, default=[]),
        snap=_get(value, "snap", bool, False),
    )


def _parse_template(text: str) -> InitChunk:
    try:
        return parse_init(b64decode(text, validate=True))
    except (ValueError, Discard):
        raise InvalidConfig("sctp_init is not the base64 of an INIT chunk") from None


def _parse_ticket(item: object) -> SealedTicket:
    value: Mapping[str, Any] = item if isinstance(item, dict) else {}
    password = _get(value, "pwd", str, name="tickets[].pwd")
    try:
        raw = b64decode(_get(value, "t", str, name="tickets[].t"), validate=True)
    except ValueError:
        raise InvalidConfig("tickets[].t is not base64") from None
    if len(raw) != TICKET_BYTES or not (22 <= len(password) <= 256 and password.isascii()):
        raise InvalidConfig(f"tickets: {TICKET_BYTES} bytes and an ICE password each")
    return SealedTicket(raw, password)


def _parse_fingerprint(text: str) -> str:
    algorithm, _, digest = text.partition(" ")
    try:
        raw = bytes.fromhex(digest.replace(":", ""))
    except ValueError:
        raw = b""
    if algorithm.lower() != "sha-256" or raw.hex(":").upper() != digest.upper() or len(raw) != 32:
        raise InvalidConfig('fingerprint is "sha-256 AB:CD:..", 32 bytes')
    return digest.upper()


def _get(
    value: Mapping[str, Any], member: str, kind: type[T], default: T | None = None, name: str = ""
) -> T:
    found = value.get(member, default)
    if type(found) is not kind:
        raise InvalidConfig(f"{name or member} is missing, or not a {kind.__name__}")
    return found


def _list(
    value: Mapping[str, Any], member: str, limit: int, default: list[Any] | None = None
) -> list[Any]:
    found = _get(value, member, list, default)
    if len(found) > limit:
        raise InvalidConfig(f"{member}: at most {limit}")
    return found


def _number(
    value: Mapping[str, Any], member: str, least: int, most: int, default: int | None = None
) -> int:
    found = _get(value, member, int, default)
    if not least <= found <= most:
        raise InvalidConfig(f"{member} is {least}..{most}")
    return found
