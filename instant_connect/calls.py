"""The calls that signalling knows: unguessable names, one session an offer, a limit.

    Offer.key ─▶ Calls.find ─┬ known: a retry, the same answer again
                             └ new: admit ─▶ add ─▶ Call ─ end ─▶ remove

An offer is known by its key, so that a request repeated after a lost response finds the session
that it made and makes no second one; so is a session that began before its offer came. Called by
`signalling`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from instant_connect.answers import Status
from instant_connect.exchange import Refusal
from instant_connect.offers import Kind
from instant_connect.sessions import Path
from warp.entropy import Entropy

if TYPE_CHECKING:
    from warp.io import Channel

ID_BYTES: Final = 20
"""Of a name: two of the server that has the call, the rest from nowhere."""
_ID: Final = re.compile(r"rtc_([0-9a-f]{4})[0-9a-f]{36}", re.ASCII)


class CallSession(Protocol):
    """What signalling needs of a session (`warp.io.Session`)."""

    @property
    def answer(self) -> str:
        """Our last answer."""

    @property
    def remote_description(self) -> str:
        """The peer's description in force."""

    def accept_offer(self, sdp: str) -> str:
        """Answer another offer of the same peer; raises `SdpError` or `InvalidState`."""

    def add_remote_candidate(self, line: str | None) -> None:
        """Take in a trickled candidate line, or None: no more come."""

    def stats(self) -> dict[str, Any]:
        """Return counters and the times of the start's milestones."""

    def close(self) -> Awaitable[None]:
        """Say goodbye and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInfo:
    """What the application that answers is told beside the session."""

    id: str  # "rtc_..." as in the URL of the session
    kind: Kind
    client: str = ""  # the address that the offer came from
    config: Mapping[str, Any] = field(default_factory=dict)  # the JSON object sent with the offer
    dcid: int | None = None  # stream id of the events channel when it is negotiated
    path: Path | None = None  # which way the session came; None where only signalling makes one
    policy: int = 0  # what the application agreed to before the call, in its own numbers
    events: Channel | None = None  # that channel, declared on our side already


@dataclass(slots=True, kw_only=True)
class Call:
    """One live session and its place among the calls."""

    info: CallInfo
    session: CallSession
    key: str | None  # None: no offer yet, or one that was answered and has been replaced since
    status: Status | None = None  # what the offer has come to, where attempts can be joined
    restarted: bool = False  # the present ICE session was begun by a PATCH
    asked_at: float = 0.0  # monotonic seconds when the offer had been read
    answered_at: float = 0.0

    @property
    def etag(self) -> str:
        """The strong entity-tag of the present ICE session (RFC 9725 section 4.3.1)."""
        return etag_of(self.session.answer)


Room = Callable[[], str | None]
"""Says why one call more cannot be served; None when it can."""


class Calls:
    """Every live call by name and by offer; full at `limit`."""

    __slots__ = (
        "_by_id",
        "_by_key",
        "_by_session",
        "_entropy",
        "_limit",
        "_retry_after_s",
        "_server",
        "room",
    )

    def __init__(
        self, entropy: Entropy, *, limit: int, retry_after_s: int, server: int = 0
    ) -> None:
        self._entropy = entropy
        self._server = server
        self._limit = limit
        self._retry_after_s = retry_after_s
        self._by_id: dict[str, Call] = {}
        self._by_key: dict[str, Call] = {}
        self._by_session: dict[CallSession, Call] = {}
        self.room: Room | None = None
        """Whoever serves the calls says whether there is room for one more."""

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, key: str) -> Call | None:
        """Return the call that this offer has made, or None."""
        return self._by_key.get(key)

    def of(self, session: CallSession) -> Call | None:
        """Return the call of a session, or None."""
        return self._by_session.get(session)

    def get(self, call_id: str) -> Call:
        """Return a live call; raises `Refusal` (404) when there is none of this name."""
        call = self._by_id.get(call_id)
        if call is None:
            raise Refusal(
                404, "call_not_found", "there is no such call: it has ended, or it never began"
            )
        return call

    def list(self) -> list[Call]:
        """Return the live calls."""
        return list(self._by_id.values())

    def admit(self) -> None:
        """Raise `Refusal` (503) when there is no place for another call."""
        if len(self._by_id) >= self._limit:
            raise full(f"the server holds {len(self._by_id)} calls", self._retry_after_s)
        why = None if self.room is None else self.room()
        if why is not None:
            raise self.full(why)

    def full(self, why: str) -> Refusal:
        """Return the refusal of a call that there is no place for, under its own code."""
        if self.room is not None and self.room() == why:
            return full(why, self._retry_after_s, code="session_capacity")
        return full(why, self._retry_after_s)

    def new_id(self) -> str:
        """Return a name that nobody can guess: it is all that a hang-up needs.

        It says which server of several has the call (`server_of`).
        """
        return f"rtc_{self._server:04x}{self._entropy.random_bytes(ID_BYTES - 2).hex()}"

    def add(self, call: Call) -> None:
        """Know a call by its name and its offer."""
        self._by_id[call.info.id] = call
        self._by_session[call.session] = call
        if call.key is not None:
            self._by_key[call.key] = call

    def name_offer(self, call: Call, key: str | None) -> None:
        """Know a call by an offer that came later than its session, or in place of another."""
        self.forget_offer(call)
        call.key = key
        if key is not None:
            self._by_key[key] = call

    def forget_offer(self, call: Call) -> None:
        """Know the call by name only: what it was opened with has been replaced."""
        if call.key is not None and self._by_key.get(call.key) is call:
            del self._by_key[call.key]
        call.key = None

    def remove(self, call: Call) -> None:
        """Forget a call that has ended. Harmless when repeated."""
        self.forget_offer(call)
        self._by_id.pop(call.info.id, None)
        self._by_session.pop(call.session, None)


def server_of(call_id: str) -> int | None:
    """Return which server gave a call its name; None for what is no such name."""
    match = _ID.fullmatch(call_id)
    return None if match is None else int(match[1], 16)


def full(message: str, retry_after_s: int, *, code: str = "server_full") -> Refusal:
    """Return the refusal of one call too many, with the time after which to try again."""
    return Refusal(
        503,
        code,
        f"{message}: try again after {retry_after_s} s",
        headers=(("Retry-After", str(retry_after_s)),),
    )


def etag_of(answer: str) -> str:
    """Return the entity-tag of the ICE session that an answer describes.

    Credentials are drawn anew for every ICE session, so that they tell them apart.
    """
    lines = [
        line for line in answer.splitlines() if line.startswith(("a=ice-ufrag:", "a=ice-pwd:"))
    ]
    return f'"{hashlib.sha256("".join(lines[:2]).encode()).hexdigest()[:24]}"'
