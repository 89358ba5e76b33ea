"""The worker's side: a process that runs one engine until its host says so, or is gone.

    ring in ─▶ Engine.run ─▶ ring out        pipe ─▶ orders, between batches

Started by `process`.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Final

from voice_backend.batches import Parts, pack_outs, unpack_batch
from voice_backend.engine import Engine
from voice_backend.model import VoiceModel
from voice_backend.priority import take_priority
from voice_backend.rings import Ring
from voice_backend.worker.orders import IDLE_S, WorkerConfig, guarded
from warp.errors import InternalError, InvalidState, UsageError

_log = logging.getLogger(__name__)
BEGUN: Final = 0
"""The ring's word that is the number of the last batch that was begun."""
COST_US: Final = 1
"""And the one that is what it took."""
WAKE: Final = b""
"""What says that there is a batch in the ring."""


def ring_over(memory: SharedMemory) -> Ring:
    if memory.buf is None:
        raise InternalError("shared memory that is closed")
    return Ring(memory.buf)


def work(pipe: Connection, model: Callable[[], VoiceModel], config: WorkerConfig) -> None:
    """Load the model and serve until the parent says so, or is gone."""
    # Ctrl-C is for the parent, which ends us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _settle(config)
    # whoever has gone is told nothing
    with contextlib.suppress(EOFError, OSError):
        try:
            engine = Engine(model())
            engine.load()
        except Exception as error:
            known = isinstance(error, UsageError)
            told = error if known else InvalidState(f"the model cannot be loaded: {error!r}")
            pipe.send_bytes(pickle.dumps(("failed", InvalidState(str(told)))))
            return
        pipe.send_bytes(pickle.dumps(("loaded", engine.info)))
        order, *names = pickle.loads(pipe.recv_bytes())
        if order != "rings":
            engine.stop()  # it was not waited for
            return
        memory = [SharedMemory(name=name) for name in names]
        rings = [ring_over(one) for one in memory]
        pipe.send_bytes(pickle.dumps(("ready", None)))
        gc.collect()
        gc.freeze()
        try:
            _serve(pipe, engine, rings[0], rings[1])
        finally:
            engine.stop()
            for ring, one in zip(rings, memory, strict=True):
                ring.close()
                one.close()


def _serve(pipe: Connection, engine: Engine, heard: Ring, said: Ring) -> None:
    more = False
    while True:
        if pipe.poll(0 if more else IDLE_S):
            raw = pipe.recv_bytes()
            if raw != WAKE:
                # orders are written before the batch that they are meant to come before
                order = pickle.loads(raw)
                if order[0] == "stop":
                    return
                reply = guarded(engine, order)
                if reply is not None:
                    pipe.send_bytes(pickle.dumps(reply))
            else:
                record = heard.read()
                if record is not None:
                    _run(engine, record, said)
            more = True
        else:
            more = engine.work()


def _run(engine: Engine, record: bytes, said: Ring) -> None:
    number, batch = unpack_batch(record, engine.info.frame_samples_in)
    said.set_word(BEGUN, number)
    began = time.monotonic()
    outs = engine.run(batch)
    said.set_word(COST_US, int((time.monotonic() - began) * 1e6))
    parts: Parts = pack_outs(number, outs)
    if not said.write(parts):
        _log.warning("the media loop does not collect: a batch is lost")


def _settle(config: WorkerConfig) -> None:
    with contextlib.suppress(OSError, AttributeError):
        if config.core is not None:
            os.sched_setaffinity(0, {config.core})
        if config.niceness:
            os.nice(config.niceness)
    if config.realtime_priority is not None:
        take_priority(config.realtime_priority)
