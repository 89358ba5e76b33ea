"""What the servers of one port tell each other, in one datagram each.

    Handed ─ a datagram of yours, as it came      Sought ─ a datagram: whoever knows its address
    Owned  ─ that address is mine                 Begun, Ended ─ sessions of tickets that are yours
    Asked  ─ a request by HTTP, on the stream that comes with it

     0       1      2        4
    | kind  | hops | server | flags | local, remote, [relay]: length 1, host, port 2 | datagram
                            | entries of 20 or 8 bytes

The channel is private to the processes of one port (`io.cluster`): whoever can write to it is one
of them. What does not read is dropped all the same. Called by `io.cluster`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from instant_connect.envelope import Way
from instant_connect.guests import Lodging
from instant_connect.reasons import InstantDiscard
from instant_connect.router import Journey
from warp.contract import Address, Flow
from warp.errors import Discard

MAX_ENTRIES: Final = 1_000
"""Of sessions in one message."""
_HEAD: Final = struct.Struct("!BBHB")
_PORT: Final = struct.Struct("!H")
_LODGING: Final = struct.Struct("!8s8sI")
_KEY_BYTES: Final = 8
_HANDED, _SOUGHT, _OWNED, _BEGUN, _ENDED, _ASKED = range(1, 7)
_GRANTED, _RELAYED, _KEY_ID_SHIFT = 1, 2, 4
_NOBODY: Final = 0xFFFF


class Handed(NamedTuple):
    """A datagram for the receiver. `way` is how its client is reached, where a relay is between."""

    data: bytes
    flow: Flow
    journey: Journey
    way: Way | None = None


class Sought(NamedTuple):
    """A datagram for whoever knows its flow. `server` has it from the network."""

    server: int
    data: bytes
    flow: Flow
    way: Way | None = None


class Owned(NamedTuple):
    """`server` has the session of a flow."""

    server: int
    flow: Flow


class Begun(NamedTuple):
    """Sessions that live at `server`, of tickets that the receiver is asked about."""

    server: int
    lodgings: tuple[Lodging, ...]


class Ended(NamedTuple):
    """Sessions that lived at `server` and have ended, by attempt."""

    server: int
    keys: tuple[bytes, ...]


class Asked(NamedTuple):
    """A request for the receiver, from `server`. The stream comes beside the message."""

    server: int


Message: TypeAlias = Handed | Sought | Owned | Begun | Ended | Asked


def encode_handover(message: Message) -> bytes:
    """Return a message as one datagram."""
    if isinstance(message, Handed):
        journey = message.journey
        flags = _GRANTED if journey.granted else 0
        entry = _NOBODY if journey.entry is None else journey.entry
        head = (_HANDED, journey.hops, entry, flags)
        return _with_datagram(head, message.flow, message.way, message.data)
    if isinstance(message, Sought):
        head = (_SOUGHT, 0, message.server, 0)
        return _with_datagram(head, message.flow, message.way, message.data)
    if isinstance(message, Owned):
        return _with_datagram((_OWNED, 0, message.server, 0), message.flow, None, b"")
    if isinstance(message, Begun):
        entries = [_LODGING.pack(*lodging) for lodging in message.lodgings]
        return _HEAD.pack(_BEGUN, 0, message.server, 0) + b"".join(entries)
    if isinstance(message, Ended):
        return _HEAD.pack(_ENDED, 0, message.server, 0) + b"".join(message.keys)
    return _HEAD.pack(_ASKED, 0, message.server, 0)


def _with_datagram(
    head: tuple[int, int, int, int], flow: Flow, way: Way | None, data: bytes
) -> bytes:
    kind, hops, server, flags = head
    addresses = [flow.local, flow.remote]
    if way is not None:
        flags |= _RELAYED | way.key_id << _KEY_ID_SHIFT
        addresses.append(way.relay)
    parts = [_HEAD.pack(kind, hops, server, flags)]
    for host, port in addresses:
        name = host.encode("ascii")
        parts += [bytes((len(name),)), name, _PORT.pack(port)]
    return b"".join([*parts, data])


def decode_handover(raw: bytes) -> Message:
    """Return the message of a datagram; raises `Discard` and nothing else."""
    if len(raw) < _HEAD.size:
        raise Discard(InstantDiscard.BAD_HANDOVER)
    kind, hops, server, flags = _HEAD.unpack_from(raw)
    body = raw[_HEAD.size :]
    if kind in (_HANDED, _SOUGHT, _OWNED):
        local, body = _take_address(body)
        remote, body = _take_address(body)
        way = None
        if flags & _RELAYED:
            relay, body = _take_address(body)
            way = Way(relay, flags >> _KEY_ID_SHIFT)
        flow = Flow(local, remote)
        if kind == _OWNED:
            return Owned(server, flow)
        if kind == _SOUGHT:
            return Sought(server, body, flow, way)
        journey = Journey(hops, None if server == _NOBODY else server, bool(flags & _GRANTED))
        return Handed(body, flow, journey, way)
    if kind == _BEGUN and len(body) % _LODGING.size == 0:
        return Begun(server, tuple(Lodging(*entry) for entry in _LODGING.iter_unpack(body)))
    if kind == _ENDED and len(body) % _KEY_BYTES == 0:
        keys = [body[at : at + _KEY_BYTES] for at in range(0, len(body), _KEY_BYTES)]
        return Ended(server, tuple(keys))
    if kind == _ASKED and not body:
        return Asked(server)
    raise Discard(InstantDiscard.BAD_HANDOVER)


def _take_address(body: bytes) -> tuple[Address, bytes]:
    size = body[0] if body else 0
    end = 1 + size
    if not size or len(body) < end + _PORT.size:
        raise Discard(InstantDiscard.BAD_HANDOVER)
    try:
        host = body[1:end].decode("ascii")
    except UnicodeDecodeError:
        raise Discard(InstantDiscard.BAD_HANDOVER) from None
    (port,) = _PORT.unpack_from(body, end)
    return (host, port), body[end + _PORT.size :]
