"""str0m: a program of ours in Rust (interop/str0m)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from interop.peers import cache
from interop.peers.lines import ROOT, LineProcess
from interop.peers.peer import Capability, Lack, Wants

_SOURCES = ROOT / "interop" / "str0m"
_HOW = "a Rust toolchain of 1.89 or newer: apt-get install cargo-web, or rustup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Str0m:
    """The only build."""

    name: str = "str0m"
    title: str = "str0m"
    lacks: Mapping[Capability, Lack] = field(default_factory=dict)
    plays_out: bool = False

    def version(self) -> str:
        """Return the release that Cargo.toml pins."""
        cache.find_program("cargo", _HOW)
        found = re.search(r'^str0m = .*"=([\d.]+)"', (_SOURCES / "Cargo.toml").read_text(), re.M)
        return f"str0m {found[1] if found else '?'}"

    def key(self, wants: Wants) -> object:
        """Return what a running process can be shared by."""
        return None

    def prepare(self) -> Path:
        """Build it if need be; returns the program."""
        cargo = cache.find_program("cargo", _HOW)
        sources = [
            *(_SOURCES / name for name in ("Cargo.toml", "Cargo.lock")),
            *(_SOURCES / "src").iterdir(),
        ]

        def build(folder: Path) -> None:
            target = folder / "target"
            command = [cargo, "build", "--release", "--locked", "--target-dir", str(target)]
            cache.run(command, _SOURCES)
            (target / "release" / "warp-rtc-interop-str0m").rename(folder / "peer")
            shutil.rmtree(target)

        return cache.built(self.name, sources, build) / "peer"

    def run(self, wants: Wants) -> AbstractAsyncContextManager[LineProcess]:
        """Start a process."""
        return LineProcess.run([str(self.prepare())], opus=True)


STR0M = Str0m(
    lacks={
        Capability.SPED: Lack("no DTLS in STUN", "no attribute 0xC070 in its sources"),
        Capability.PQ: Lack("no hybrid group in its DTLS", "the sources of dimpl"),
        Capability.NO_SNAP: Lack(
            "it answers a=sctp-init with its own, whatever is configured", "config.rs, snap_enabled"
        ),
        Capability.REOFFER: Lack(
            "it makes no offer when nothing has changed", "change/sdp.rs, SdpApi::apply"
        ),
        Capability.EMPTY: Lack("nothing arrives of what it sends", "seen on the wire"),
        Capability.MOVES: Lack(
            "as the controlled agent it keeps sending to the old address until consent is lost",
            "seen on the wire",
        ),
    }
)
