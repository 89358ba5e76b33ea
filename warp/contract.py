"""The five verbs that every protocol machine speaks (ARCHITECTURE section 3).

No machine reads a clock or a socket: time is an argument (`now`, monotonic seconds), datagrams
are pushed in and drained out. Draining late costs latency, never correctness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

Address: TypeAlias = tuple[str, int]
"""Host (numeric IPv4 or IPv6, without brackets or zone) and UDP port."""


class Flow(NamedTuple):
    """A local and a remote transport address: what identifies a datagram's way."""

    local: Address
    remote: Address


Datagram: TypeAlias = tuple[bytes, Flow]
"""One UDP payload and the way it goes."""


class Event:
    """Base of everything that a machine says upward. Subclasses are frozen dataclasses."""

    __slots__ = ()


@runtime_checkable
class Endpoint(Protocol):
    """A machine that talks datagrams on flows (ICE, the peer connection)."""

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        """Take in one datagram. Never raises for what a peer sent."""

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        """Drain what has to leave, in order."""

    def get_timer(self) -> float | None:
        """Return the next deadline (absolute), or None. Pure."""

    def handle_timer(self, now: float) -> None:
        """Let time pass. Early, late and repeated calls are harmless."""

    def events(self) -> Sequence[Event]:
        """Drain what has happened, in order."""


@runtime_checkable
class LayerEndpoint(Protocol):
    """The same verbs for the layers above ICE, which know no flows (DTLS, SCTP)."""

    def receive_datagram(self, data: bytes, now: float) -> None:
        """Take in one datagram. Never raises for what a peer sent."""

    def datagrams_to_send(self, now: float) -> list[bytes]:
        """Drain what has to leave, in order."""

    def get_timer(self) -> float | None:
        """Return the next deadline (absolute), or None. Pure."""

    def handle_timer(self, now: float) -> None:
        """Let time pass. Early, late and repeated calls are harmless."""

    def events(self) -> Sequence[Event]:
        """Drain what has happened, in order."""
