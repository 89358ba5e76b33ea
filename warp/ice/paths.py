"""What the agent asks of one generation's paths, full (`checks_full`) or lite (`lite`)."""

from __future__ import annotations

from typing import Protocol

from warp.contract import Address, Flow
from warp.ice.candidate import Candidate
from warp.ice.check import CheckRequest
from warp.ice.config import IceRole
from warp.ice.transactions import Transaction
from warp.names import Name
from warp.timers import TimerTable


class PathStatus(Name):
    """What a generation's paths amount to."""

    WAITING = "no path yet"
    USABLE = "a path works"
    SELECTED = "a path is selected"
    QUIET = "the path in use has gone quiet"
    CONSENT_LOST = "consent has expired"
    EXHAUSTED = "every pair has failed"


class PathTimer(Name):
    """Why a generation wants to be woken."""

    CHECK = "a connectivity check is due"
    CONSENT = "a consent check is due"
    SILENCE = "the path in use may have gone quiet"
    EXPIRY = "consent may have expired"
    PATIENCE = "time to give up on pairs"
    NOMINATION = "no longer wait for a better pair"


class Paths(Protocol):
    """The paths of one generation."""

    @property
    def timers(self) -> TimerTable[PathTimer]:
        """Its deadlines: `due` is when `handle_timer` is wanted next."""

    @property
    def flow(self) -> Flow | None:
        """Where to send now."""

    @property
    def selected_flow(self) -> Flow | None:
        """The nominated flow."""

    @property
    def is_validated(self) -> bool:
        """Whether the peer has proved to receive on `flow` (lite: to send on it)."""

    @property
    def rtt_s(self) -> float | None:
        """Smoothed round-trip time of the path in use."""

    def status(self) -> PathStatus:
        """Return what the paths amount to. Pure."""

    def start(self, now: float) -> None:
        """Begin; checks leave when the peer's credentials are known."""

    def note_remote(self, now: float) -> None:
        """The peer's credentials are known."""

    def set_role(self, role: IceRole, now: float) -> None:
        """The role has changed."""

    def add_local(self, candidate: Candidate, base: Address, now: float) -> None:
        """Take a local candidate."""

    def add_remote(self, candidate: Candidate, now: float) -> None:
        """Take a signalled candidate."""

    def remove_local_host(self, host: str, now: float) -> None:
        """An interface went away."""

    def receive_request(self, request: CheckRequest, flow: Flow, now: float) -> bool:
        """Take an authenticated request; returns whether it was the first on its flow."""

    def find(self, transaction_id: bytes) -> Transaction | None:
        """Return our open check of this id."""

    def receive_success(
        self, transaction_id: bytes, check: Transaction, mapped: Address | None, now: float
    ) -> None:
        """Take the authenticated answer to a check."""

    def receive_conflict(self, transaction_id: bytes, check: Transaction, now: float) -> None:
        """A check was answered 487: repeat it (the role has been changed already)."""

    def receive_refusal(self, transaction_id: bytes, check: Transaction, now: float) -> None:
        """A check was refused for good."""

    def request_check(self, now: float, burst: int) -> None:
        """Send `burst` checks at once on the best pair."""

    def check_flow(self, flow: Flow, now: float) -> None:
        """Authenticated media came from an unknown flow: check it."""

    def nominate(self, flow: Flow, now: float) -> None:
        """Nominate this flow."""

    def handle_timer(self, now: float) -> None:
        """Let time pass."""

    def close(self) -> None:
        """Forget everything and fall silent."""
