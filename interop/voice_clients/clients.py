"""The clients: what they are, where they are installed, and how one of them is run.

Each is installed by pip, at the version that its requirements pin, into a virtual environment in
the cache of `interop.peers`; ours is not touched, and theirs do not meet.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interop.peers import cache

_HERE: Final = Path(__file__).parent
_GRACE_S: Final = 60.0  # of a process beside its conversation: it imports a lot
_TAIL: Final = 2000


class VoiceClientFailed(Exception):
    """A client ended without a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceClient:
    """One client."""

    name: str
    title: str

    @property
    def requirements(self) -> Path:
        """The file that pins its version."""
        return _HERE / "requirements" / f"{self.name}.txt"

    @property
    def program(self) -> Path:
        """What it is made to do."""
        return _HERE / "programs" / f"{self.name}_client.py"

    def prepare(self) -> Path:
        """Install it if need be; returns its Python. Raises PeerAbsent when that can't be done."""

        def build(folder: Path) -> None:
            cache.run([sys.executable, "-m", "venv", str(folder)], folder)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
            cache.run([*pip, "install", "--quiet", "-r", str(self.requirements)], folder)

        return cache.built(f"live-{self.name}", [self.requirements], build) / "bin" / "python"


CLIENTS: Final = (
    VoiceClient(name="openai", title="openai SDK, live client"),
    VoiceClient(name="livekit", title="LiveKit agents, GPTLiveModel in an AgentSession"),
    VoiceClient(name="pipecat", title="pipecat, OpenAILiveLLMService in a pipeline"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a client reports of a conversation."""

    user: str
    """What the server understood, as the client has put it together."""
    assistant: str
    """What the server said."""
    heard_ms: int
    """Sound that the client was given."""
    reply_ms: int | None
    """From the end of the question to the first loud sound; None: there was none."""
    events: dict[str, int]
    errors: list[str]
    loudest: int
    """Peak of the sound that it was given, of 32,767."""


async def converse(
    client: VoiceClient, url: str, question: Path, *, timeout_s: float = 40.0
) -> Conversation:
    """Let a client ask a spoken question and listen to the answer.

    `url` is the server's, with its `/v1`; `question` a WAV file, mono, 16 bit, 24 kHz. Raises
    `VoiceClientFailed` with the end of what it printed, and `PeerAbsent`.
    """
    python = await asyncio.to_thread(client.prepare)
    with tempfile.TemporaryDirectory(prefix=f"warp-{client.name}-") as folder:
        answer = Path(folder) / "answer.wav"
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(client.program), "--url", url),
            *("--question", str(question), "--answer", str(answer)),
            *("--timeout", str(timeout_s)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(timeout_s + _GRACE_S):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = said.decode(errors="replace")
        report = _report(text)
        if report is None:
            raise VoiceClientFailed(f"{client.title} has no report: {text[-_TAIL:]}")
        return Conversation(**report, loudest=_loudest(answer))


def _report(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            found = json.loads(line)
            return found if isinstance(found, dict) else None
    return None


def _loudest(path: Path) -> int:
    with wave.open(str(path), "rb") as source:
        samples = memoryview(source.readframes(source.getnframes())).cast("h")
    return max((abs(sample) for sample in samples), default=0)
