"""Pion: a program of ours in Go (interop/pion), built twice: the release, and v5's pre-release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from interop.bogo.build import BuildError, find_go
from interop.peers import cache
from interop.peers.lines import ROOT, LineProcess
from interop.peers.peer import Capability, Lack, PeerAbsent, Wants

_SOURCES = ROOT / "interop" / "pion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pion:
    """One of the two builds."""

    name: str
    title: str
    module: str
    tags: tuple[str, ...] = ()
    lacks: Mapping[Capability, Lack] = field(default_factory=dict)
    plays_out: bool = False

    def version(self) -> str:
        """Return the release that go.mod pins."""
        text = (_SOURCES / "go.mod").read_text()
        found = re.search(rf"{re.escape(self.module)} (v\S+)", text)
        return f"{self.module.removeprefix('github.com/')} {found[1] if found else '?'}"

    def key(self, wants: Wants) -> object:
        """Return what a running process can be shared by."""
        return None

    def prepare(self) -> Path:
        """Build it if need be, with the machine's Go or that of PyPI; returns the program."""
        sources = [path for path in _SOURCES.iterdir() if path.suffix in (".go", ".mod", ".sum")]

        def build(folder: Path) -> None:
            try:
                go = find_go()
            except BuildError as error:
                raise PeerAbsent(
                    f"no Go 1.24 or newer, and PyPI's can't be had: {error}"
                ) from error
            tags = ",".join(self.tags)
            cache.run(
                [go, "build", "-trimpath", f"-tags={tags}", "-o", str(folder / "peer"), "."],
                _SOURCES,
                GOFLAGS="-mod=readonly",
            )

        return cache.built(self.name, sources, build) / "peer"

    def run(self, wants: Wants) -> AbstractAsyncContextManager[LineProcess]:
        """Start a process."""
        return LineProcess.run([str(self.prepare())], opus=True)


_SPED = Lack(
    "no release has it: pion/ice v4.4.9 has the attributes only, no agent that uses them, and the "
    "forks that do are not published as modules",
    "ice/sped.go; the Go module proxy has neither livekit/ice nor GetStream/pion-ice",
)
_MOVES = Lack(
    "as the controlled agent it keeps the pair that was nominated unless one of a higher priority "
    "is, and a peer that has moved is peer-reflexive, which is lower",
    "ice/selection.go, shouldSwitchSelectedPair",
)
_PQ = Lack("pion/dtls v3 has no hybrid groups", "dtls/pkg/crypto/elliptic")

PION = Pion(
    name="pion",
    title="Pion",
    module="github.com/pion/webrtc/v4",
    lacks={
        Capability.DTLS13: Lack("pion/dtls v3 is DTLS 1.2", "go.mod of pion/webrtc v4"),
        Capability.PQ: _PQ,
        Capability.SPED: _SPED,
        Capability.MOVES: _MOVES,
    },
)
PION_NEXT = Pion(
    name="pion-next",
    title="Pion v5 rc",
    module="github.com/pion/webrtc/v5",
    tags=("next",),
    lacks={Capability.SPED: _SPED, Capability.MOVES: _MOVES},
)
