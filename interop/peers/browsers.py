"""Chromium and Firefox as peers: a page of interop/pages for each connection, driven by its tests'
interface (`interop.browser`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop import chromium, firefox
from interop.browser import Browser, BrowserError, BrowserProcess
from interop.chromium import ChromiumConfig
from interop.page_peer import PagePeer
from interop.peers.peer import (
    PATIENCE_S,
    Announced,
    Capability,
    ChannelOptions,
    Lack,
    PeerAbsent,
    PeerConfig,
    PeerError,
    Samples,
    Wants,
    require_version,
)
from interop.peers.sound import spoken
from interop.site import Site
from warp_tools.audio import resample, write_wav
from warp_tools.audio.wav import to_int16
from warp_tools.opus import SAMPLE_RATE

_POLL_S = 0.05
_VOICE = {"play": "/voice.wav"}


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    """Raise as PeerError what the page or the browser says."""
    try:
        yield
    except (BrowserError, TimeoutError) as error:
        raise PeerError(f"{what}: {error or 'no answer in time'}") from error


class BrowserPeer:
    """One connection of a page's."""

    def __init__(self, page: PagePeer) -> None:
        self._page = page
        self._taken: Counter[str] = Counter()

    async def offer(self, *, restart: bool = False) -> str:
        """Return an offer, applied, with every candidate in it."""
        with _translated("offer"):
            return await self._page.offer(iceRestart=restart)

    async def answer(self, sdp: str, *, setup: str | None = None) -> str:
        """Return the answer to an offer, applied."""
        edits = [["a=setup:active", f"a=setup:{setup}"]] if setup else []
        with _translated("answer"):
            return await self._page.answer(sdp, edits=edits)

    async def accept(self, sdp: str) -> None:
        """Apply the answer to its offer."""
        with _translated("accept"):
            await self._page.accept(sdp)

    async def add_audio(self) -> None:
        """Add a track in mid-call; its next description tells of it."""
        with _translated("add_audio"):
            await self._page.add_audio(_VOICE)

    # -- channels -------------------------------------------------------------------------------

    async def open_channel(self, options: ChannelOptions) -> None:
        """Open a channel."""
        with _translated("open_channel"):
            await self._page.open_channel(**channel_init(options))

    async def close_channel(self, label: str) -> None:
        """Close a channel."""
        with _translated("close_channel"):
            await self._page.close_channel(label)

    async def send(self, label: str, message: str | bytes) -> None:
        """Send a message."""
        with _translated("send"):
            await self._page.send(label, message)

    async def flood(self, label: str, count: int, text: str) -> None:
        """Send `count` messages, each the text with its number behind it."""
        arguments = f"{self._page.number}, {json.dumps(label)}"
        loop = f"for (let i = 0; i < {count}; i++) await interop.send({arguments}, {{text: t + i}})"
        with _translated("flood"):
            await self._page.page.evaluate(
                f"(async (t) => {{ {loop} }})({json.dumps(text)})", timeout_s=4 * PATIENCE_S
            )

    async def receive(self, label: str, count: int = 1) -> list[str | bytes]:
        """Wait for messages and return them, in order."""
        within_s = PATIENCE_S + count / 200
        self._taken[label] += count
        with _translated("receive"):
            return await self._page.receive(label, count, within_s=within_s)

    async def taken(self, label: str) -> list[str | bytes]:
        """Return the messages that are there, without waiting."""
        with _translated("taken"):
            there = (await self._page.marks()).count(f"message:{label}") - self._taken[label]
        return await self.receive(label, there) if there else []

    # -- what happens ---------------------------------------------------------------------------

    async def happened(self, *names: str, within_s: float = PATIENCE_S) -> float:
        """Wait for the first of some marks, which stays known; returns when it was."""
        with _translated(" or ".join(names)):
            if len(names) == 1:
                return (await self._page.happened(names[0], within_s=within_s)).at
            async with asyncio.timeout(within_s):
                while not (seen := [n for n in await self._page.marks() if n in names]):
                    await asyncio.sleep(_POLL_S)
            return (await self._page.happened(seen[0])).at

    async def announced(self, label: str) -> Announced:
        """Wait for a channel of ours and return what was said of it."""
        with _translated("announced"):
            await self._page.happened(f"announced:{label}", within_s=PATIENCE_S)
            state = await self._page.channel_state(label)
        return Announced(state["ordered"], state["maxRetransmits"], state["protocol"])

    # -- sound ----------------------------------------------------------------------------------

    async def say(self) -> None:
        """Begin to speak the clip `speech`, and to record what comes."""
        with _translated("say"):
            await self._page.record()
            await self._page.say()

    async def heard(self) -> Samples:
        """Return what it has heard, 48 kHz mono."""
        with _translated("heard"):
            found = await self._page.heard()
        return to_int16(resample(found.samples / 32768.0, found.rate, SAMPLE_RATE))

    async def close(self) -> None:
        """Close the connection."""
        with _translated("close"):
            await self._page.close()

    async def release(self) -> None:
        """Close the tab."""
        with contextlib.suppress(BrowserError, TimeoutError):
            await self._page.page.close()


def channel_init(options: ChannelOptions) -> dict[str, Any]:
    """Return a channel as the pages' script takes it."""
    found = options.as_json()
    if "stream" in found:
        found["id"] = found.pop("stream")
    return found


class RunningBrowser:
    """A browser and the site of its pages."""

    def __init__(self, process: BrowserProcess, browser: Browser, site: Site) -> None:
        self._process = process
        self._browser = browser
        self._site = site

    async def create(self, config: PeerConfig) -> BrowserPeer:
        """Open a tab with a connection in it."""
        options: dict[str, Any] = {"channels": [channel_init(one) for one in config.channels]}
        if config.audio:
            options["audio"] = _VOICE
        if config.video:
            options["video"] = True
        with _translated("create"):
            page = await self._browser.open(self._site.url)
            return BrowserPeer(await PagePeer.create(page, **options))

    def log(self) -> str:
        """Return the end of what it has printed."""
        log = getattr(self._process, "log", None)
        return str(log()) if log is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserKind:
    """A browser as the matrix knows it."""

    name: str
    title: str
    binaries: tuple[str, ...]
    oldest: tuple[int, ...]
    start: Callable[[Wants], AbstractContextManager[BrowserProcess]]
    shared_by: Callable[[Wants], object]
    lacks: Mapping[Capability, Lack] = field(default_factory=dict)
    plays_out: bool = True

    def version(self) -> str:
        """Return what the browser says of itself."""
        binary = next(filter(None, map(shutil.which, self.binaries)), None)
        if binary is None:
            raise PeerAbsent(f"not installed: apt-get install {self.binaries[0]}")
        try:
            said = subprocess.run(
                [binary, "--version"], capture_output=True, text=True, timeout=30, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise PeerAbsent(f"{binary} --version: {error}") from error
        found = said.stdout.strip().removeprefix("Mozilla ").split(" built on")[0]
        require_version(found, self.oldest, f"apt-get install {self.binaries[0]}")
        return found

    def prepare(self) -> None:
        """Do nothing: it is installed, or not."""

    def key(self, wants: Wants) -> object:
        """Return what a running process can be shared by."""
        return self.shared_by(wants)

    @contextlib.asynccontextmanager
    async def run(self, wants: Wants) -> AsyncIterator[RunningBrowser]:
        """Start a process with a profile of its own."""
        with tempfile.TemporaryDirectory(prefix="warp-voice-") as folder:
            voice = Path(folder) / "voice.wav"
            write_wav(voice, spoken("speech"))
            with contextlib.ExitStack() as stack:
                with _translated("start"):
                    process = stack.enter_context(self.start(wants))
                async with (
                    process.attach() as browser,
                    Site(files={"/voice.wav": voice}) as site,
                ):
                    yield RunningBrowser(process, browser, site)


def _chromium_config(wants: Wants) -> ChromiumConfig:
    return ChromiumConfig(sped=wants.sped, snap=wants.snap, pqc=wants.pq is not False)


CHROMIUM = BrowserKind(
    name="chromium",
    title="Chromium",
    binaries=chromium.process.BINARIES,
    oldest=(140,),
    start=lambda wants: chromium.start(_chromium_config(wants)),
    shared_by=_chromium_config,
)
FIREFOX = BrowserKind(
    name="firefox",
    title="Firefox",
    binaries=firefox.BINARIES,
    oldest=(140,),
    start=lambda wants: firefox.start(),
    shared_by=lambda wants: None,
    lacks={
        Capability.SPED: Lack("no DTLS in STUN", "its checks have no attribute 0xC071"),
        Capability.SNAP: Lack("no a=sctp-init in its descriptions", "its offer"),
        Capability.MOVES: Lack(
            "as the controlled agent it keeps sending to the old address until consent is lost",
            "seen on the wire",
        ),
    },
)
