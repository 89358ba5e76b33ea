"""`warp call`: places one call, speaks a recording, and writes down what comes back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from warp.errors import WarpError
from warp.io import ClientConfig, connect
from warp_tools.audio import likeness, packaged_sound, read_wav, write_wav
from warp_tools.caller import hold_call
from warp_tools.failure import ToolFailure
from warp_tools.opus import encoded
from warp_tools.signalling import HttpCall, open_call


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """How a call went."""

    seconds: float
    frames: int
    concealed: int
    correlation: float
    """How surely the reply holds the speech, as of an echo; 0 when it does not."""


async def call(
    speech_path: Path | None, url: str, out: Path, *, token: str = "", timeout_s: float = 15.0
) -> CallResult:
    """Call a server. Raises ToolFailure, one line, for everything that can go wrong."""
    speech = packaged_sound("speech") if speech_path is None else read_wav(speech_path)
    if not out.parent.is_dir() or out.is_dir():
        raise ToolFailure(f"cannot write {out}: it is no file in a directory that exists")

    payloads = encoded(speech)

    opened: list[HttpCall] = []

    async def signal(offer: str) -> str:
        opened.append(await open_call(url, offer, token=token))
        return opened[0].answer

    try:
        try:
            session = await connect(signal, config=ClientConfig(loopback=True))
            try:
                await session.connected(timeout_s)
                recording = await hold_call(session, payloads)
            finally:
                async with asyncio.timeout(2):
                    await session.close()
        finally:
            for held in opened:
                await held.hang_up()
    except (WarpError, TimeoutError) as error:
        raise ToolFailure(f"the call failed: {error or type(error).__name__}") from error
    samples = recording.samples()
    write_wav(out, samples)
    return CallResult(
        seconds=recording.seconds,
        frames=recording.frames,
        concealed=recording.concealed,
        correlation=likeness(speech, samples).correlation,
    )
