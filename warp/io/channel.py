"""A data channel as an asyncio object: send with back-pressure, iterate over what comes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from warp import datachannel
from warp.errors import UsageError

if TYPE_CHECKING:
    from warp.io.session import Session

LOW_WATER_BYTES = 256 * 1024
HIGH_WATER_BYTES = 1024 * 1024
MAX_BUFFERED_BYTES = 16 * 1024 * 1024  # as browsers
MAX_QUEUED_BYTES = 16 * 1024 * 1024
MIN_COST = 64  # bytes that an unread message counts for, an empty one as well


class ChannelClosedError(UsageError):
    """The channel has ended; nothing can be sent on it."""


class Channel:
    """A pre-negotiated or DCEP channel: `send`, `await drain()`, `async for message in channel`.

    Messages are `str` or `bytes`. What nobody reads is kept up to 16 MiB; then the channel is
    closed, as browsers do.
    """

    __slots__ = ("_bytes", "_inner", "_messages", "_session", "_waiters")

    def __init__(self, session: Session, inner: datachannel.Channel) -> None:
        self._session = session
        self._inner = inner
        self._messages: deque[str | bytes] = deque()
        self._bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        inner.buffered_amount_low_threshold = LOW_WATER_BYTES

    @property
    def label(self) -> str:
        """The label both ends know it by."""
        return self._inner.config.label

    @property
    def protocol(self) -> str:
        """The sub-protocol, as announced."""
        return self._inner.config.protocol

    @property
    def ordered(self) -> bool:
        """Whether messages are delivered in the order they were sent in."""
        return self._inner.config.ordered

    @property
    def max_retransmits(self) -> int | None:
        """How often a message is repeated before it is given up; None: until it arrives."""
        return self._inner.config.max_retransmits

    @property
    def max_packet_lifetime_s(self) -> float | None:
        """For how long a message is repeated before it is given up; None: until it arrives."""
        return self._inner.config.max_packet_lifetime_s

    @property
    def stream_id(self) -> int | None:
        """The SCTP stream id; None before the DTLS roles are known (RFC 8832 section 6)."""
        return self._inner.stream_id

    @property
    def state(self) -> datachannel.ChannelState:
        """Where the channel stands: connecting, open, closing or closed."""
        return self._inner.state

    @property
    def buffered_amount(self) -> int:
        """Bytes accepted by `send` and not yet handed to the network."""
        return self._inner.buffered_amount

    async def opened(self) -> None:
        """Wait until the channel is open; raises `ChannelClosedError` if it closes instead."""
        while (
            self._inner.state is datachannel.ChannelState.CONNECTING
            and not self._session.closed.done()
        ):
            await self._wait()
        if self._inner.state is not datachannel.ChannelState.OPEN:
            raise ChannelClosedError(f"channel {self.label!r} is {self._inner.state.value}")

    def send(self, message: str | bytes) -> None:
        """Queue a message: `str` as text, bytes as binary.

        Raises `MessageTooLarge` beyond what the peer accepts, `InvalidState` unless open and
        `UsageError` for what is neither text nor bytes, and when 16 MiB wait already.
        """
        if self._inner.buffered_amount >= MAX_BUFFERED_BYTES:
            raise UsageError(
                f"channel {self.label!r} has {self._inner.buffered_amount} bytes waiting: "
                "await drain() between messages"
            )
        self._inner.send(message, self._session.driver.loop.time())
        self._session.driver.flush_soon(self._session)

    async def drain(self) -> None:
        """Wait while more than 1 MiB is buffered, until less than 256 KiB is."""
        if self._inner.buffered_amount <= HIGH_WATER_BYTES:
            return
        while (
            self._inner.state is datachannel.ChannelState.OPEN
            and self._inner.buffered_amount > LOW_WATER_BYTES
            and not self._session.closed.done()
        ):
            await self._wait()

    def close(self) -> None:
        """Close once everything queued has been sent (RFC 8831 section 6.7)."""
        self._inner.close(self._session.driver.loop.time())
        self._session.driver.flush_soon(self._session)

    def __aiter__(self) -> Channel:
        return self

    async def __anext__(self) -> str | bytes:
        while not self._messages:
            if self._is_closed():
                raise StopAsyncIteration
            await self._wait()
        message = self._messages.popleft()
        self._bytes -= max(len(message), MIN_COST)
        return message

    def take(self) -> list[str | bytes]:
        """Return the messages that have arrived, without waiting."""
        messages = list(self._messages)
        self._messages.clear()
        self._bytes = 0
        return messages

    def _is_closed(self) -> bool:
        return self._inner.state is datachannel.ChannelState.CLOSED or self._session.closed.done()

    async def _wait(self) -> None:
        waiter = self._session.driver.loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            # whoever polls with a timeout leaves nothing behind
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _receive(self, message: str | bytes) -> None:
        self._messages.append(message)
        self._bytes += max(len(message), MIN_COST)
        if self._bytes > MAX_QUEUED_BYTES:
            self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
