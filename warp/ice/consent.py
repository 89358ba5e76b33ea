"""When to ask for consent, and how fast to ask again when no answer comes (RFC 7675).

    answered ──(4..6 s)──▶ check ──answered──▶ ...
                             └─(no answer in 3 RTT)─▶ probe ─▶ probe, ×2 ... until it expires

The probes are ordinary connectivity checks beside the randomised consent checks: they find out
within a second that a NAT rebound or an interface went away.
"""

from __future__ import annotations

from warp.entropy import Entropy
from warp.ice.config import IceConfig

_FIRST_PROBE_MIN_S = 0.2
_FIRST_PROBE_MAX_S = 1.0
_PROBE_MAX_S = 2.0


class ConsentSchedule:
    """The next consent check of a full agent. Clockless: told of every check and answer."""

    __slots__ = ("_config", "_entropy", "misses", "next_at")

    def __init__(self, config: IceConfig, entropy: Entropy) -> None:
        self._config = config
        self._entropy = entropy
        self.next_at: float | None = None
        """When the next check is due (absolute), None before the first valid pair."""
        self.misses = 0
        """Checks sent since the last answer."""

    def note_answer(self, now: float) -> None:
        """The path in use answered."""
        self.misses = 0
        # RFC 7675 section 5.1: randomised between 0.8 and 1.2 of the interval
        jitter = int.from_bytes(self._entropy.random_bytes(2), "big") / 0xFFFF
        self.next_at = now + self._config.consent_interval_s * (0.8 + 0.4 * jitter)

    def note_check(self, rtt_s: float | None, now: float) -> None:
        """A check left on the path in use."""
        patience = min(max(3 * (rtt_s or 0.0), _FIRST_PROBE_MIN_S), _FIRST_PROBE_MAX_S)
        doubled = patience * 2.0 ** min(self.misses, 8)
        self.next_at = now + min(doubled, max(_PROBE_MAX_S, patience))
        self.misses += 1

    def check_at(self, moment: float) -> None:
        """Ask at this moment: the path in use has changed, or is in doubt."""
        self.misses = 0
        self.next_at = moment

    def stop(self) -> None:
        """No path is in use."""
        self.misses = 0
        self.next_at = None
