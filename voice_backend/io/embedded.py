"""The embedded voice with what the world gives it: a process for its networks, a thread that asks
them unit by unit, and the time of day.

    server's process ── rings ──▶ engine's process ── pipe ──▶ inference process
    media loop                    Vad, conversations           ears, turn model, mouth
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from voice_backend.io.inference import Inference, RemoteEars, RemoteMouth, RemoteTurns
from voice_backend.io.job_thread import JobThread
from voice_backend.models.conversation import FRAME_MS
from voice_backend.models.duplex_cpu import MAX_SLOTS, DuplexCpu, Networks
from voice_backend.models.ears import Ears
from voice_backend.models.mouth import Mouth
from voice_backend.models.store import Store
from voice_backend.models.turn_model import TurnModel
from voice_backend.models.vad import RATE as IN_RATE
from voice_backend.models.vad import Vad


def local_time() -> datetime:
    """Return the time of day, here."""
    return datetime.now().astimezone()


def duplex_cpu(
    *,
    max_slots: int = MAX_SLOTS,
    root: Path | None = None,
    clock: Callable[[], datetime] = local_time,
) -> DuplexCpu:
    """Return the embedded voice, loaded and warm: for the process that will run it.

    `root` is where its models are; None: the user's store. What it needs is
    `Store(root).missing()`. Raises ModelsMissing and ModelUnusable, naming the fix.
    """
    store = Store(root)
    vad = Vad.load(store, max_slots, IN_RATE * FRAME_MS // 1000)
    inference = Inference(partial(_load, root), lost=_end)
    networks = Networks(
        vad,
        cast(Ears, RemoteEars(inference)),
        cast(TurnModel, RemoteTurns(inference)),
        cast(Mouth, RemoteMouth(inference)),
    )
    networks.warm_up()
    return DuplexCpu(JobThread(), clock=clock, store=store, max_slots=max_slots, networks=networks)


def _end() -> None:
    """End the engine's process, which is of no use any more: its host starts another."""
    if multiprocessing.parent_process() is not None:
        os._exit(os.EX_SOFTWARE)


def _load(root: Path | None) -> dict[str, Callable[..., Generator[None, None, Any]]]:
    store = Store(root)
    ears, turns, mouth = Ears.load(store), TurnModel.load(store), Mouth.load(store)
    return {
        "hear": ears.hear,
        "judge": turns.judge,
        "say": lambda text, last: mouth.say(text, last=last),
    }
