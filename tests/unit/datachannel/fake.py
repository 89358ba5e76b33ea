"""Two associations without a network: what one sends, the other has, unless held back.

Stands in for `warp.sctp.Association` where a test is about the registry alone.
"""

from __future__ import annotations

from typing import Any

from warp.datachannel import ChannelRegistry, RegistryConfig
from warp.sctp import Established, ResetResult, StreamsReset, StreamsResetFailed, Terminated


class FakeAssociation:
    def __init__(self) -> None:
        self.peer: FakeAssociation = self
        self.sent: list[tuple[int, int, bytes, dict[str, Any]]] = []
        self.resets: list[list[int]] = []
        self.held: list[tuple[int, int, bytes]] = []
        self.hold = False
        self.can_reset = True
        self.answers_resets = True
        self.aborted = False
        self.established = True
        self.inbox: list[tuple[int, int, bytes]] = []
        self.happened: list[Any] = []

    def send_message(self, stream_id: int, ppid: int, data: bytes, now: float, **how: Any) -> None:
        self.sent.append((stream_id, int(ppid), data, how))
        if self.hold:
            self.held.append((stream_id, int(ppid), data))
        else:
            self.peer.inbox.append((stream_id, int(ppid), data))

    def release(self, count: int | None = None) -> None:
        """Let held messages reach the peer."""
        count = len(self.held) if count is None else count
        self.peer.inbox += self.held[:count]
        self.held = self.held[count:]

    def buffered_amount(self, stream_id: int) -> int:
        return sum(len(data) for held, _, data in self.held if held == stream_id)

    def reset_streams(self, stream_ids: list[int], now: float) -> None:
        ids = tuple(stream_ids)
        self.resets.append(list(ids))
        if not self.can_reset:
            self.happened.append(StreamsResetFailed(ids, ResetResult.DENIED))
            return
        self.release()
        self.peer.happened.append(StreamsReset(ids, incoming=True))
        if self.answers_resets:
            self.happened.append(StreamsReset(ids, incoming=False))

    @property
    def has_news(self) -> bool:
        return bool(self.happened or self.inbox)

    def events(self) -> list[Any]:
        happened, self.happened = self.happened, []
        return happened

    def messages(self) -> list[tuple[int, int, bytes]]:
        inbox, self.inbox = self.inbox, []
        return inbox

    def establish(self, streams: int = 65535) -> None:
        self.happened.append(Established(streams, streams))

    def terminate(self, error: Any) -> None:
        self.happened.append(Terminated(error))

    def receive_datagram(self, data: bytes, now: float) -> None:
        raise AssertionError("no datagrams in this test")

    def datagrams_to_send(self, now: float) -> list[bytes]:
        return []

    def get_timer(self) -> float | None:
        return None

    def handle_timer(self, now: float) -> None:
        return None

    def abort(self, now: float, *reason: Any) -> None:
        self.aborted = True


class Side:
    """A registry on a fake association, with what it has said so far."""

    def __init__(self, *, is_client: bool | None, config: RegistryConfig | None = None) -> None:
        self.association = FakeAssociation()
        self.registry = ChannelRegistry(self.association, config, is_dtls_client=is_client)
        self.said: list[Any] = []

    def turn(self, now: float = 0.0) -> list[Any]:
        self.registry.receive(now)
        new = self.registry.events()
        self.said += new
        return new

    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.said]


def pair(*, established: bool = True, config: RegistryConfig | None = None) -> tuple[Side, Side]:
    """A DTLS client and a DTLS server."""
    client, server = Side(is_client=True, config=config), Side(is_client=False, config=config)
    client.association.peer, server.association.peer = server.association, client.association
    if established:
        for side in (client, server):
            side.association.establish()
            side.turn()
    return client, server


def settle(*sides: Side, now: float = 0.0) -> None:
    """Let both sides take turns until nothing new happens."""
    while any(side.association.inbox or side.association.happened for side in sides):
        for side in sides:
            side.turn(now)
    for side in sides:
        side.turn(now)
