"""What the other end of a call is to the matrix: something with a few verbs, and marks in time.

    kind.version()                              PeerAbsent: what is missing, and how to get it
    async with kind.run(wants) as running:      a process, with what holds for a whole process
        peer = await running.create(config)     a connection in it
        sdp = await peer.offer()                descriptions with every candidate in them
        at = await peer.happened("open:talk")   monotonic seconds, of the peer's own clock
        await peer.close()

Marks: "connection:STATE" (connected, disconnected, failed, closed), "open:LABEL",
"announced:LABEL", "closed:LABEL". What a kind can't do is declared, with its reason and source.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
PATIENCE_S = 20.0
"""How long anything may take unless a scenario says otherwise: machines are busy."""
TALK = "talk"
"""The label of the channel that every call has, on stream 0 of both ends."""


class PeerError(Exception):
    """A peer did not do what it was told; the text is its own."""


class PeerAbsent(PeerError):
    """A peer is not installed or too old; the text says how to get it."""


def require_version(found: str, oldest: tuple[int, ...], how: str) -> None:
    """Raise `PeerAbsent` where the first number in `found` is an older release than `oldest`."""
    numbers = re.search(r"\d+(?:\.\d+)*", found)
    version = tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
    if version < oldest:
        wanted = ".".join(str(part) for part in oldest)
        raise PeerAbsent(f"{found or 'what is installed'} is too old, {wanted} is needed: {how}")


class PeerGone(PeerError):
    """The peer's process has ended; the text holds the end of what it has printed."""


class Capability(enum.StrEnum):
    """What a scenario may need of a peer."""

    AUDIO = "audio"
    VIDEO = "offering video"
    UNORDERED = "unordered channels"
    LOSSY = "channels that give messages up"
    SETUP_PASSIVE = "answering as the DTLS server"
    RESTART = "offering an ICE restart"
    RESTARTED = "answering an ICE restart"
    REOFFER = "offering again in mid-call"
    REANSWER = "answering again in mid-call"
    LATE_AUDIO = "audio added in mid-call"
    CONSENT = "consent checks"
    EMPTY = "sending messages of no bytes"
    RESTART_TO_LITE = "offering an ICE restart to a lite agent"
    MOVES = "following a peer that has moved"
    DTLS13 = "DTLS 1.3"
    DTLS12 = "DTLS 1.2"
    PQ = "X25519MLKEM768"
    SNAP = "SNAP"
    NO_SNAP = "answering without SNAP"
    SPED = "SPED"
    TELLS_CHANNEL_CLOSE = "telling that a channel was closed"
    TELLS_END = "telling that it ends"
    HEARS_END = "hearing that the other end closes"


class Lack(NamedTuple):
    """Why a kind can't do something, and where that was read or seen."""

    why: str
    source: str

    def __str__(self) -> str:
        return f"{self.why} ({self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOptions:
    """A data channel, as RTCDataChannelInit has it."""

    label: str
    negotiated: bool = False
    stream: int | None = None
    """The stream of a negotiated one."""
    ordered: bool = True
    max_retransmits: int | None = None
    protocol: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return what peers' programs read; what has no value is left out."""
        found: dict[str, Any] = {"label": self.label, "ordered": self.ordered}
        if self.negotiated:
            found |= {"negotiated": True, "stream": self.stream}
        if self.max_retransmits is not None:
            found["maxRetransmits"] = self.max_retransmits
        if self.protocol:
            found["protocol"] = self.protocol
        return found


TALK_CHANNEL = ChannelOptions(label=TALK, negotiated=True, stream=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What a peer is to have switched on, as far as it can; for most it holds for a process."""

    sped: bool = False
    snap: bool = False
    pq: bool | None = None
    """None: as it comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """One connection of a peer's."""

    audio: bool = False
    """It sends a track from the beginning, and takes ours."""
    video: bool = False
    """It offers video besides, which we refuse."""
    channels: tuple[ChannelOptions, ...] = (TALK_CHANNEL,)
    wants: Wants = Wants()
    setup: str | None = None
    """The DTLS role that it is to answer with, for those that have to know it now."""


class Announced(NamedTuple):
    """A channel of ours as the peer was told of it; None: its library does not tell."""

    ordered: bool | None
    max_retransmits: int | None
    protocol: str


class Peer(Protocol):
    """One connection of a peer's. Every method raises `PeerError`, with the peer's reason."""

    async def offer(self, *, restart: bool = False) -> str:
        """Return an offer, applied, with every candidate in it."""

    async def answer(self, sdp: str, *, setup: str | None = None) -> str:
        """Return the answer to an offer, applied; `setup` replaces the role it would take."""

    async def accept(self, sdp: str) -> None:
        """Apply the answer to its offer."""

    async def add_audio(self) -> None:
        """Add a track in mid-call; its next description tells of it."""

    async def open_channel(self, options: ChannelOptions) -> None:
        """Open a channel."""

    async def close_channel(self, label: str) -> None:
        """Close a channel."""

    async def send(self, label: str, message: str | bytes) -> None:
        """Send a message."""

    async def flood(self, label: str, count: int, text: str) -> None:
        """Send `count` messages, each the text with its number behind it."""

    async def receive(self, label: str, count: int = 1) -> list[str | bytes]:
        """Wait for messages and return them, in order."""

    async def taken(self, label: str) -> list[str | bytes]:
        """Return the messages that are there, without waiting."""

    async def happened(self, *names: str, within_s: float = PATIENCE_S) -> float:
        """Wait for the first of some marks, which stays known; returns when it was."""

    async def announced(self, label: str) -> Announced:
        """Wait for a channel of ours and return what was said of it."""

    async def say(self) -> None:
        """Begin to speak the clip `speech`."""

    async def heard(self) -> Samples:
        """Return what it has heard, 48 kHz mono."""

    async def close(self) -> None:
        """Close the connection."""

    async def release(self) -> None:
        """Close it if that has not been done, and forget it; never raises for a peer's fault."""


class RunningPeer(Protocol):
    """A process in which a peer's connections are made."""

    async def create(self, config: PeerConfig) -> Peer:
        """Make a connection."""

    def log(self) -> str:
        """Return the end of what it has printed."""


class PeerKind(Protocol):
    """An implementation, as the matrix knows it."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    @property
    def title(self) -> str:
        """What tables call it."""

    @property
    def lacks(self) -> Mapping[Capability, Lack]:
        """What it can't do."""

    @property
    def plays_out(self) -> bool:
        """Whether what it hears went through a jitter buffer, which stretches speech."""

    def version(self) -> str:
        """Return its version; raises `PeerAbsent`."""

    def prepare(self) -> object:
        """Build and install what it needs, if need be; raises `PeerAbsent`. May take minutes."""

    def key(self, wants: Wants) -> object:
        """Return what a running process can be shared by."""

    def run(self, wants: Wants) -> AbstractAsyncContextManager[RunningPeer]:
        """Start a process; raises `PeerError`. It is gone, children and all, afterwards."""
