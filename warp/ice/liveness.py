"""Keeps consent on the path in use, and notices when it falls silent (RFC 7675).

One pair at a time: the selected one, else the best valid one. Sends nothing itself.
"""

from __future__ import annotations

from warp.ice.consent import ConsentSchedule
from warp.ice.context import IceContext
from warp.ice.pair import CandidatePair
from warp.ice.paths import PathTimer
from warp.timers import TimerTable

_DOUBT_SPACING_S = 1.0
_SUSPECT_MISSES = 2
_GRACE_S = 1.0
"""How long a path that was valid before gets to answer before it counts as quiet."""


class Liveness:
    """Consent, silence and expiry of the path in use."""

    __slots__ = ("_config", "_consent", "_timers", "active", "is_quiet")

    def __init__(self, context: IceContext, timers: TimerTable[PathTimer]) -> None:
        self._config = context.config
        self._consent = ConsentSchedule(context.config, context.entropy)
        self._timers = timers
        self.active: CandidatePair | None = None
        self.is_quiet = False

    @property
    def is_suspect(self) -> bool:
        """Whether the path in use has left several checks unanswered."""
        return self._consent.misses >= _SUSPECT_MISSES

    def follow(self, active: CandidatePair | None, now: float) -> None:
        """Keep consent on another pair from now on, or on none."""
        self.active = active
        self.is_quiet = False
        timers = self._timers
        heard_at = None if active is None else active.last_response_at
        if heard_at is None:
            self._consent.stop()
            for reason in (PathTimer.CONSENT, PathTimer.SILENCE, PathTimer.EXPIRY):
                timers.cancel(reason)
            return
        timers.cancel(PathTimer.PATIENCE)
        if heard_at >= now:
            self._consent.note_answer(now)
        else:
            self._consent.check_at(now)
        self._arm_consent(now)
        quiet_at = max(heard_at + self._config.disconnected_after_s, now + _GRACE_S)
        timers.arm(PathTimer.SILENCE, quiet_at)
        timers.arm(PathTimer.EXPIRY, heard_at + self._config.consent_timeout_s)

    def note_answer(self, now: float) -> bool:
        """The path in use answered; returns whether it had been suspect."""
        was_suspect = self.is_suspect
        self._consent.note_answer(now)
        self._arm_consent(now)
        if self.is_quiet:
            self.is_quiet = False
            self._timers.arm(PathTimer.SILENCE, now + self._config.disconnected_after_s)
        return was_suspect

    def note_check(self, now: float) -> bool:
        """A consent check left; returns whether the path has just become suspect."""
        self._consent.note_check(None if self.active is None else self.active.rtt_s, now)
        self._arm_consent(now)
        return self._consent.misses == _SUSPECT_MISSES

    def doubt(self, now: float) -> None:
        """The peer speaks elsewhere: ask on the path in use whether it lives."""
        active, due = self.active, self._consent.next_at
        if active is None or due is None or self._consent.misses:
            return
        at = now if active.checked_at is None else max(now, active.checked_at + _DOUBT_SPACING_S)
        if at < due:
            self._consent.check_at(at)
            self._arm_consent(now)

    def _arm_consent(self, now: float) -> None:
        self._timers.arm(PathTimer.CONSENT, self._consent.next_at or now)

    def look_for_silence(self, now: float) -> None:
        """SILENCE fired: quiet unless an answer came meanwhile."""
        at = self._last_answer() + self._config.disconnected_after_s
        if at > now:
            self._timers.arm(PathTimer.SILENCE, at)
        else:
            self.is_quiet = self.active is not None

    def has_expired(self, now: float) -> bool:
        """EXPIRY fired: tell whether consent is over (RFC 7675 section 5.1)."""
        at = self._last_answer() + self._config.consent_timeout_s
        if self.active is not None and at > now:
            self._timers.arm(PathTimer.EXPIRY, at)
            return False
        return self.active is not None

    def _last_answer(self) -> float:
        return 0.0 if self.active is None else self.active.last_response_at or 0.0
