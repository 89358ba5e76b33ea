"""The checklist of one ICE generation: which pairs exist and which is checked next.

One data stream with one component (BUNDLE and rtcp-mux), so one list. RFC 8445 section 6.1.2
(forming, pruning, limits), 6.1.4 (order of checks), RFC 8838 sections 10 to 12 (trickle).

    triggered (a request came)  ─▶  waiting, best first  ─▶  unfrozen  ─▶  in progress, longest due
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from warp.contract import Address, Flow
from warp.ice.candidate import (
    Candidate,
    CandidateType,
    canonical_host,
    is_link_local,
    make_candidate,
)
from warp.ice.config import IceConfig, IceRole
from warp.ice.pair import CandidatePair, PairInput, PairState

TRIGGER_SPACING_S = 0.01
"""Least time between two checks of one pair, however many requests arrive on it."""
_UNFREEZE_AFTER_CHECKS = 3
"""So many unanswered checks, and a frozen pair of the same foundation gets its turn: a pair
fails only after `patience_s`, far too late for a port that a firewall swallows."""


class Checklist:
    """Local and remote candidates, the pairs they form, and the triggered-check queue."""

    __slots__ = ("_config", "_learned", "_triggered", "locals", "pairs", "remotes", "role")

    def __init__(self, config: IceConfig, role: IceRole) -> None:
        self._config = config
        self.role = role
        self.locals: dict[Address, Candidate] = {}
        """By base: reflexive candidates are checked from their base (section 6.1.2.4)."""
        self.remotes: dict[Address, Candidate] = {}
        self.pairs: dict[Flow, CandidatePair] = {}
        self._learned: list[Address] = []
        self._triggered: list[CandidatePair] = []

    # -- candidates -----------------------------------------------------------------

    def add_local(self, candidate: Candidate, base: Address) -> None:
        """Take a local candidate; of two with one base the higher priority stays."""
        present = self.locals.get(base)
        if present is not None and present.priority >= candidate.priority:
            return
        self.locals[base] = candidate
        if present is not None:
            for pair in self.pairs.values():
                if pair.flow.local == base:
                    pair.local = candidate
                    pair.set_role(self.role)
        for remote in self.remotes.values():
            self._form(base, remote)

    def add_remote(self, candidate: Candidate) -> bool:
        """Take a signalled candidate; False when it is redundant or beyond the limit."""
        address = candidate.address
        present = self.remotes.get(address)
        if present is not None and address not in self._learned:
            return False
        if len(self.remotes) - len(self._learned) >= self._config.max_remote_candidates:
            return False
        self.remotes[address] = candidate
        if present is not None:
            # a check overtook the signalling: keep the pair, learn its true priority
            self._learned.remove(address)
            for pair in self.pairs.values():
                if pair.flow.remote == address:
                    pair.replace_remote(candidate, self.role)
            return True
        for base in self.locals:
            self._form(base, candidate)
        return True

    def learn_remote(
        self, address: Address, priority: int, in_use: CandidatePair | None
    ) -> Candidate:
        """Return the peer-reflexive candidate for an address never signalled (7.3.1.3)."""
        learned = self._learned
        if len(learned) >= self._config.max_learned_candidates:
            spared = None if in_use is None else in_use.flow.remote
            oldest = next((a for a in learned if a != spared), learned[0])
            self._forget_remote(oldest)
        candidate = Candidate(
            # unlike every other foundation: a learned candidate freezes nobody
            foundation=f"p{zlib.crc32(repr(address).encode())}",
            component=1,
            transport="udp",
            priority=priority,
            host=canonical_host(address[0]),
            port=address[1],
            type=CandidateType.PEER_REFLEXIVE,
        )
        self.remotes[address] = candidate
        learned.append(address)
        return candidate

    def _forget_remote(self, address: Address) -> None:
        del self.remotes[address]
        self._learned.remove(address)
        for pair in [p for p in self.pairs.values() if p.flow.remote == address]:
            self._drop(pair)

    def remove_local_host(self, host: str) -> list[CandidatePair]:
        """Forget every candidate whose base is on this host; returns the pairs that went."""
        for base in [base for base in self.locals if base[0] == host]:
            del self.locals[base]
        gone = [pair for pair in self.pairs.values() if pair.flow.local[0] == host]
        for pair in gone:
            self._drop(pair)
        return gone

    def clear(self) -> None:
        """Forget everything."""
        for held in (self.locals, self.remotes, self.pairs, self._learned, self._triggered):
            held.clear()

    # -- pairs ----------------------------------------------------------------------

    def pair_for(self, flow: Flow, remote: Candidate) -> CandidatePair:
        """Return the pair on which a request came, forming it when it is new.

        A local address nobody announced is one of our sockets all the same.
        """
        pair = self.pairs.get(flow)
        if pair is None:
            local = self.locals.get(flow.local)
            if local is None:
                local = make_candidate(CandidateType.HOST, flow.local)
                self.locals[flow.local] = local
            pair = CandidatePair(flow, local, remote, self.role)
            self._make_room(pair)
            self.pairs[flow] = pair
        return pair

    def _form(self, base: Address, remote: Candidate) -> None:
        flow = Flow(base, remote.address)
        if flow in self.pairs or not _may_pair(base[0], remote.host):
            return
        pair = CandidatePair(flow, self.locals[base], remote, self.role)
        if not self._make_room(pair):
            return
        self.pairs[flow] = pair
        self._thaw_new(pair)

    def _make_room(self, pair: CandidatePair) -> bool:
        """Drop the least of the pairs without an answer when the list is full (6.1.2.5)."""
        if len(self.pairs) < self._config.max_pairs:
            return True
        spare = [p for p in self.pairs.values() if p.state is not PairState.SUCCEEDED]
        least = min(spare, key=lambda p: p.priority, default=None)
        if least is None or least.priority > pair.priority:
            return False
        self._drop(least)
        return True

    def _drop(self, pair: CandidatePair) -> None:
        del self.pairs[pair.flow]
        if pair in self._triggered:
            self._triggered.remove(pair)

    def _thaw_new(self, pair: CandidatePair) -> None:
        """Give a new pair its state (RFC 8445 section 6.1.2.6, RFC 8838 section 12)."""
        foundation = pair.foundation
        kin = [p for p in self.pairs.values() if p is not pair and p.foundation == foundation]
        busy = [p for p in kin if p.state in (PairState.WAITING, PairState.IN_PROGRESS)]
        if not busy or any(p.state is PairState.SUCCEEDED for p in kin):
            pair.become(PairInput.UNFROZEN)
        elif all(p.state is PairState.WAITING and p.priority < pair.priority for p in busy):
            for other in busy:
                other.become(PairInput.PARKED)
            pair.become(PairInput.UNFROZEN)

    def set_role(self, role: IceRole) -> None:
        """Recompute every priority for another role."""
        self.role = role
        for pair in self.pairs.values():
            pair.set_role(role)

    def valid(self) -> list[CandidatePair]:
        """The pairs whose checks were answered, best first."""
        found = [p for p in self.pairs.values() if p.state is PairState.SUCCEEDED]
        if len(found) < 2:
            return found
        return sorted(found, key=lambda p: p.priority, reverse=True)

    def open_pairs(self) -> Iterator[CandidatePair]:
        """The pairs that may still succeed by themselves."""
        return (pair for pair in self.pairs.values() if pair.is_open)

    def best_to_check(self) -> CandidatePair | None:
        """The pair on which an extra check helps most: valid, else heard from, else best."""
        return max(
            self.pairs.values(),
            key=lambda p: (
                p.state is PairState.SUCCEEDED,
                p.last_request_at or 0.0,
                p.state is not PairState.FAILED,
                p.priority,
            ),
            default=None,
        )

    # -- order of checks ------------------------------------------------------------

    def trigger(self, pair: CandidatePair) -> None:
        """Put a pair into the triggered-check queue (RFC 8445 section 7.3.1.4)."""
        if pair.state is PairState.FAILED:
            pair.started_at, pair.checks = None, 0
        pair.become(PairInput.TRIGGERED)
        if pair not in self._triggered:
            self._triggered.append(pair)

    def pop_triggered(self, now: float) -> CandidatePair | None:
        """Take the next triggered pair that is due, or None."""
        for pair in self._triggered:
            if _trigger_due(pair) <= now:
                self._triggered.remove(pair)
                return pair
        return None

    def triggered_due(self) -> float | None:
        """When the next triggered check may leave, or None."""
        if not self._triggered:
            return None
        return min((_trigger_due(pair) for pair in self._triggered), default=None)

    def next_ordinary(self, now: float) -> CandidatePair | None:
        """The pair for an ordinary check at `now`, or None (RFC 8445 section 6.1.4.2)."""
        self.fail_overdue(now)
        waiting = [p for p in self.pairs.values() if p.state is PairState.WAITING]
        if not waiting and (thawed := self._thaw_one()) is not None:
            return thawed
        if waiting:
            return max(waiting, key=lambda p: p.priority)
        due = [p for p in self.pairs.values() if p.state is PairState.IN_PROGRESS]
        due = [p for p in due if p.due_at <= now]
        return min(due, key=lambda p: (p.due_at, -p.priority), default=None)

    def ordinary_due(self, earliest: float) -> float | None:
        """When the next ordinary check is due, not before `earliest`; None without any."""
        found: float | None = None
        frozen = False
        for pair in self.pairs.values():
            state = pair.state
            if state is PairState.WAITING:
                return earliest
            if state is PairState.IN_PROGRESS:
                if found is None or pair.due_at < found:
                    found = pair.due_at
            elif state is PairState.FROZEN:
                frozen = True
        if frozen and self._frozen_next() is not None:
            return earliest
        return None if found is None else max(found, earliest)

    def fail_overdue(self, now: float) -> None:
        """Give up on pairs whose checks have gone unanswered for too long (RFC 8863)."""
        for pair in self.pairs.values():
            started = pair.started_at
            if (
                pair.state is PairState.IN_PROGRESS
                and started is not None
                and now >= started + self._config.patience_s
            ):
                pair.become(PairInput.REFUSED)

    def _frozen_next(self) -> CandidatePair | None:
        """The best frozen pair none of whose kin is waiting or freshly in progress."""
        frozen = [p for p in self.pairs.values() if p.state is PairState.FROZEN]
        if not frozen:
            return None
        fresh = {
            p.foundation
            for p in self.pairs.values()
            if p.state is PairState.WAITING
            or (p.state is PairState.IN_PROGRESS and p.checks < _UNFREEZE_AFTER_CHECKS)
        }
        return max(
            (p for p in frozen if p.foundation not in fresh),
            key=lambda p: p.priority,
            default=None,
        )

    def _thaw_one(self) -> CandidatePair | None:
        pair = self._frozen_next()
        if pair is not None:
            pair.become(PairInput.UNFROZEN)
        return pair

    def unfreeze(self, foundation: tuple[str, str]) -> None:
        """Let the kin of a pair that succeeded be checked (RFC 8445 section 7.2.5.3.3)."""
        for pair in self.pairs.values():
            if pair.state is PairState.FROZEN and pair.foundation == foundation:
                pair.become(PairInput.UNFROZEN)

    def park(self) -> None:
        """Stop ordinary and triggered checks: a pair is selected (RFC 8445 section 8.1.2)."""
        self._triggered.clear()
        for pair in self.pairs.values():
            if pair.state is not PairState.SUCCEEDED:
                # out of the way for good, unless the selected path dies
                pair.become(PairInput.REFUSED)

    def revive(self, spared: CandidatePair | None) -> None:
        """Check every pair but `spared` again: the path in use is dead or in doubt."""
        for pair in sorted(self.pairs.values(), key=lambda p: p.priority, reverse=True):
            if pair is not spared:
                self.trigger(pair)


def _trigger_due(pair: CandidatePair) -> float:
    return 0.0 if pair.checked_at is None else pair.checked_at + TRIGGER_SPACING_S


def _may_pair(local: str, remote: str) -> bool:
    """Same family, and link-local only with link-local (RFC 8445 section 6.1.2.2)."""
    return (":" in local) == (":" in remote) and is_link_local(local) == is_link_local(remote)
