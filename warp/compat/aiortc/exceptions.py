"""What is raised to callers, under aiortc's names, below this stack's `UsageError`."""

from __future__ import annotations

from warp.errors import UsageError


class InternalError(UsageError):
    """There is nothing to offer or to answer with."""


class InvalidAccessError(UsageError):
    """The object does not take this argument."""


class InvalidStateError(UsageError):
    """The call does not fit the object's present state."""


class OperationError(UsageError):
    """The operation failed: a channel's buffer is full, for instance."""


class NotSupportedError(UsageError):
    """aiortc has it, and this stack has not: video, most of all."""
