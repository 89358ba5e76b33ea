"""A live session (`/v1/live/sessions`): commands of its clients in, events to them out.

    WebSocket  NEW ─ session.start ─▶ OPENING ─ voice open ─▶ ACTIVE ─ close, expiry .. ─▶ CLOSED
    media            (its offer) ───▶ OPENING
    sidebands attach and detach meanwhile; session.closed is the last event

Sans-IO: whoever runs it gives it text and the voice's events, does its `commands()` and sends its
`outgoing()`. A refused command is an `error` event with `client_event_id`; it ends nothing.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from voice_backend.live.appending import Appending
from voice_backend.live.client_events import (
    Append,
    ClientEvent,
    InputAudioAppend,
    InputAudioMute,
    InputAudioUnmute,
    ResponseCreate,
    ResponseItemCreate,
    SessionClose,
    SessionStart,
    SessionUpdate,
    parse_client_event,
)
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
from voice_backend.live.config import LiveConfig
from voice_backend.live.faults import LiveFault
from voice_backend.live.flood import TOO_MANY, Flood, cost_of, too_many
from voice_backend.live.outbox import DoorKind, Outbox, Outgoing
from voice_backend.live.permissions import NEVER_OVER_MEDIA, Permissions
from voice_backend.live.server_events import (
    CloseReason,
    ContextWindow,
    DelegationCreated,
    DelegationRef,
    ErrorEvent,
    Info,
    InputAudioMuted,
    ResponseEvent,
    ServerEvent,
    SessionClosed,
    SessionStarted,
    SessionUpdated,
    SessionUsageUpdated,
    Usage,
)
from voice_backend.live.shapes import (
    JsonObject,
    ResponsesBackend,
    ResponsesDelegation,
    SessionConfig,
    SessionResource,
)
from voice_backend.live.sound import sound_of
from voice_backend.live.startup import check_config, merged, voice_config
from voice_backend.live.talk import Talk
from voice_backend.live.waiting import Waiting
from voice_backend.model import (
    Cancelled,
    Delegate,
    InText,
    ModelEvent,
    OutText,
    SpeakingOff,
    SpeakingOn,
)
from warp.errors import InvalidState


class Phase(Enum):
    """Where a session stands."""

    NEW = auto()
    OPENING = auto()
    ACTIVE = auto()
    CLOSED = auto()


class Input(Enum):
    """What moves it on."""

    ASKED = auto()
    OPENED = auto()
    ENDED = auto()


_TABLE: Final[dict[tuple[Phase, Input], Phase]] = {
    (Phase.NEW, Input.ASKED): Phase.OPENING,
    (Phase.OPENING, Input.OPENED): Phase.ACTIVE,
    (Phase.NEW, Input.ENDED): Phase.CLOSED,
    (Phase.OPENING, Input.ENDED): Phase.CLOSED,
    (Phase.ACTIVE, Input.ENDED): Phase.CLOSED,
}


class LiveSession:
    """One session. `now` is monotonic seconds, `wall_s` is Unix time at the beginning."""

    __slots__ = (
        "_appending", "_asked", "_asked_by", "_commands", "_config", "_expires_at", "_flood",
        "_limits_at", "_next_usage_ms", "_outbox", "_usage_ratio", "_waiting", "id", "phase",
        "talk",
    )  # fmt: skip

    def __init__(self, ident: str, config: LiveConfig, *, wall_s: float, now: float) -> None:
        self.id = ident
        self.phase = Phase.NEW
        self.talk = Talk(views=False)
        self._config = config
        self._asked = SessionConfig(model="")
        self._asked_by: str | None = None
        self._appending = Appending(config)
        self._commands: list[Command] = []
        self._waiting = Waiting(config.early_audio_s)
        self._outbox = Outbox(config.outgoing)
        self._flood = Flood(config.events_per_s, config.events_burst)
        self._expires_at = int(wall_s + config.expires_after_s)
        # first of the start, then of the session's life
        self._limits_at = now + config.start_timeout_s
        self._next_usage_ms = int(config.usage_interval_s * 1000)
        self._usage_ratio: float | None = None

    # -- what is to be done, and to be sent --------------------------------------------------------

    def commands(self) -> list[Command]:
        """Drain what is to be done."""
        commands, self._commands = self._commands, []
        return commands

    def outgoing(self) -> list[Outgoing]:
        """Drain what is to be sent."""
        return self._outbox.drain()

    @property
    def dropped(self) -> int:
        """Events that nobody fetched in time, and those of clients that came too fast."""
        return self._outbox.dropped + self._flood.refused

    @property
    def dropped_sound_ms(self) -> int:
        """Sound that was too old when the voice was open."""
        return round(self._waiting.dropped_ms)

    @property
    def usage_s(self) -> float:
        """Seconds of media so far."""
        return self.talk.played_ms / 1000

    # -- doors -------------------------------------------------------------------------------------

    def attach(self, kind: DoorKind) -> int:
        """Add a connection; returns its number. A sideband is told how things stand."""
        channel = self._asked.client.data_channel if self._asked.client is not None else None
        door = self._outbox.attach(
            kind, Permissions(channel) if kind is DoorKind.CHANNEL else Permissions()
        )
        if self.phase is Phase.ACTIVE:
            self._outbox.tell(SessionStarted(session=self._resource()), door)
            self._tell_permissions(door)
        return door

    def kind_of(self, door: int) -> DoorKind | None:
        """Return what a connection is, None when it is gone."""
        return self._outbox.kind_of(door)

    def detach(self, door: int) -> None:
        """A connection is gone; the session ends with the one that it lives by."""
        kind = self._outbox.kind_of(door)
        self._outbox.detach(door)
        if kind is DoorKind.SOCKET:
            self.close("connection_lost")

    # -- commands of clients -----------------------------------------------------------------------

    def receive_text(self, door: int, text: str | bytes, now: float) -> None:
        """Take what a client sent at a door."""
        if self.phase is Phase.CLOSED:
            return
        paid = 0.0
        try:
            event = parse_client_event(text, self._config.event_bytes)
            paid = cost_of(event)
            if not self._flood.admit(now, paid):
                raise too_many(event.event_id)
            self._admit(door, event)
            self._receive(event)
        except LiveFault as fault:
            # what is no event, or no sound, counts as one: every answer to a flood is one too
            if fault.code != TOO_MANY and not self._flood.admit(now, 1.0 - paid):
                fault = too_many(fault.client_event_id)
            self._refuse(fault, door, now)

    def receive_offer(self, asked: SessionConfig, *, attended: bool = True) -> None:
        """A media session begins with its offer; raises LiveFault for what cannot be had.

        `attended` False: its client knows nothing of delegations, and the voice promises nothing.
        """
        check_config(asked, self._config, over_media=True)
        self._begin(asked, attended=attended)

    def _admit(self, door: int, event: ClientEvent) -> None:
        ident, kind = event.event_id, self._outbox.kind_of(door)
        if not self._outbox.may_send(door, event.type):
            raise LiveFault(
                "event_not_allowed",
                f"{event.type} is not allowed on this connection",
                param="type",
                client_event_id=ident,
            )
        if kind is not DoorKind.SOCKET and event.type in NEVER_OVER_MEDIA:
            raise LiveFault(
                "event_not_allowed",
                f"{event.type} belongs to a WebSocket: this session has media",
                param="type",
                client_event_id=ident,
            )
        is_start = isinstance(event, SessionStart)
        if is_start != (self.phase is Phase.NEW) and not isinstance(event, SessionClose):
            message = "the session has started" if is_start else "send session.start first"
            raise LiveFault("invalid_state", message, param="type", client_event_id=ident)

    def _receive(self, event: ClientEvent) -> None:
        try:
            match event:
                case InputAudioAppend():
                    self._hear(event)
                case SessionStart():
                    check_config(event.session, self._config, over_media=False)
                    self._asked_by = event.event_id
                    self._begin(event.session)
                case SessionClose():
                    self.close("close_requested", event.event_id)
                case SessionUpdate():
                    self._update(event)
                case InputAudioMute() | InputAudioUnmute():
                    self._mute(isinstance(event, InputAudioMute), event.event_id)
                case Append():
                    appended, tell = self._appending.receive(
                        event, self.talk.played_ms, self._works_itself
                    )
                    self._want(tell)
                    self._answer(appended)
                case ResponseItemCreate() | ResponseCreate():
                    self._respond(event)
        except LiveFault as fault:
            fault.client_event_id = event.event_id
            raise

    def _begin(self, asked: SessionConfig, *, attended: bool = True) -> None:
        self._become(Input.ASKED)
        self._asked = asked
        self.talk = Talk(views=asked.transcript_views)
        delegates = attended or self._works_itself
        config, missing = voice_config(asked, self._config, delegates=delegates)
        self._appending.begin(asked.delegation)
        audio = asked.audio.format if asked.audio is not None else None
        self._commands.append(
            OpenVoice(asked.model, config, audio, self._backend, self._appending.delay_s)
        )
        if missing:
            self._outbox.tell(
                Info(code="voice_substituted", message="the voice is not ours: our default speaks")
            )

    def _hear(self, event: InputAudioAppend) -> None:
        given = self._asked.audio.format if self._asked.audio is not None else None
        sound = sound_of(event.audio, given, self._config.audio_s)
        if self.phase is Phase.OPENING:
            self._waiting.hear(sound, given)
        else:
            self._commands.append(Hear(sound))

    def _update(self, event: SessionUpdate) -> None:
        given, current = event.session.delegation, self._asked.delegation
        if event.session.triggers:
            raise LiveFault(
                "unsupported_parameter", "triggers are not served here", param="session.triggers"
            )
        if given is not None:
            if given.type != (current.type if current is not None else "client"):
                raise LiveFault(
                    "immutable", "who works for a session is fixed", param="session.delegation.type"
                )
            if isinstance(given, ResponsesDelegation) and isinstance(current, ResponsesDelegation):
                given = merged(current, given)
                if given.responses is not None:
                    self._want(Reconfigure(given.responses))
            self._asked = self._asked.model_copy(update={"delegation": given})
            self._appending.begin(given)
        self._answer(SessionUpdated(session=self._resource(), client_event_id=event.event_id))

    def _mute(self, muted: bool, client_event_id: str | None) -> None:
        self._want(Mute(muted))
        self._answer(
            InputAudioMuted(
                type="session.input_audio.muted" if muted else "session.input_audio.unmuted",
                client_event_id=client_event_id,
            )
        )

    def _respond(self, event: ResponseItemCreate | ResponseCreate) -> None:
        if not self._works_itself:
            raise LiveFault(
                "invalid_state", "this session's work is its client's: append its results instead"
            )
        self._want(AddItem(event.item) if isinstance(event, ResponseItemCreate) else GoOn())

    def _want(self, command: Command) -> None:
        """Have something done; what comes before there is a voice waits for it."""
        if self.phase is not Phase.OPENING:
            self._commands.append(command)
        elif not self._waiting.hold(command):
            raise LiveFault("invalid_state", "wait for session.started: too much came before it")

    def _answer(self, event: ServerEvent) -> None:
        """Tell what has come of a client's wish: never before it knows that the session runs."""
        if self.phase is Phase.OPENING:
            self._waiting.answer(event)
        else:
            self._outbox.tell(event)

    # -- the voice ---------------------------------------------------------------------------------

    def receive_opened(self, now: float) -> None:
        """The voice is open and listens."""
        if self.phase is not Phase.OPENING:
            return
        self._become(Input.OPENED)
        self._limits_at = now + self._config.expires_after_s
        commands, answers = self._waiting.release()
        self._commands += commands
        self._outbox.tell(SessionStarted(session=self._resource(), client_event_id=self._asked_by))
        self._tell_permissions(None)
        for answer in answers:
            self._outbox.tell(answer)

    def receive_refused(self, code: str, message: str) -> None:
        """No voice is to be had, or it has failed: the session is over."""
        if self.phase is Phase.CLOSED:
            return
        fault = LiveFault(code, message, kind="server_error", client_event_id=self._asked_by)
        self._outbox.tell(ErrorEvent(error=fault.error()))
        self.close("connection_lost")

    def receive_voice(self, event: ModelEvent, now: float) -> None:
        """Take what the voice says of itself."""
        if self.phase is not Phase.ACTIVE:
            return
        talk = self.talk
        match event:
            case InText():
                turns = talk.turns
                told = talk.receive_input(event)
                if talk.turns != turns:
                    self._commands.append(TurnEnded())
            case OutText():
                told = talk.receive_output(event)
            case SpeakingOn() | SpeakingOff():
                if isinstance(event, SpeakingOn):
                    self._appending.told()  # it has something to say by itself
                told = talk.receive_speaking(isinstance(event, SpeakingOn), event.at_ms)
            case Cancelled():
                told = talk.receive_cancelled(event)
            case Delegate():
                self._delegate(event, now)
                return
        for each in told:
            self._outbox.tell(each)

    def receive_played(self, until_ms: int, usage_ratio: float | None = None) -> None:
        """Output was played up to this media time."""
        if self.phase is not Phase.ACTIVE:
            return
        self._usage_ratio = usage_ratio
        for each in self.talk.receive_played(until_ms):
            self._outbox.tell(each)
        if self._config.usage_interval_s and until_ms >= self._next_usage_ms:
            self._next_usage_ms = until_ms + int(self._config.usage_interval_s * 1000)
            window = None if usage_ratio is None else ContextWindow(usage_ratio=usage_ratio)
            self._outbox.tell(
                SessionUsageUpdated(usage=Usage(seconds=self.usage_s), context_window=window)
            )

    def receive_response(self, delegation_id: str, event: JsonObject) -> None:
        """The Responses service that works for the session says something."""
        if self.phase is Phase.ACTIVE:
            self._outbox.tell(ResponseEvent(event=event, delegation_id=delegation_id))

    def receive_told(self) -> None:
        """The voice was told something: acknowledgements that are pending are superfluous."""
        self._appending.told()

    def _delegate(self, event: Delegate, now: float) -> None:
        request = self._appending.delegate(event, self.talk.transcript.draft(), now)
        if request is None:
            return
        if self.talk.speaking:
            self._appending.told()
        ref = DelegationRef(
            id=event.delegation_id, target="responses" if self._works_itself else "client"
        )
        self._outbox.tell(DelegationCreated(delegation=ref, offset_ms=event.offset_ms))
        if self._works_itself:
            self._commands.append(Work(request))

    # -- the end -----------------------------------------------------------------------------------

    def close(self, reason: CloseReason, client_event_id: str | None = None) -> None:
        """End the session. Harmless when repeated."""
        if self.phase is Phase.CLOSED:
            return
        for each in self.talk.finish():
            self._outbox.tell(each)
        self._become(Input.ENDED)
        self._outbox.tell(
            SessionClosed(
                reason=reason,
                session=self._resource(),
                usage=Usage(seconds=self.usage_s),
                client_event_id=client_event_id,
            )
        )
        self._commands.append(Leave())

    def get_timer(self) -> float | None:
        """When `handle_timer` has something to do."""
        if self.phase is Phase.CLOSED:
            return None
        acknowledge_at = self._appending.get_timer()
        return self._limits_at if acknowledge_at is None else min(self._limits_at, acknowledge_at)

    def handle_timer(self, now: float) -> None:
        """A session that was never started, or has lived long enough, ends."""
        if self.phase is Phase.CLOSED:
            return
        tell = self._appending.handle_timer(now)
        if tell is not None:
            self._commands.append(tell)
        if now < self._limits_at:
            return
        if self.phase is Phase.ACTIVE:
            self.close("expired")
        else:
            self.receive_refused("start_timeout", "the session was not started in time")

    # -- what they share ---------------------------------------------------------------------------

    @property
    def _works_itself(self) -> bool:
        """Whether the server asks a Responses service, rather than the client."""
        return isinstance(self._asked.delegation, ResponsesDelegation)

    @property
    def _backend(self) -> ResponsesBackend | None:
        delegation = self._asked.delegation
        if not isinstance(delegation, ResponsesDelegation):
            return None
        return delegation.responses or ResponsesBackend()

    def _resource(self) -> SessionResource:
        given = self._asked.model_dump(exclude={"input", "triggers", "store"}, exclude_none=True)
        return SessionResource(**{**given, "id": self.id, "expires_at": self._expires_at})

    def _tell_permissions(self, door: int | None) -> None:
        client = self._asked.client
        if client is not None and Permissions(client.data_channel).limited:
            message = "this connection may send and see what the session's start allowed"
            self._outbox.tell(Info(code="data_channel_permissions", message=message), door)

    def _refuse(self, fault: LiveFault, door: int, now: float) -> None:
        if fault.code == TOO_MANY and not self._flood.may_complain(now):
            return
        event = ErrorEvent(error=fault.error(), client_event_id=fault.client_event_id)
        self._outbox.tell(event, door)

    def _become(self, what: Input) -> None:
        new = _TABLE.get((self.phase, what))
        if new is None:
            raise InvalidState(f"a session that is {self.phase.name} cannot have {what.name}")
        self.phase = new
