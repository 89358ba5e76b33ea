"""One live session at work: its rules (`live.session`), its voice, its doors, its helper.

    client's text ─▶ LiveSession ─ commands ─▶ voice, line, Delegates
    voice's events, what was played ─▶ LiveSession ─ outgoing ─▶ doors

All of it is the asyncio thread's; the voice and its line are the media loop's own. Whatever
happens, `_end` runs once and gives everything back: helper, voice, doors, media.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from voice_backend.delegation import DelegationConfig, Helper, Tell
from voice_backend.io.delegates import Delegates
from voice_backend.io.live_door import FLUSH_S, Door, Write
from voice_backend.io.live_line import SocketLine
from voice_backend.io.voice import Voice
from voice_backend.io.voices import Voices
from voice_backend.live import DoorKind, LiveConfig, LiveSession, Phase
from voice_backend.live.commands import (
    AddItem,
    Command,
    GoOn,
    Hear,
    Leave,
    Mute,
    OpenVoice,
    Reconfigure,
    TurnEnded,
    Work,
)
from voice_backend.live.outbox import Outgoing
from voice_backend.live.server_events import CloseReason
from voice_backend.live.shapes import JsonObject, ResponsesBackend
from voice_backend.model import Inject, NoCapacity
from voice_backend.seat import Failed, VoiceEvent
from warp.errors import WarpError
from warp.io import Session

_log = logging.getLogger(__name__)
PLAYED_INTERVAL_S: Final = 0.1
CHANNEL_FLUSH_S: Final = 1.0
MAX_EARLY: Final = 100


class LiveHelper(Helper, Protocol):
    """A helper whose tools are the client's: it waits for their results."""

    def add_item(self, item: JsonObject) -> None:
        """Add an item to what the service is asked with."""

    def go_on(self) -> None:
        """Ask again, with the items that were added."""

    def reconfigure(self, backend: ResponsesBackend) -> None:
        """Ask otherwise from now on."""


MakeHelper = Callable[[ResponsesBackend], LiveHelper]


class LiveRun:
    """Made by `LiveHouse`. `media` is the call of a session that has one."""

    def __init__(
        self,
        ident: str,
        voices: Voices,
        config: LiveConfig,
        make_helper: MakeHelper | None,
        media: Session | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._voices = voices
        self._make_helper = make_helper
        self._media = media
        self._doors: dict[int, Door] = {}
        self._voice: Voice | None = None
        self._helper: LiveHelper | None = None
        self._delegates: Delegates | None = None
        self._early: list[VoiceEvent] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self.session = LiveSession(ident, config, wall_s=time.time(), now=self._loop.time())
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when everything is given back."""
        if media is not None:
            media.closed.add_done_callback(lambda ending: self._lose(ending.result()))
        self.pump()

    @property
    def voice(self) -> Voice | None:
        """The voice, once it is open."""
        return self._voice

    # -- doors ----------------------------------------------------------------------------------

    def attach(self, kind: DoorKind, write: Write) -> int:
        """Add a connection; returns its number."""
        # a call may have no channel for events at all: nothing is waited for long there
        door = Door(write, CHANNEL_FLUSH_S if kind is DoorKind.CHANNEL else FLUSH_S)
        number = self.session.attach(kind)
        self._doors[number] = door
        door.ended.add_done_callback(lambda _: self.detach(number))
        self.pump()
        return number

    def detach(self, number: int) -> None:
        """A connection is gone. Harmless when repeated."""
        door = self._doors.pop(number, None)
        if door is not None:
            self._start(door.close())
            self.session.detach(number)
            self.pump()

    def receive_text(self, number: int, text: str | bytes) -> None:
        """Take what a client sent."""
        self.session.receive_text(number, text, self._loop.time())
        self.pump()

    def close(self, reason: CloseReason) -> None:
        """End the session."""
        self.session.close(reason)
        self.pump()

    # -- what is to be done ---------------------------------------------------------------------

    def pump(self) -> None:
        """Do what the session wants done, and send what it says."""
        while commands := self.session.commands():
            for command in commands:
                self._do(command)
        for outgoing in self.session.outgoing():
            door = self._doors.get(outgoing.door)
            if door is not None:
                self._send(door, outgoing)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        moment = self.session.get_timer()
        if moment is not None:
            self._timer = self._loop.call_at(moment, self._handle_timer)

    def _send(self, door: Door, outgoing: Outgoing) -> None:
        try:
            text = outgoing.json()
        except ValueError as error:
            # an application's voice or helper said it; what others say goes on
            kind, fault = outgoing.event.type, type(error).__name__
            _log.warning("live session %s: a %s is no JSON: %s", self.session.id, kind, fault)
            return
        door.send(text)

    def _do(self, command: Command) -> None:
        match command:
            case Hear(sound, early):
                line = self._voice.line if self._voice is not None else None
                if isinstance(line, SocketLine):
                    line.hear(sound, early=early)
            case OpenVoice():
                self._start(self._open(command))
            case Mute(muted):
                line = self._voice.line if self._voice is not None else None
                if line is not None and hasattr(line, "muted"):
                    line.muted = muted
            case Tell(kind, text, ident):
                self._tell(kind, text, ident)
            case Work(request):
                if self._delegates is not None:
                    self._delegates.delegate(request)
            case TurnEnded():
                if self._delegates is not None:
                    self._delegates.turn_ended()
            case AddItem(item):
                if self._helper is not None:
                    self._helper.add_item(item)
            case GoOn():
                if self._helper is not None:
                    self._helper.go_on()
            case Reconfigure(backend):
                if self._helper is not None:
                    self._helper.reconfigure(backend)
            case Leave():
                self._ending = self._loop.create_task(self._end())

    def _handle_timer(self) -> None:
        self._timer = None
        self.session.handle_timer(self._loop.time())
        self.pump()

    def _tell(self, kind: Inject, text: str, delegation_id: str | None) -> None:
        # a voice that has just ended cannot be told anything, and need not
        with contextlib.suppress(WarpError):
            if self._voice is not None:
                self._voice.inject(kind, text, delegation_id)

    def _tell_from_helper(self, kind: Inject, text: str, delegation_id: str | None) -> None:
        self.session.receive_told()
        self._tell(kind, text, delegation_id)

    # -- the voice ------------------------------------------------------------------------------

    async def _open(self, command: OpenVoice) -> None:
        try:
            if self._media is not None:
                # a place is for those who are there: an offer alone takes none
                self._voices.require_room()
                await self._voices.prove(self._media)
            voice = self._voices.reserve(command.config, self._receive_voice)
            self._voice = voice
            if self._media is not None:
                # what failed is told over the call's own channel first: `_end` ends the call
                await self._voices.attend(self._media, voice=voice, outlive=True)
            else:
                info = self._voices.info
                line = SocketLine(info, command.format, voice.receive, self._send_sound)
                await self._voices.join(line, voice)
        except NoCapacity as error:
            self.session.receive_refused("session_capacity", str(error))
            self.pump()
            return
        except WarpError as error:
            _log.info("live session %s has no voice: %s", self.session.id, error)
            self.session.receive_refused("connection_failed", "the session could not be opened")
            self.pump()
            return
        try:
            self._open_helper(command)
        except Exception as error:
            # it is an application's own: what it says is for our log only
            _log.warning("live session %s has no helper: %r", self.session.id, error)
            message = "the service that works for the session cannot be asked"
            self.session.receive_refused("delegation_failed", message)
            self.pump()
            return
        self.session.receive_opened(self._loop.time())
        early, self._early = self._early, []
        for event in early:
            self._receive_voice(event)
        self._tick()

    def _open_helper(self, command: OpenVoice) -> None:
        if command.backend is None or self._make_helper is None:
            return
        self._helper = self._make_helper(command.backend)
        self._delegates = Delegates(
            self._helper,
            self._tell_from_helper,
            config=DelegationConfig(acknowledge_after_s=command.acknowledge_after_s),
            passed_on=self._pass_on,
        )
        self._delegates.open(command.config.instructions)

    def _pass_on(self, delegation_id: str, event: dict[str, object]) -> None:
        self.session.receive_response(delegation_id, event)
        self.pump()

    def _tick(self) -> None:
        voice = self._voice
        if voice is None or self.ended.done():
            return
        self.session.receive_played(voice.position_ms, voice.usage_ratio)
        self._ticker = self._loop.call_later(PLAYED_INTERVAL_S, self._tick)
        self.pump()

    def _receive_voice(self, event: VoiceEvent) -> None:
        if self.session.phase is Phase.OPENING and len(self._early) < MAX_EARLY:
            # the voice may speak before we have heard that it is open
            self._early.append(event)
        elif isinstance(event, Failed):
            self.session.receive_refused("voice_failed", event.reason)
        else:
            self.session.receive_voice(event, self._loop.time())
        self.pump()

    def _send_sound(self, sound: bytes | None) -> None:
        if self.session.phase is not Phase.ACTIVE:
            return  # nothing comes after session.closed, and nothing before session.started
        text = ""
        if sound is not None:
            delta = base64.b64encode(sound).decode()
            text = f'{{"type":"session.output_audio.delta","delta":"{delta}"}}'
        for number, door in list(self._doors.items()):
            if self.session.kind_of(number) is not DoorKind.SOCKET:
                continue
            if sound is None:
                door.flush_sound()
            else:
                door.sound(text)

    # -- the end --------------------------------------------------------------------------------

    def _lose(self, error: WarpError | None) -> None:
        self.close("remote_hangup" if error is None else "connection_lost")

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self) -> None:
        for handle in (self._timer, self._ticker):
            if handle is not None:
                handle.cancel()
        self._timer = self._ticker = None
        if self._delegates is not None:
            await self._delegates.close()
        if self._voice is not None:
            await self._voice.close()
        doors, self._doors = list(self._doors.values()), {}
        await asyncio.gather(*[door.close() for door in doors])
        if self._media is not None:
            await self._media.close()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=PLAYED_INTERVAL_S)
        if not self.ended.done():
            self.ended.set_result(None)
