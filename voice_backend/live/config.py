"""What a live session may ask for, and how long it may last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig:
    """Limits of the public contract. Tokens are estimated, kindly: six characters each."""

    models: frozenset[str] = frozenset()  # names that are served; empty: any name is ours
    voices: frozenset[str] = frozenset()  # voices that the model has; others get its default
    responses: bool = False  # a Responses service works for sessions that ask for one
    unstarted: int = 64  # WebSockets that have not started a session yet
    unstarted_each: int = 16  # of one address, or of one IPv6 /64
    sidebands: int = 8  # of one session
    start_timeout_s: float = 10.0  # a connection that has not started a session by then is closed
    expires_after_s: float = 7200.0  # a session's life
    usage_interval_s: float = 10.0  # between two session.usage.updated; 0: only when it closes
    event_bytes: int = 1 << 20  # of one event
    audio_s: float = 15.0  # of one session.input_audio.append
    append_tokens: int = 500  # of one appended text
    instructions_tokens: int = 16_384
    input_messages: int = 128
    input_tokens: int = 8_192  # of the text before startup
    early_audio_s: float = 2.0  # of sound that waits until the voice is open; older sound goes
    events_per_s: float = 50.0  # of a client, four pieces of sound count as one; more are refused
    events_burst: int = 200
    outgoing: int = 2_000  # events that wait for whoever sends them; then the oldest are dropped
    delegations: int = 64  # ids of delegations that are remembered


TOKEN_CHARS = 6


def tokens_of(text: str) -> int:
    """Estimate how many tokens a text has at the least."""
    return -(-len(text) // TOKEN_CHARS)
