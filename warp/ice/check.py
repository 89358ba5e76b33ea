"""Binding requests and responses as ICE reads and writes them (RFC 8445 sections 7.1 to 7.3)."""

from __future__ import annotations

import struct
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
    encode_attributes,
    encode_error_code,
    encode_type,
    encode_xor_address,
    seal_message,
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
_REQUEST_TYPE: Final = encode_type(BINDING, _REQUEST)
_SUCCESS_TYPE: Final = encode_type(BINDING, _SUCCESS)

# attributes of one length, with their header
_ROLE_FORM: Final = struct.Struct("!HHQ")
_PRIORITY_FORM: Final = struct.Struct("!HHI")
_NOMINATION: Final = encode_attributes([(_USE_CANDIDATE, b"")])

_UNDERSTOOD: Final = frozenset(
    {
        Attribute.MAPPED_ADDRESS, _USERNAME, Attribute.MESSAGE_INTEGRITY, _ERROR_CODE, _UNKNOWN,
        Attribute.REALM, Attribute.NONCE, Attribute.MESSAGE_INTEGRITY_SHA256, _XOR_MAPPED,
        _PRIORITY, _USE_CANDIDATE,
    }
)  # fmt: skip
_FIRST_OPTIONAL = 0x8000  # RFC 8489 section 14: from here on unknown attributes are ignored
_USUAL: Final = _UNDERSTOOD.union(kind for kind in Attribute if kind >= _FIRST_OPTIONAL)


class CheckRequest:
    """What a generation's paths need of a peer's authenticated Binding request."""

    __slots__ = ("priority", "transaction_id", "use_candidate")

    def __init__(self, message: Message) -> None:
        values = message.values
        self.transaction_id = message.transaction_id
        self.use_candidate = _USE_CANDIDATE in values
        priority = values.get(_PRIORITY)
        self.priority = None if priority is None else int.from_bytes(priority[:4], "big")


def unknown_required(message: Message) -> list[int]:
    """Return the types, as they came, without which a message is not understood (section 6.3)."""
    if _USUAL.issuperset(message.values):
        return []
    required = [kind for kind, _ in message.attributes if kind < _FIRST_OPTIONAL]
    return [kind for kind in required if kind not in _UNDERSTOOD]


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
    role = _CONTROLLING if context.role is IceRole.CONTROLLING else _CONTROLLED
    body = keys.username_attribute + _ROLE_FORM.pack(role, 8, context.tie_breaker)
    if nominates:
        body += _NOMINATION
    body += _PRIORITY_FORM.pack(_PRIORITY, 4, pair.check_priority)
    if context.rider is not None:
        room = BODY_LIMIT_BYTES - len(body)
        if plain:
            room = min(room, PLAIN_ROOM_BYTES)
        body += encode_attributes(
            context.rider.attributes_to_send(_REQUEST, transaction_id, pair.flow, room, now)
        )
    return seal_message(_REQUEST_TYPE, transaction_id, body, keys.remote_key)


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
    return seal_message(_SUCCESS_TYPE, transaction_id, encode_attributes(attributes), key)


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
