"""Peers that are Python packages, and our own stack: each in a process of this interpreter."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache

from interop.peers.lines import ROOT, LineProcess
from interop.peers.peer import Capability, Lack, PeerAbsent, Wants, require_version

_PQ_TRIAL = "WebRTC-EnableDtlsPqc/Enabled/"
_SPED_TRIAL = "WebRTC-IceHandshakeDtls/Enabled/"
_SNAP_TRIAL = "WebRTC-Sctp-Snap/Enabled/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonProgram:
    """A module of `interop.peers.programs` around a package."""

    name: str
    title: str
    package: str | None = None
    """The distribution that it needs; None: our own."""
    oldest: tuple[int, ...] = ()
    holds: str = ""
    """What is in that package, where its own version does not say it."""
    lacks: Mapping[Capability, Lack] = field(default_factory=dict)
    plays_out: bool = False
    opus: bool = False
    trials: bool = False
    """Whether what is wanted is said by libwebrtc's field trials."""

    def version(self) -> str:
        """Return the package's version, or our commit."""
        if self.package is None:
            return f"warp-rtc {_commit()}"
        how = "pip install --upgrade 'warp-rtc[peers]'"
        try:
            found = f"{self.package} {importlib.metadata.version(self.package)}"
        except importlib.metadata.PackageNotFoundError:
            raise PeerAbsent(f"{self.package} is not installed: {how}") from None
        require_version(found, self.oldest, how)
        return f"{found} ({self.holds})" if self.holds else found

    def prepare(self) -> None:
        """Do nothing: it is installed, or not."""

    def key(self, wants: Wants) -> object:
        """Return what a running process can be shared by."""
        return wants if self.trials else None

    def run(self, wants: Wants) -> AbstractAsyncContextManager[LineProcess]:
        """Start a process."""
        environment = {}
        if self.trials:
            chosen = (
                (wants.sped, _SPED_TRIAL),
                (wants.snap, _SNAP_TRIAL),
                (wants.pq, _PQ_TRIAL),
            )
            environment = {
                "WRTC_ALLOW_LOOPBACK": "1",
                "WRTC_FIELD_TRIALS": "".join(trial for wanted, trial in chosen if wanted),
            }
        return LineProcess.run(
            [sys.executable, "-m", f"interop.peers.programs.{self.name}"],
            opus=self.opus,
            environment=environment,
        )


@cache
def _commit() -> str:
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=8"],
            cwd=ROOT, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return importlib.metadata.version("warp-rtc")
    return found.stdout.strip()


OURS = PythonProgram(
    name="ours",
    title="warp-rtc",
    opus=True,
    lacks={Capability.VIDEO: Lack("there is no video in it", "warp/sdp/local.py")},
)

AIORTC = PythonProgram(
    name="aiortc",
    title="aiortc",
    package="aiortc",
    oldest=(1, 14),
    lacks={
        Capability.DTLS13: Lack("its DTLS is 1.2", "OpenSSL has no DTLS 1.3; FEFD on the wire"),
        Capability.PQ: Lack("its DTLS is 1.2, and hybrids need 1.3", "FEFD on the wire"),
        Capability.SNAP: Lack("no a=sctp-init in its descriptions", "aiortc/sdp.py"),
        Capability.SPED: Lack("no DTLS in STUN", "aioice/ice.py"),
        Capability.RESTART: Lack("createOffer has no iceRestart", "aiortc/rtcpeerconnection.py"),
        Capability.RESTARTED: Lack(
            "it keeps its ICE credentials and does not take new ones", "aiortc/rtcicetransport.py"
        ),
    },
)  # fmt: skip

LIBWEBRTC = PythonProgram(
    name="libwebrtc",
    title="libwebrtc",
    package="wrtc",
    oldest=(0, 1),
    holds="M152",
    plays_out=True,
    trials=True,
)
