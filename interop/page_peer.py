"""The end of a call that a page holds, as a test speaks to it (see interop/pages/peer.js).

peer = await PagePeer.connect(page, "/offer", channels=[...])     it calls
peer = await PagePeer.create(page, ...); await peer.answer(offer) it is called
await peer.happened("open:talk"); await peer.receive("talk")
"""

from __future__ import annotations

import base64
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interop.browser import Page

Samples = NDArray[np.int16]
HAPPEN_S = 8.0
_MARGIN_S = 5.0
"""The page gives up first: its error says what it has seen."""


class Mark(NamedTuple):
    """Something that has happened to a call: when (monotonic seconds), and its place in order."""

    at: float
    place: int


class Heard(NamedTuple):
    """What a page has recorded."""

    samples: Samples
    rate: int
    began: float
    """When the first block came (monotonic seconds)."""


class PagePeer:
    """One connection of a page."""

    def __init__(self, page: Page, number: int) -> None:
        self.page = page
        self.number = number

    @classmethod
    async def create(cls, page: Page, **options: Any) -> PagePeer:
        """Make a connection; options: see `create` in peer.js."""
        return cls(page, await page.call("create", options))

    @classmethod
    async def connect(cls, page: Page, url: str, **options: Any) -> PagePeer:
        """Make a connection and offer it to a URL; returns when the answer is applied."""
        return cls(page, await page.call("connect", url, options))

    async def _call(self, name: str, *arguments: Any, timeout_s: float = 20.0) -> Any:
        return await self.page.call(name, self.number, *arguments, timeout_s=timeout_s)

    # -- descriptions ---------------------------------------------------------------------------

    async def offer(self, **options: Any) -> str:
        """Return an offer, applied: `iceRestart`, `gather`, `edits`."""
        return str(await self._call("offer", options))

    async def accept(self, answer: str) -> None:
        """Apply the answer to it."""
        await self._call("accept", answer)

    async def answer(self, offer: str, **options: Any) -> str:
        """Return the answer to an offer of ours, applied: `gather`, `edits`."""
        return str(await self._call("answer", offer, options))

    async def signal(self, url: str, **options: Any) -> None:
        """Offer (again) to a URL and apply what it answers."""
        await self._call("signal", url, options)

    # -- what happens ---------------------------------------------------------------------------

    async def happened(self, name: str, *, since: int = 0, within_s: float = HAPPEN_S) -> Mark:
        """Wait for a mark, the first from place `since` on; it stays known."""
        options = {"since": since, "timeoutMs": 1000 * within_s}
        found = await self._call("happened", name, options, timeout_s=within_s + _MARGIN_S)
        return Mark(monotonic(found["at"]), int(found["index"]))

    async def marks(self) -> list[str]:
        """Return the names of everything that has happened, in order."""
        return [str(mark["name"]) for mark in await self._call("marks")]

    async def states(self) -> dict[str, str | None]:
        """Return the connection's states and descriptions: connection, ice, local, remote."""
        return dict(await self._call("states"))

    async def stats(self, kind: str) -> list[dict[str, Any]]:
        """Return the reports of a kind (`transport`, `inbound-rtp`, ...)."""
        return [report for report in await self._call("stats") if report["type"] == kind]

    async def transport(self) -> dict[str, Any]:
        """Return the report on the transport."""
        [report] = await self.stats("transport")
        return report

    # -- channels -------------------------------------------------------------------------------

    async def open_channel(self, label: str, **options: Any) -> None:
        """Open a channel: `negotiated`, `id`, `ordered`, `protocol`, `maxRetransmits`."""
        await self._call("openChannel", label, options)

    async def close_channel(self, label: str) -> None:
        """Close a channel."""
        await self._call("closeChannel", label)

    async def channel_state(self, label: str) -> dict[str, Any]:
        """Return a channel's attributes."""
        return dict(await self._call("channelState", label))

    async def send(self, label: str, message: str | bytes) -> None:
        """Send a message."""
        if isinstance(message, str):
            wrapped = {"text": message}
        else:
            wrapped = {"base64": base64.b64encode(message).decode()}
        await self._call("send", label, wrapped)

    async def receive(
        self, label: str, count: int = 1, *, within_s: float = HAPPEN_S
    ) -> list[str | bytes]:
        """Return the next messages of a channel."""
        timeout_s = within_s + _MARGIN_S
        found = await self._call("receive", label, count, 1000 * within_s, timeout_s=timeout_s)
        return [one["text"] if "text" in one else base64.b64decode(one["base64"]) for one in found]

    # -- sound ----------------------------------------------------------------------------------

    async def add_audio(self, audio: Any) -> None:
        """Add a track: "microphone", {"play": url} or "receive"; the next offer tells of it."""
        await self._call("addAudio", audio)

    async def remove_audio(self) -> None:
        """Take the last track away that was added."""
        await self._call("removeAudio")

    async def stop_audio(self) -> None:
        """Give the section up that the last track was sent in."""
        await self._call("stopAudio")

    async def say(self) -> None:
        """Begin to play what it is to play."""
        await self._call("say")

    async def record(self, index: int = 0) -> None:
        """Begin to record a track of ours."""
        await self._call("record", index)

    async def heard(self, index: int = 0) -> Heard:
        """Return what was recorded so far."""
        found = await self._call("heard", index)
        samples = np.frombuffer(base64.b64decode(found["base64"]), "<i2").astype(np.int16)
        return Heard(samples, int(found["rate"]), monotonic(found["began"] or 0.0))

    async def remote_tracks(self) -> list[dict[str, Any]]:
        """Return our tracks as the page has them: kind, muted, readyState."""
        return list(await self._call("remoteTracks"))

    async def dial(self, tones: str) -> None:
        """Send telephone events."""
        await self._call("dial", tones)

    async def close(self) -> None:
        """Close the connection."""
        await self._call("close")


def monotonic(wall_ms: float) -> float:
    """Turn a page's time into that of this process's monotonic clock (seconds)."""
    return wall_ms / 1000 - time.time() + time.monotonic()
