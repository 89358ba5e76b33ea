"""One call of a probe: offer, answer, the start, a moment of speech, goodbye.

    open_call ─ answer ─▶ PeerConnection + Wire ─▶ connected? channel? media? ─▶ close, DELETE

Called by `run`, one call after another. What was seen is an `Attempt`; what it means is told by
`observe`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import urllib.parse
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from instant_connect.client import InstantCall
from warp.crypto import Certificate
from warp.datachannel import ChannelConfig, ChannelOpened
from warp.entropy import SystemEntropy
from warp.errors import InvalidConfig, UsageError, WarpError
from warp.peer import ConnectionState, PeerConnection, Terminated
from warp.sdp import SessionDescription, parse_description
from warp.trace import MemoryTrace
from warp_tools.audio import packaged_sound
from warp_tools.decrypt import KeyLog
from warp_tools.failure import CommandRefused, ToolFailure
from warp_tools.opus import FRAME_SAMPLES, encoded
from warp_tools.probe.door import open_door
from warp_tools.probe.instant import Ticket
from warp_tools.probe.plan import ProbeConfig, Trial
from warp_tools.probe.wire import Note, Wire
from warp_tools.signalling import HttpCall

CHANNEL: Final = "warp-probe"
_FRAME_S: Final = 0.02
_SILENCE: Final = bytes((0xF8, 0xFF, 0xFE))


@dataclass(slots=True)
class Attempt:
    """What one call was, and what was seen of it. Times are seconds of the event loop's clock."""

    trial: Trial
    offer: str = ""
    answer: str = ""
    description: SessionDescription | None = None
    asked_at: float = 0.0
    answered_at: float = 0.0
    connected_at: float | None = None
    channel_at: float | None = None
    error: str = ""
    """Why it did not connect, or ended early."""
    instant: str = ""
    """What signalling said of a call by its first datagram (`Instant-Status`)."""
    url: str = ""
    """Where the offer was answered: the address that was given, or one that it led to."""
    location: bool = False
    """Whether the answer said where the session can be ended (RFC 9725 section 4.2)."""
    notes: list[Note] = field(default_factory=list)
    keylog: KeyLog = field(default_factory=KeyLog)
    stats: dict[str, Any] = field(default_factory=dict)
    trace: MemoryTrace = field(default_factory=MemoryTrace)

    @property
    def heard(self) -> bool:
        """Whether anything at all came over UDP."""
        return any(not note.sent for note in self.notes)


async def attempt(
    trial: Trial,
    config: ProbeConfig,
    certificate: Certificate,
    hold_s: float,
    ticket: Ticket | None = None,
) -> Attempt:
    """Place one call, by its first datagram with a ticket.

    Raises ToolFailure, one line, when the endpoint does not answer it.
    """
    done = Attempt(trial)
    peer = PeerConnection(
        trial.peer(config),
        certificate=certificate,
        entropy=SystemEntropy(),
        trace=done.trace,
        keylog=lambda line: done.keylog.add_line(line, 0),
    )
    wire = Wire(peer, trial, config.delay_s)
    done.notes = wire.notes
    loop = asyncio.get_running_loop()
    try:
        _open(wire, config)
        done.offer = peer.create_offer(loop.time())
        peer.set_local_description("offer", done.offer, loop.time())
        done.asked_at = loop.time()
        made = None if ticket is None else ticket.compose(done.offer, certificate)
        asking = asyncio.ensure_future(_asked(config, done, made))
        try:
            done.answer = (await asking).answer if made is None else made.answer
            done.answered_at = loop.time()
            _take_answer(peer, done, config)
            await _Call(peer, wire, done, config).hold(hold_s)
        finally:
            peer.close(loop.time())
            await wire.close()
            await _hang_up(asking, done)
    except UsageError as error:
        raise ToolFailure(str(error)) from error
    finally:
        with contextlib.suppress(WarpError):
            done.stats = peer.stats()
        await wire.close()
    return done


def _open(wire: Wire, config: ProbeConfig) -> None:
    try:
        wire.open(config.host, loopback=_is_loopback(config.url))
    except UsageError as error:
        raise CommandRefused(str(error)) from error


async def _asked(config: ProbeConfig, done: Attempt, made: InstantCall | None) -> HttpCall:
    """Take the offer to the endpoint: for its answer, or beside a call that has begun."""
    headers = None if made is None else made.headers()
    call = await open_door(config.url, done.offer, token=config.token, headers=headers)
    done.url = call.url
    done.location, done.instant = bool(call.location), call.status if made is not None else ""
    return call


async def _hang_up(asking: asyncio.Future[HttpCall], done: Attempt) -> None:
    """End the call by HTTP, once its place is known; what went wrong was told already."""
    try:
        call = await asking
    except ToolFailure as failure:
        done.error = done.error or str(failure)
        return
    await call.hang_up()


def _take_answer(peer: PeerConnection, done: Attempt, config: ProbeConfig) -> None:
    try:
        done.description = parse_description(done.answer)
        peer.set_remote_description("answer", done.answer, asyncio.get_running_loop().time())
    except InvalidConfig as error:
        if not done.answer.strip():
            raise ToolFailure(f"{config.url} accepts the offer and returns nothing") from error
        begins = " ".join(done.answer[:40].split())
        what = f"what {config.url} returns is no usable session description"
        raise ToolFailure(f"{what}: {error} (it begins {begins!r})") from error


class _Call:
    """A call that was answered: waits for what it is about, and speaks."""

    def __init__(
        self, peer: PeerConnection, wire: Wire, done: Attempt, config: ProbeConfig
    ) -> None:
        self._peer = peer
        self._wire = wire
        self._done = done
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._at = 0

    async def hold(self, hold_s: float) -> None:
        """Let it start, go on for `hold_s`, or end as it will."""
        loop, peer = self._loop, self._peer
        description = self._done.description
        if description is not None and description.data_section() is not None:
            peer.create_channel(ChannelConfig(label=CHANNEL), loop.time())
        self._wire.flush()
        speech = asyncio.ensure_future(self._speak())
        try:
            await self._until(lambda: self._over or self._done.connected_at is not None)
            await self._until(lambda: self._over, hold_s)
        finally:
            speech.cancel()
            await asyncio.gather(speech, return_exceptions=True)

    @property
    def _over(self) -> bool:
        return bool(self._done.error) or self._wire.spent

    async def _until(self, done: Any, timeout_s: float | None = None) -> None:
        """Wait for something; without a timeout the connection's own patience ends it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not done():
                    self._wire.changed.clear()
                    self._read_events()
                    if done():
                        return
                    await self._wire.changed.wait()

    def _read_events(self) -> None:
        now = self._loop.time()
        for event in self._peer.events():
            if isinstance(event, ChannelOpened) and self._done.channel_at is None:
                self._done.channel_at = now
            elif isinstance(event, Terminated):
                self._done.error = str(event.error or "the server hung up")
        if self._peer.state is ConnectionState.CONNECTED and self._done.connected_at is None:
            self._done.connected_at = now

    async def _speak(self) -> None:
        """Send frames in real time, from the moment on that they may leave."""
        payloads = speech() if self._done.trial.speaks else ()
        start, sent = self._loop.time(), 0
        while not self._over:
            payload = payloads[sent] if sent < len(payloads) else _SILENCE
            timestamp = round((self._loop.time() - start) / _FRAME_S) * FRAME_SAMPLES
            if self._peer.send_audio(payload, timestamp, self._loop.time(), marker=not sent):
                sent += 1
                self._wire.flush()
            await asyncio.sleep(_FRAME_S)


@lru_cache(maxsize=1)
def speech() -> tuple[bytes, ...]:
    """Return what a probe says: the packaged recording, in Opus."""
    return tuple(encoded(packaged_sound("speech")))


def _is_loopback(url: str) -> bool:
    """Tell whether the endpoint is on this machine, where loopback candidates are of use."""
    host = urllib.parse.urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
