"""ICE generations: keys and paths; a restart makes another (RFC 8445 section 9).

While a restart is under way two live side by side: the earlier one carries media and answers
checks until the new one has selected a pair.
"""

from __future__ import annotations

from warp.errors import Discard, InternalError
from warp.ice.check import unknown_required
from warp.ice.checks_full import FullChecks
from warp.ice.context import IceContext, IceDiscard
from warp.ice.credentials import IceCredentials
from warp.ice.keys import Keys
from warp.ice.lite import LitePaths
from warp.ice.paths import Paths, PathStatus
from warp.ice.transactions import Transaction
from warp.stun import Message


class Generation:
    """Keys and the paths found with them."""

    __slots__ = ("keys", "paths")

    def __init__(self, context: IceContext, local: IceCredentials) -> None:
        self.keys = Keys(local)
        self.paths: Paths = (
            LitePaths(context) if context.config.lite else FullChecks(context, self.keys)
        )


class Generations:
    """The present generation, and during a restart the earlier one."""

    __slots__ = ("_context", "current", "previous")

    def __init__(self, context: IceContext, local: IceCredentials) -> None:
        self._context = context
        self.current = Generation(context, local)
        self.previous: Generation | None = None

    def all(self) -> tuple[Generation, ...]:
        """Return those alive, the present one first."""
        if self.previous is None:
            return (self.current,)
        return self.current, self.previous

    @property
    def in_use(self) -> Generation:
        """Whose path carries media: the earlier one's as long as it is selected and alive."""
        previous = self.previous
        if previous is None or previous.paths.flow is None:
            return self.current
        if self.current.paths.flow is None or previous.paths.status() is not PathStatus.QUIET:
            return previous
        return self.current

    def restart(self, local: IceCredentials) -> None:
        """Begin another; of several unfinished restarts only the last one counts."""
        if self.previous is not None and self.previous.paths.flow is not None:
            self.current.paths.close()
        else:
            self.previous = self.current
        self.current = Generation(self._context, local)

    def retire(self) -> None:
        """Drop the earlier one once it is replaced or dead."""
        previous = self.previous
        if previous is None:
            return
        dead = previous.paths.status() in (PathStatus.CONSENT_LOST, PathStatus.EXHAUSTED)
        if dead or self.current.paths.selected_flow is not None:
            previous.paths.close()
            self.previous = None

    def admit(self, username: bytes) -> Generation:
        """Return whose request this is; raises `Discard`."""
        if self.current.keys.admit(username):
            return self.current
        if self.previous is not None and self.previous.keys.admit(username):
            return self.previous
        raise Discard(IceDiscard.UNKNOWN_USERNAME)

    def open_check(self, message: Message) -> tuple[Generation, Transaction]:
        """Return the check that an authenticated answer belongs to; raises `Discard`."""
        generation = self.current
        check = generation.paths.find(message.transaction_id)
        if check is None and self.previous is not None:
            generation = self.previous
            check = generation.paths.find(message.transaction_id)
        if check is None:
            raise Discard(IceDiscard.UNKNOWN_TRANSACTION)
        key = generation.keys.remote_key
        if key is None:
            raise InternalError("a check was sent without the peer's password")
        if not message.verify_integrity(key):
            raise Discard(IceDiscard.WRONG_INTEGRITY)
        if unknown_required(message):
            raise Discard(IceDiscard.UNKNOWN_REQUIRED_ATTRIBUTE)
        return generation, check

    def switch_role(self, now: float) -> None:
        """Take the other role and recompute what depends on it."""
        context = self._context
        context.role = context.role.opposite
        context.emit(now, "ice:role_switched", role=context.role.value)
        for generation in self.all():
            generation.paths.set_role(context.role, now)

    def close(self) -> None:
        """Fall silent."""
        for generation in self.all():
            generation.paths.close()
        self.previous = None
