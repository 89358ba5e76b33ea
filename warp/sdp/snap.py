"""Whether the SCTP association starts from signalled INIT chunks (SNAP sections 5 and 6).

One `SnapNegotiation` a generation, where a generation is one SCTP association on one DTLS
association. It sees chunks as bytes: the caller hands in None for a value that is missing or that
`warp.sctp` does not take for an INIT.

    UNDECIDED --offer and answer both have one, not an echo--> SNAP
    UNDECIDED --any other answer--> CLASSIC        (the ordinary four-way handshake)

A peer that copies unknown attributes answers with our own value; believing it leaves both ends
waiting for ever. So a value that equals ours, or has our initiate tag, counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warp.errors import InvalidState
from warp.names import Name
from warp.sdp.errors import SdpError, SdpRule

_TAG: Final = slice(4, 8)  # RFC 9260 section 3.3.2: initiate tag after the chunk header


class SnapMode(Name):
    """How the association of this generation starts."""

    UNDECIDED = "undecided"
    SNAP = "snap"
    CLASSIC = "classic"


class SnapInput(Name):
    """What decides the mode."""

    AGREED = "both sides signalled a chunk"
    NOT_AGREED = "one side did not"


TRANSITIONS: Final[Mapping[tuple[SnapMode, SnapInput], SnapMode]] = {
    (SnapMode.UNDECIDED, SnapInput.AGREED): SnapMode.SNAP,
    (SnapMode.UNDECIDED, SnapInput.NOT_AGREED): SnapMode.CLASSIC,
    (SnapMode.SNAP, SnapInput.AGREED): SnapMode.SNAP,
    (SnapMode.CLASSIC, SnapInput.AGREED): SnapMode.CLASSIC,
    (SnapMode.CLASSIC, SnapInput.NOT_AGREED): SnapMode.CLASSIC,
}


def is_echo(local: bytes, remote: bytes) -> bool:
    """Whether a remote chunk is our own come back: same bytes, or same initiate tag."""
    return remote == local or remote[_TAG] == local[_TAG]


class SnapNegotiation:
    """The state of one generation. `local` is our INIT chunk, or None when SNAP is not wanted.

    Only descriptions with a live data-channel section have a say: do not call it for others.
    """

    __slots__ = ("_before", "_heard", "_offered", "local", "mode", "remote")

    def __init__(self, local: bytes | None) -> None:
        self.local = local
        self.remote: bytes | None = None
        self.mode = SnapMode.UNDECIDED if local is not None else SnapMode.CLASSIC
        self._offered = False
        self._heard: bytes | None = None
        self._before: tuple[SnapMode, bytes | None] = (self.mode, None)

    def chunk_to_offer(self) -> bytes | None:
        """Return what our offer carries: always the same chunk, or None once classic."""
        self._before = (self.mode, self.remote)
        self._offered = self.mode is not SnapMode.CLASSIC
        return self.local if self._offered else None

    def receive_offer(self, remote: bytes | None) -> None:
        """Take in the peer's offer. Raises `SdpError` when a SNAP association would change."""
        self._before = (self.mode, self.remote)
        self._heard = self._usable(remote)
        self._check_unchanged()

    def chunk_to_answer(self) -> bytes | None:
        """Return what our answer carries, and decide: our chunk exactly when both have one."""
        if self.mode is SnapMode.UNDECIDED:
            self._decide()
        return self.local if self.mode is SnapMode.SNAP else None

    def receive_answer(self, remote: bytes | None) -> None:
        """Take in the peer's answer to our offer, and decide.

        Raises `SdpError` when a SNAP association would change. A chunk that we did not ask for
        counts as missing.
        """
        self._heard = self._usable(remote) if self._offered else None
        self._check_unchanged()
        self._offered = False
        self._decide()

    def rollback(self) -> None:
        """Forget the last offer and what its answer decided; our chunk is good for the next one."""
        self._offered = False
        self._heard = None
        self.mode, self.remote = self._before

    def check_local(self, written: bytes | None) -> None:
        """Raise `SdpError` unless a local description carries our chunk or none."""
        if written is not None and written != self.local:
            raise SdpError(SdpRule.SNAP_MUNGED)

    def _usable(self, remote: bytes | None) -> bytes | None:
        if remote is None or self.local is None or is_echo(self.local, remote):
            return None
        return remote

    def _check_unchanged(self) -> None:
        if self.mode is SnapMode.SNAP and self._heard != self.remote:
            self._heard = self.remote
            raise SdpError(SdpRule.SNAP_CHANGED)

    def _decide(self) -> None:
        if self._heard is None:
            self._become(SnapInput.NOT_AGREED)
        else:
            self._become(SnapInput.AGREED)

    def _become(self, why: SnapInput) -> None:
        following = TRANSITIONS.get((self.mode, why))
        if following is None:
            raise InvalidState(f"{why.value} in mode {self.mode.value}")
        if following is SnapMode.SNAP and self.mode is not SnapMode.SNAP:
            self.remote = self._heard
        self.mode = following
