"""What a client asks for at the start, held against the limits, and made the voice's own words."""

from __future__ import annotations

from voice_backend.live.config import LiveConfig, tokens_of
from voice_backend.live.faults import LiveFault
from voice_backend.live.shapes import (
    CustomVoice,
    ResponsesBackend,
    ResponsesDelegation,
    SessionConfig,
)
from voice_backend.model import Context, Message
from voice_backend.model import SessionConfig as VoiceConfig


def check_config(asked: SessionConfig, limits: LiveConfig, *, over_media: bool) -> None:
    """Raise LiveFault for what cannot be had."""
    if limits.models and asked.model not in limits.models:
        known = ", ".join(sorted(limits.models))
        raise LiveFault(
            "model_not_found", f"there is no such model: use {known}", param="session.model"
        )
    if over_media and asked.audio is not None and asked.audio.format is not None:
        raise LiveFault(
            "invalid_value", "media negotiates its own format", param="session.audio.format"
        )
    if not over_media and asked.client is not None:
        raise LiveFault(
            "invalid_value", "only a media session has a data channel", param="session.client"
        )
    _check_served(asked)
    if tokens_of(asked.instructions or "") > limits.instructions_tokens:
        raise LiveFault(
            "too_long",
            f"instructions have at most {limits.instructions_tokens} tokens",
            param="session.instructions",
        )
    items = asked.input or []
    total = sum(tokens_of(part.text) for item in items for part in item.content)
    if len(items) > limits.input_messages or total > limits.input_tokens:
        raise LiveFault(
            "too_long",
            f"input has at most {limits.input_messages} messages with {limits.input_tokens} tokens",
            param="session.input",
        )
    if isinstance(asked.delegation, ResponsesDelegation):
        _check_responses(limits)


def _check_served(asked: SessionConfig) -> None:
    """Raise LiveFault for what the contract knows and we do not do: nothing is without effect."""
    for name, given, why in (
        ("store", asked.store, ""),
        ("triggers", asked.triggers, ""),
        ("idle_timeout_s", asked.idle_timeout_s, ": a voice listens until its session ends"),
        ("wake_policy", asked.wake_policy, ": a voice listens until its session ends"),
    ):
        if given:
            message = f"{name} is not served here{why}; leave it out"
            raise LiveFault("unsupported_parameter", message, param=f"session.{name}")


def _check_responses(limits: LiveConfig) -> None:
    # what the client does not say of model, prompt and tools is the server's own
    if not limits.responses:
        raise LiveFault(
            "unsupported_parameter",
            "this server knows no Responses service: it is named by --responses-url; or let the "
            'client do the work ("type": "client")',
            param="session.delegation.type",
        )


def voice_config(
    asked: SessionConfig, limits: LiveConfig, *, delegates: bool = True
) -> tuple[VoiceConfig, str]:
    """Return what the voice is opened with, and the name of a voice that it does not have.

    `delegates`: somebody works at what it gives away.
    """
    messages = tuple(
        Message(role="system" if item.role == "developer" else item.role, text=part.text)
        for item in asked.input or []
        for part in item.content
    )
    output = asked.audio.output if asked.audio is not None else None
    given = output.voice if output is not None else None
    name = given.id if isinstance(given, CustomVoice) else given or ""
    is_ours = name in limits.voices
    config = VoiceConfig(
        instructions=asked.instructions or "",
        voice=name if is_ours else "",
        context=Context(messages=messages),
        delegates=delegates,
    )
    return config, "" if is_ours else name


def merged(current: ResponsesDelegation, given: ResponsesDelegation) -> ResponsesDelegation:
    """Return an update over what it updates: what is not said stays."""
    responses = current.responses
    if given.responses is not None:
        changed = given.responses.model_dump(exclude_unset=True)
        responses = (responses or ResponsesBackend()).model_copy(update=changed)
    delay = given.acknowledgement_delay_ms
    if delay is None:
        delay = current.acknowledgement_delay_ms
    return ResponsesDelegation(
        type="responses", responses=responses, acknowledgement_delay_ms=delay
    )
