"""What an agent does with a Binding request or an answer (RFC 8445 sections 7.2.5 and 7.3).

    request ─▶ USERNAME ─▶ MESSAGE-INTEGRITY ─▶ role conflict? ─▶ Paths ─▶ rider ─▶ response
    answer ──▶ open check ─▶ MESSAGE-INTEGRITY ─▶ same flow? ──▶ Paths ─▶ rider

Functions without state of their own; called by `agent`. They raise `Discard`.
"""

from __future__ import annotations

from typing import Final

from warp.contract import Flow
from warp.errors import Discard
from warp.ice.check import (
    CheckRequest,
    build_error,
    build_success,
    unknown_required,
)
from warp.ice.config import IceRole
from warp.ice.context import IceContext, IceDiscard
from warp.ice.generation import Generations
from warp.stun import Attribute, Message, decode_error_code, decode_xor_address

_USERNAME: Final = int(Attribute.USERNAME)
_XOR_MAPPED: Final = int(Attribute.XOR_MAPPED_ADDRESS)
_CONTROLLED: Final = int(Attribute.ICE_CONTROLLED)
_CONTROLLING: Final = int(Attribute.ICE_CONTROLLING)
_UNKNOWN_ATTRIBUTE = 420
_ROLE_CONFLICT = 487
_PASSING_ERRORS = frozenset({401, 420, 430, 438, 500})
"""Errors that may pass by themselves: the next check tries again. All others end the pair."""


def receive_request(
    context: IceContext, generations: Generations, message: Message, flow: Flow, now: float
) -> None:
    """Authenticate, then act, then let the rider act, then answer on the same flow."""
    username = message.values.get(_USERNAME)
    if username is None:
        raise Discard(IceDiscard.NO_USERNAME)
    generation = generations.admit(username)
    key = generation.keys.local_key
    # nothing is answered before this point: no oracle, no amplifier, no state
    if not message.verify_integrity(key):
        raise Discard(IceDiscard.WRONG_INTEGRITY)
    if unknown := unknown_required(message):
        answer = build_error(key, message, _UNKNOWN_ATTRIBUTE, "Unknown Attribute", unknown)
    elif _loses_conflict(context, generations, message, now):
        answer = build_error(key, message, _ROLE_CONFLICT, "Role Conflict")
    else:
        generation.paths.receive_request(CheckRequest(message), flow, now)
        if context.rider is not None:
            context.rider.receive_attributes(message, flow, now)
        answer = build_success(context, key, message, flow, now)
    context.outbox.append((answer, flow))


def _loses_conflict(
    context: IceContext, generations: Generations, message: Message, now: float
) -> bool:
    """Repair a role conflict (RFC 8445 section 7.3.1.1); tell whether the peer must switch."""
    controlling = context.role is IceRole.CONTROLLING
    value = message.values.get(_CONTROLLING if controlling else _CONTROLLED)
    if value is None:
        return False
    theirs = int.from_bytes(value[:8], "big")
    if controlling:
        if context.tie_breaker >= theirs:
            return True
    # a lite agent cannot control: the peer has to
    elif context.config.lite or context.tie_breaker < theirs:
        return True
    generations.switch_role(now)
    return False


def receive_success(
    context: IceContext, generations: Generations, message: Message, flow: Flow, now: float
) -> None:
    """Take a success response to one of our checks."""
    generation, check = generations.open_check(message)
    if flow != check.pair.flow:
        # RFC 8445 section 7.2.5.2.1 fails the pair at once. Whoever sees our datagrams could then
        # end a call with one copy that overtakes the answer; a pair that is never answered on its
        # own flow fails when its time is over
        raise Discard(IceDiscard.ASYMMETRIC_ANSWER)
    value = message.values.get(_XOR_MAPPED)
    mapped = None if value is None else decode_xor_address(value, message.transaction_id)
    generation.paths.receive_success(message.transaction_id, check, mapped, now)
    if context.rider is not None:
        context.rider.receive_attributes(message, flow, now)


def receive_error(
    context: IceContext, generations: Generations, message: Message, now: float
) -> None:
    """Take an error response to one of our checks; nothing rides in it."""
    generation, check = generations.open_check(message)
    code, _ = decode_error_code(message.get(Attribute.ERROR_CODE) or b"")
    if code == _ROLE_CONFLICT:
        if context.role is check.role and not generation.keys.remote_is_lite:
            generations.switch_role(now)
            context.draw_tie_breaker()
        generation.paths.receive_conflict(message.transaction_id, check, now)
    elif code not in _PASSING_ERRORS:
        generation.paths.receive_refusal(message.transaction_id, check, now)
