"""The error tree of the stack: who made the mistake decides how it travels.

`UsageError` is raised to the caller who erred; `PeerError` and `PathError` are carried by a
`Terminated` event; `InternalError` is our own bug and is raised, never hidden; `Discard` is
private: one datagram is worthless, caught at its layer's front door, traced and counted.
"""

from __future__ import annotations

import enum


class WarpError(Exception):
    """Base of every error of this package."""


class UsageError(WarpError):
    """The caller asked for something that cannot be done; the text says what to do instead."""


class InvalidState(UsageError):
    """The call does not fit the object's present state."""


class InvalidConfig(UsageError):
    """A configuration value, or a description handed in by the application, is not usable."""


class UnknownChannel(UsageError):
    """No data channel has this stream id."""


class MessageTooLarge(UsageError):
    """The message exceeds what the peer accepts (RFC 8841 section 6)."""


class PeerError(WarpError):
    """The peer is at fault or cannot do what we need; carried by an event, not raised."""


class PeerMisbehaved(PeerError):
    """The peer broke a rule that makes going on impossible.

    `rule` is an enum member (tests compare it, dashboards count it); `section` names the RFC
    section that states the rule, e.g. `"RFC 9147 section 5.5"`.
    """

    def __init__(self, rule: enum.Enum, section: str, detail: str = "") -> None:
        super().__init__(f"{rule.value} ({section})" + (f": {detail}" if detail else ""))
        self.rule = rule
        self.section = section
        self.detail = detail


class PeerIncompatible(PeerError):
    """The peer follows the rules, but we have nothing in common (versions, suites, groups)."""


class PeerAlerted(PeerError):
    """The peer sent a fatal TLS alert; `description` is its number (RFC 8446 section 6)."""

    def __init__(self, description: int, name: str = "") -> None:
        super().__init__(f"peer sent alert {description}" + (f" ({name})" if name else ""))
        self.description = description


class FingerprintMismatch(PeerError):
    """The peer's certificate is not the one its description promised (RFC 8122 section 5)."""


class PathError(WarpError):
    """The network, not the peer, ended it; carried by an event, not raised."""


class NoPath(PathError):
    """No candidate pair works (RFC 8445 section 8)."""


class ConsentLost(PathError):
    """The peer stopped answering consent checks (RFC 7675 section 5.1)."""


class HandshakeTimedOut(PathError):
    """DTLS did not finish before its deadline."""


class AssociationLost(PathError):
    """The SCTP association ended (abort, too many retransmissions)."""


class InternalError(WarpError):
    """An invariant of ours is broken: a bug in this package."""


class Discard(Exception):
    """One datagram (or record, packet, chunk) is worthless. Private to the stack.

    `reason` is a member of the raising layer's reason enum.
    """

    def __init__(self, reason: enum.Enum, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
