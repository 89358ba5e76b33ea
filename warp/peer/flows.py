"""The flows that ICE has authenticated, and the little DTLS that may arrive before that.

Only a known flow may feed DTLS and the buffer of early media. A datagram that overtakes the
response which makes its flight's flow known is worth keeping; a stranger's is not, so few are
kept, and none by who only answers checks: its client's request always comes first.
"""

from __future__ import annotations

from warp.contract import Flow

MAX_FLOWS = 16
MAX_EARLY = 4
MAX_EARLY_BYTES = 1500


class KnownFlows(dict[Flow, None]):
    """A set of flows, the longest unheard of first. A dict, because the hot path asks it."""

    __slots__ = ("_early", "_holds")

    def __init__(self, *, holds: bool) -> None:
        super().__init__()
        self._holds = holds
        self._early: list[tuple[bytes, Flow]] = []

    def remember(self, flow: Flow, in_use: Flow | None) -> None:
        """Note that ICE has authenticated `flow`; of too many the oldest goes."""
        self.pop(flow, None)
        self[flow] = None
        if len(self) > MAX_FLOWS:
            del self[next(old for old in self if old != in_use)]

    def hold(self, data: bytes, flow: Flow) -> None:
        """Keep one datagram of a flow that may yet be authenticated."""
        if self._holds and len(self._early) < MAX_EARLY and len(data) <= MAX_EARLY_BYTES:
            self._early.append((data, flow))

    def take_early(self) -> list[tuple[bytes, Flow]]:
        """Return what was held for flows that are known by now; forget the rest."""
        if not self._early:
            return []
        early, self._early = self._early, []
        return [item for item in early if item[1] in self]
