"""What answers the call: models that listen and speak, and the loop that keeps frames on time.

                 io.Voices ── admission ── failures, restarts ── figures
                    │
payloads ─▶ audio ─▶ loop ─ desk ─ seat ── StepIn ──▶ engine (inline, thread, process) ─▶ VoiceModel
payloads ◀─ audio ◀─ loop ─ desk ─ playout ◀─ StepOut ──┘                           models: echo,
                    │                                                     scripted, duplex-cpu
                    └── events ─▶ turns, transcript, delegation ─▶ live
"""

from __future__ import annotations

from voice_backend.model import (
    Cancelled,
    Context,
    Delegate,
    Inject,
    InText,
    Message,
    ModelEvent,
    ModelInfo,
    NoCapacity,
    NotCapable,
    OutText,
    PlainVoice,
    Progress,
    ReplyCourse,
    SessionConfig,
    Slot,
    Snapshot,
    SnapshotRefused,
    SpeakingOff,
    SpeakingOn,
    StepIn,
    StepOut,
    VoiceModel,
)

__all__ = [
    "Cancelled",
    "Context",
    "Delegate",
    "InText",
    "Inject",
    "Message",
    "ModelEvent",
    "ModelInfo",
    "NoCapacity",
    "NotCapable",
    "OutText",
    "PlainVoice",
    "Progress",
    "ReplyCourse",
    "SessionConfig",
    "Slot",
    "Snapshot",
    "SnapshotRefused",
    "SpeakingOff",
    "SpeakingOn",
    "StepIn",
    "StepOut",
    "VoiceModel",
]
