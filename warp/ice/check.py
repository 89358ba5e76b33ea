"""Binding requests and responses as ICE reads and writes them (RFC 8445 sections 7.1 to 7.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warp.contract import Flow
from warp.ice.config import IceRole
from warp.ice.context import IceContext
from warp.ice.keys import Keys
from warp.ice.pair import CandidatePair
from warp.ice.rider import BODY_LIMIT_BYTES
from warp.stun import (
    BINDING,
    Attribute,
    IntegrityKey,
    Message,
    MessageClass,
    build_message,
    encode_error_code,
    encode_xor_address,
)

PLAIN_ROOM_BYTES = 24
"""Room left for riders when enough check bytes are under way: a list of acknowledgements."""

_USERNAME: Final = int(Attribute.USERNAME)
_PRIORITY: Final = int(Attribute.PRIORITY)
_USE_CANDIDATE: Final = int(Attribute.USE_CANDIDATE)
_CONTROLLED: Final = int(Attribute.ICE_CONTROLLED)
_CONTROLLING: Final = int(Attribute.ICE_CONTROLLING)
_XOR_MAPPED: Final = int(Attribute.XOR_MAPPED_ADDRESS)
_ERROR_CODE: Final = int(Attribute.ERROR_CODE)
_UNKNOWN: Final = int(Attribute.UNKNOWN_ATTRIBUTES)
_REQUEST: Final = MessageClass.REQUEST
_SUCCESS: Final = MessageClass.SUCCESS

_UNDERSTOOD: Final = frozenset(
    {
        Attribute.MAPPED_ADDRESS, _USERNAME, Attribute.MESSAGE_INTEGRITY, _ERROR_CODE, _UNKNOWN,
        Attribute.REALM, Attribute.NONCE, Attribute.MESSAGE_INTEGRITY_SHA256, _XOR_MAPPED,
        _PRIORITY, _USE_CANDIDATE,
    }
)  # fmt: skip
_FIRST_OPTIONAL = 0x8000  # RFC 8489 section 14: from here on unknown attributes are ignored


class CheckRequest:
    """What an agent needs of a peer's Binding request."""

    __slots__ = (
        "controlled",
        "controlling",
        "priority",
        "transaction_id",
        "unknown",
        "use_candidate",
        "username",
    )

    def __init__(self, message: Message) -> None:
        self.transaction_id = message.transaction_id
        self.username: bytes | None = None
        self.priority: int | None = None
        self.use_candidate = False
        self.controlled: int | None = None
        self.controlling: int | None = None
        self.unknown: list[int] | None = None
        # of several of one type the first counts (RFC 8489 section 14)
        for kind, value in reversed(message.attributes):
            if kind == _USERNAME:
                self.username = value
            elif kind == _PRIORITY:
                self.priority = int.from_bytes(value[:4], "big")
            elif kind == _CONTROLLING:
                self.controlling = int.from_bytes(value[:8], "big")
            elif kind == _CONTROLLED:
                self.controlled = int.from_bytes(value[:8], "big")
            elif kind == _USE_CANDIDATE:
                self.use_candidate = True
            elif kind < _FIRST_OPTIONAL and kind not in _UNDERSTOOD:
                self.unknown = [kind, *(self.unknown or ())]


def has_unknown_required(message: Message) -> bool:
    """Tell whether an answer cannot be understood (RFC 8489 section 6.3.3)."""
    required = [kind for kind, _ in message.attributes if kind < _FIRST_OPTIONAL]
    return not _UNDERSTOOD.issuperset(required)


def build_check(
    context: IceContext,
    keys: Keys,
    pair: CandidatePair,
    transaction_id: bytes,
    *,
    nominates: bool,
    plain: bool,
    now: float,
) -> bytes:
    """Return the datagram of one check; `plain` leaves riders next to no room."""
    controlling = context.role is IceRole.CONTROLLING
    username = keys.username
    attributes = [
        (_USERNAME, username),
        (_CONTROLLING if controlling else _CONTROLLED, context.tie_breaker.to_bytes(8, "big")),
    ]
    if nominates:
        attributes.append((_USE_CANDIDATE, b""))
    attributes.append((_PRIORITY, pair.check_priority.to_bytes(4, "big")))
    if context.rider is not None:
        # USERNAME's header, the role (12), PRIORITY (8), USE-CANDIDATE
        used = 24 + ((len(username) + 3) & ~3) + (4 if nominates else 0)
        room = BODY_LIMIT_BYTES - used
        if plain:
            room = min(room, PLAIN_ROOM_BYTES)
        attributes += context.rider.attributes_to_send(
            _REQUEST, transaction_id, pair.flow, room, now
        )
    return build_message(
        BINDING, _REQUEST, transaction_id, attributes, integrity_key=keys.remote_key
    )


def build_success(
    context: IceContext, key: IntegrityKey, message: Message, flow: Flow, now: float
) -> bytes:
    """Return the success response to an authenticated request (RFC 8445 section 7.3.1.2)."""
    transaction_id = message.transaction_id
    mapped = encode_xor_address(flow.remote, transaction_id)
    attributes = [(_XOR_MAPPED, mapped)]
    if context.rider is not None:
        room = BODY_LIMIT_BYTES - 4 - len(mapped)
        attributes += context.rider.attributes_to_send(_SUCCESS, transaction_id, flow, room, now)
    return build_message(BINDING, _SUCCESS, transaction_id, attributes, integrity_key=key)


def build_error(
    key: IntegrityKey, message: Message, code: int, reason: str, unknown: Sequence[int] = ()
) -> bytes:
    """Return an error response to an authenticated request; nothing rides in it."""
    attributes = [(_ERROR_CODE, encode_error_code(code, reason))]
    if unknown:
        attributes.append((_UNKNOWN, b"".join(kind.to_bytes(2, "big") for kind in unknown)))
    return build_message(
        BINDING, MessageClass.ERROR, message.transaction_id, attributes, integrity_key=key
    )
