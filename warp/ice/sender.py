"""Sends a full agent's checks: pacing, bursts, and the bytes under way (RFC 8445 section 14).

triggered ─┐
nominating ├─▶ at once (spaced per pair)
requested ─┘
ordinary ────▶ one every Ta; the very first leaves at once
"""

from __future__ import annotations

from warp.ice.check import build_check
from warp.ice.checklist import Checklist
from warp.ice.context import IceContext
from warp.ice.keys import Keys
from warp.ice.nomination import Nominator
from warp.ice.pair import CandidatePair, PairInput
from warp.ice.rider import BODY_LIMIT_BYTES
from warp.ice.transactions import Transaction, Transactions


class CheckSender:
    """Knows when the next check is due and sends what is due."""

    __slots__ = (
        "_checklist",
        "_context",
        "_keys",
        "_last_check_at",
        "_nominator",
        "burst",
        "transactions",
    )

    def __init__(
        self, context: IceContext, keys: Keys, checklist: Checklist, nominator: Nominator
    ) -> None:
        self._context = context
        self._keys = keys
        self._checklist = checklist
        self._nominator = nominator
        self._last_check_at = float("-inf")
        self.burst = 0
        """Checks requested to leave at once on the best pair."""
        self.transactions = Transactions()

    def next_due(self, now: float) -> float | None:
        """Return when the next check may leave (maybe `now`), or None without any."""
        checklist, candidate = self._checklist, self._nominator.candidate
        if self.burst and checklist.pairs:
            return now
        if candidate is not None and candidate.due_at <= now:
            return now
        paced = self._last_check_at + self._context.config.check_interval_s
        due = checklist.ordinary_due(now if paced < now else paced)
        triggered = checklist.triggered_due()
        if triggered is not None and (due is None or triggered < due):
            due = triggered
        if candidate is not None and (due is None or candidate.due_at < due):
            due = candidate.due_at
        return now if due is not None and due < now else due

    def send_due(self, active: CandidatePair | None, now: float) -> None:
        """Send every check that is due; `active` is the path in use, if there is one."""
        checklist = self._checklist
        while (pair := checklist.pop_triggered(now)) is not None:
            self._send_several(pair, active, now)
        candidate = self._nominator.candidate
        if candidate is not None and candidate.due_at <= now:
            self.send(candidate, now)
        if self.burst:
            burst, self.burst = self.burst, 0
            best = active or checklist.best_to_check()
            if best is not None:
                for _ in range(burst):
                    self.send(best, now, extra=True)
        if now >= self._last_check_at + self._context.config.check_interval_s:
            pair = checklist.next_ordinary(now)
            if pair is not None:
                self._send_several(pair, active, now)

    def _send_several(self, pair: CandidatePair, active: CandidatePair | None, now: float) -> None:
        """Send one check, and before any pair is valid as many as the rider has use for."""
        wanted = 1
        if active is None and self._context.rider is not None:
            wanted = min(self._context.rider.wanted_checks(), self._context.config.max_burst_checks)
        self.send(pair, now)
        for _ in range(1, wanted):
            self.send(pair, now, extra=True)

    def send(self, pair: CandidatePair, now: float, *, extra: bool = False) -> None:
        """Send one check, a transaction of its own; an `extra` one does not slow the pair."""
        context, config = self._context, self._context.config
        nominates = self._nominator.marks(pair)
        under_way = self.transactions.bytes_under_way(now - config.outstanding_s)
        transaction_id = context.entropy.random_bytes(12)
        data = build_check(
            context,
            self._keys,
            pair,
            transaction_id,
            nominates=nominates,
            plain=under_way + BODY_LIMIT_BYTES > config.outstanding_bytes,
            now=now,
        )
        context.outbox.append((data, pair.flow))
        self.transactions.add(
            transaction_id, Transaction(pair, context.role, nominates, now, len(data))
        )
        pair.become(PairInput.CHECK_SENT)
        if pair.started_at is None:
            pair.started_at = now
        if not extra:
            pair.due_at = now + self._spacing_s(pair.checks)
            pair.checks += 1
        pair.checked_at = self._last_check_at = now
        if context.trace is not None:
            context.emit(now, "ice:check_sent", pair.flow, bytes=len(data), nominates=nominates)

    def _spacing_s(self, checks: int) -> float:
        """Time to the pair's next check: steady at first, then doubling."""
        config = self._context.config
        extra = checks + 2 - config.steady_checks
        if extra <= 0:
            return config.check_interval_s
        doubled = config.check_interval_s * 2.0 ** min(extra, 16)
        return max(config.check_interval_s, min(doubled, config.max_check_interval_s))
