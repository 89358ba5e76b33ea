"""The public contract: events of a live session and what they mean (`/v1/live/sessions`).

client's text ─▶ client_events ─▶ session ─▶ commands ─▶ (io/live: voice, line, helper)
clients ◀─ outbox (doors, permissions) ◀─ session ◀─ talk ◀─ events of the voice, what was played
"""

from voice_backend.live.client_events import ClientEvent, parse_client_event
from voice_backend.live.config import LiveConfig
from voice_backend.live.faults import LiveFault
from voice_backend.live.outbox import DoorKind, Outgoing
from voice_backend.live.server_events import ServerEvent
from voice_backend.live.session import LiveSession, Phase
from voice_backend.live.shapes import SessionConfig, SessionResource
from voice_backend.live.sound import decode_sound, encode_sound

__all__ = [
    "ClientEvent",
    "DoorKind",
    "LiveConfig",
    "LiveFault",
    "LiveSession",
    "Outgoing",
    "Phase",
    "ServerEvent",
    "SessionConfig",
    "SessionResource",
    "decode_sound",
    "encode_sound",
    "parse_client_event",
]
