"""Clients that come by a relay: out of their envelopes, and into them again on the way back.

    relay ─ envelope ─▶ Enclosed.receive ─ datagram, client ─▶ the port, as from the network
    session ─ to a client that came so ─▶ _RelayedOutlet ─ envelope ─▶ the relay it came by
    relay ─ question ─▶ whether sessions are taken

A port that no relay has spoken to is left as it is, and costs nothing. Called by `io.server`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from instant_connect.envelope import (
    DRAINING,
    TAKING,
    Envelope,
    Way,
    decode_envelope,
    seal_envelope,
)
from instant_connect.keyring import Keyring
from instant_connect.reasons import InstantDiscard
from warp.contract import Address, Flow
from warp.errors import Discard
from warp.io.port import Outlet, Port, raw_address

MAX_CLIENTS: Final = 65_536
"""Whose relay is known: of too many the oldest is forgotten until it is heard of again."""


class Enclosed:
    """The relays of one server's port. Made and called by `InstantServer`."""

    __slots__ = ("_is_taking", "_keyring", "_ways")

    def __init__(self, keyring: Callable[[], Keyring], is_taking: Callable[[], bool]) -> None:
        self._keyring = keyring
        self._is_taking = is_taking
        self._ways: dict[Address, Way] = {}

    def __len__(self) -> int:
        return len(self._ways)

    def receive(self, port: Port, data: bytes, flow: Flow) -> None:
        """Take in what a relay sends; raises `Discard` for what none sends that has our keys."""
        keyring = self._keyring()
        envelope = decode_envelope(data, keyring)
        if envelope.is_back:
            raise Discard(InstantDiscard.BAD_ENVELOPE)
        if envelope.data:
            self.learn(port, envelope.client, Way(flow.remote, envelope.key_id))
            port.receive(envelope.data, raw_address(envelope.client))
        else:
            told = TAKING if self._is_taking() else DRAINING
            answer = envelope._replace(data=told, is_back=True)
            port.send(seal_envelope(answer, keyring), flow.remote)

    def learn(self, port: Port, client: Address, way: Way) -> None:
        """Send to a client by the way that it came last."""
        if self._ways.get(client) != way:
            self._ways.pop(client, None)
            if len(self._ways) >= MAX_CLIENTS:
                del self._ways[next(iter(self._ways))]
            self._ways[client] = way
        if not isinstance(port.sock, _RelayedOutlet):
            port.sock = _RelayedOutlet(port.sock, self)

    def way_to(self, client: Address) -> Way | None:
        """Return how a client is reached that came by a relay, or None."""
        return self._ways.get(client)

    def enclose(self, data: bytes, client: Address, way: Way) -> bytes | None:
        """Return the envelope that a datagram goes back in; None: its keys are long forgotten."""
        envelope = Envelope(client, data, way.key_id, is_back=True)
        try:
            return seal_envelope(envelope, self._keyring())
        except Discard:
            return None


class _RelayedOutlet:
    """A socket that sends to clients the way they came."""

    __slots__ = ("_enclosed", "_inner")

    def __init__(self, inner: Outlet, enclosed: Enclosed) -> None:
        self._inner = inner
        self._enclosed = enclosed

    @property
    def local(self) -> Address:
        return self._inner.local

    def send(self, data: bytes, remote: Address) -> None:
        self._send(self._inner.send, data, remote)

    def send_behind(self, data: bytes, remote: Address) -> None:
        self._send(self._inner.send_behind, data, remote)

    def _send(self, send: Callable[[bytes, Address], None], data: bytes, remote: Address) -> None:
        way = self._enclosed.way_to(remote)
        if way is None:
            send(data, remote)
        elif (sealed := self._enclosed.enclose(data, remote, way)) is not None:
            send(sealed, way.relay)

    def send_run(self, datagrams: Sequence[bytes], remote: Address) -> None:
        way = self._enclosed.way_to(remote)
        if way is None:
            self._inner.send_run(datagrams, remote)
            return
        sealed = [self._enclosed.enclose(data, remote, way) for data in datagrams]
        self._inner.send_run([data for data in sealed if data is not None], way.relay)

    def close(self) -> None:
        self._inner.close()
