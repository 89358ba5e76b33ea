"""libdatachannel and werift: programs of ours in JavaScript (interop/node) around npm packages.

They run with the Node.js that is one of the packages: werift needs 22, systems often have less.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from interop.peers import cache
from interop.peers.lines import ROOT, LineProcess
from interop.peers.peer import Capability, Lack, PeerAbsent, Wants

_SOURCES = ROOT / "interop" / "node"
_PINNED = ("package.json", "package-lock.json", ".npmrc")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgram:
    """A script around a package."""

    name: str
    title: str
    package: str
    lacks: Mapping[Capability, Lack] = field(default_factory=dict)
    plays_out: bool = False

    def version(self) -> str:
        """Return the release that package.json pins."""
        cache.find_program("npm", "apt-get install npm")
        pinned = json.loads((_SOURCES / "package.json").read_text())["dependencies"]
        return f"{self.package} {pinned[self.package]}"

    def key(self, wants: Wants) -> object:
        """Return what a running process can be shared by."""
        return None

    def prepare(self) -> Path:
        """Install the packages if need be; returns their folder."""
        npm = cache.find_program("npm", "apt-get install npm")

        def build(folder: Path) -> None:
            for name in _PINNED:
                shutil.copy(_SOURCES / name, folder / name)
            cache.run([npm, "ci", "--no-audit", "--no-fund"], folder)
            if not (folder / "node_modules" / ".bin" / "node").exists():
                raise PeerAbsent("the npm package `node` has brought no node: are scripts allowed?")

        return cache.built("node", [_SOURCES / name for name in _PINNED], build)

    def run(self, wants: Wants) -> AbstractAsyncContextManager[LineProcess]:
        """Start a process."""
        folder = self.prepare()
        return LineProcess.run(
            [
                str(folder / "node_modules" / ".bin" / "node"),
                str(_SOURCES / f"{self.name}.js"),
            ],
            opus=True,
            environment={"PEER_MODULES": f"{folder}/"},
        )


_DTLS12 = {
    Capability.SPED: Lack("no DTLS in STUN", "no attribute 0xC070 in its sources"),
}

LIBDATACHANNEL = NodeProgram(
    name="libdatachannel",
    title="libdatachannel",
    package="node-datachannel",
    lacks={
        **_DTLS12,
        Capability.DTLS13: Lack("OpenSSL has no DTLS 1.3", "FEFD on the wire"),
        Capability.PQ: Lack("its DTLS is 1.2, and hybrids need 1.3", "FEFD on the wire"),
        Capability.SNAP: Lack("no a=sctp-init in its descriptions", "its offer"),
        Capability.RESTART: Lack("no call restarts ICE", "rtc/peerconnection.hpp"),
        Capability.RESTARTED: Lack(
            "it refuses an offer with other credentials: Invalid ICE settings from remote SDP",
            "its own error",
        ),
        Capability.MOVES: Lack(
            "it keeps sending to the old address until consent is lost", "seen on the wire"
        ),
    },
)
WERIFT = NodeProgram(
    name="werift",
    title="werift",
    package="werift",
    lacks={
        **_DTLS12,
        Capability.DTLS13: Lack("its DTLS is 1.2", "werift/lib/dtls"),
        Capability.PQ: Lack("its DTLS is 1.2, and hybrids need 1.3", "werift/lib/dtls"),
        Capability.SNAP: Lack("no a=sctp-init in its descriptions", "its offer"),
        Capability.EMPTY: Lack(
            "nothing leaves: it never sends the payload identifiers 56 and 57, nor the byte that "
            "stands for none",
            "werift/lib/webrtc/src/transport/sctp.js",
        ),
        Capability.RESTART_TO_LITE: Lack(
            "after its own restart it sends no check; a full agent's checks go on without it",
            "seen on the wire",
        ),
        Capability.MOVES: Lack(
            "it keeps sending to the old address until consent is lost", "seen on the wire"
        ),
    },
)
