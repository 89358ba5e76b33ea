"""Shapes that client and server events share: a session's configuration and what it resolves to.

Our own reading of the GPT-Live contract (`/v1/live/sessions`): the names are those of its public
clients. What is not known is refused by name, so that nobody believes that it had an effect.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

try:
    from pydantic import BaseModel, ConfigDict, Field
    from pydantic import ValidationError as ValidationError
except ModuleNotFoundError as error:
    raise ImportError("live sessions need pydantic: pip install 'warp-rtc[voice]'") from error

NAME_CHARS = 256
LONG_CHARS = 100_000
JsonObject = dict[str, Any]


class Shape(BaseModel):
    """A JSON object without members that nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


Name = Annotated[str, Field(max_length=NAME_CHARS)]
Long = Annotated[str, Field(max_length=LONG_CHARS)]


class PcmFormat(Shape):
    """Mono PCM, 16 bit, little-endian."""

    type: Literal["audio/pcm"]
    rate: Literal[16000, 24000] = 24000


class G711Format(Shape):
    """G.711, mu-law or A-law."""

    type: Literal["audio/pcmu", "audio/pcma"]
    rate: Literal[8000] = 8000


AudioFormat = Annotated[PcmFormat | G711Format, Field(discriminator="type")]


class CustomVoice(Shape):
    """A voice that the server knows by its id."""

    id: Name


class AudioOutput(Shape):
    """How the session speaks."""

    voice: Name | CustomVoice | None = None


class Audio(Shape):
    """Sound, as it is agreed at the start."""

    format: AudioFormat | None = None
    output: AudioOutput | None = None


class ResponsesBackend(Shape):
    """What a Responses model is asked with when work is delegated to it.

    The model and tools are its service's to judge: they are passed on as they are.
    """

    model: Name | None = None
    instructions: Long | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=100_000)
    parallel_tool_calls: bool | None = None
    reasoning: JsonObject | None = None
    service_tier: Name | None = None
    text: JsonObject | None = None
    tool_choice: str | JsonObject | None = None
    tools: list[JsonObject] | None = Field(default=None, max_length=128)


Delay = Annotated[int, Field(ge=0, le=60_000)]


class ClientDelegation(Shape):
    """The client does the work."""

    type: Literal["client"]
    acknowledgement_delay_ms: Delay | None = None


class ResponsesDelegation(Shape):
    """A Responses service does the work, asked by the server."""

    type: Literal["responses"]
    acknowledgement_delay_ms: Delay | None = None
    responses: ResponsesBackend | None = None


Delegation = Annotated[ClientDelegation | ResponsesDelegation, Field(discriminator="type")]


class TextPart(Shape):
    """The text of a message before startup."""

    type: Literal["input_text", "output_text", "text"] | None = None
    text: Long


class InitialItem(Shape):
    """A message of the past."""

    type: Literal["message"] | None = None
    role: Literal["developer", "user", "assistant"]
    content: list[TextPart] = Field(min_length=1, max_length=1)
    id: Name | None = None
    status: Literal["incomplete", "completed"] | None = None


class ServerEventSelector(Shape):
    """Names a server event; of `response.event`, one by what it carries."""

    type: Name
    response_event: Name | None = None


Names = Annotated[list[Name], Field(max_length=128)]
Selectors = Annotated[list[ServerEventSelector | Name], Field(max_length=128)]


class DataChannelConfig(Shape):
    """What an untrusted page may send and see on its data channel."""

    allowed_client_events: Literal["all"] | Names | None = None
    allowed_server_events: Literal["all"] | Selectors | None = None


class ClientConfig(Shape):
    """What an untrusted page may do."""

    data_channel: DataChannelConfig


class WakePolicy(Shape):
    """What resumes a session that was idle."""

    type: Literal["speech"]
    vad_threshold: float | None = Field(default=None, ge=0, le=1)


class SessionConfig(Shape):
    """What a client asks for at the start."""

    model: Name
    audio: Audio | None = None
    client: ClientConfig | None = None
    delegation: Delegation | None = None
    input: list[InitialItem] | None = None
    instructions: Long | None = None
    safety_identifier: Name | None = None
    store: bool | None = None
    triggers: list[JsonObject] | None = Field(default=None, max_length=8)
    idle_timeout_s: int | None = Field(default=None, ge=1)
    wake_policy: WakePolicy | None = None
    transcript_views: bool = False
    """Ours: also send `transcript.draft` and `transcript.final`."""


class SessionUpdateConfig(Shape):
    """What may change while a session runs."""

    delegation: Delegation | None = None
    triggers: list[JsonObject] | None = Field(default=None, max_length=8)


class SessionResource(Shape):
    """A session as it was resolved."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    object: Literal["live.session"] = "live.session"
    status: Literal["active"] = "active"
    expires_at: int
    model: str
    audio: Audio | None = None
    client: ClientConfig | None = None
    delegation: Delegation | None = None
    instructions: str | None = None
    safety_identifier: str | None = None
    store: bool = False
