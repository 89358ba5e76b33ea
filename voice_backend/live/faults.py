"""What a client did wrong, as the `error` event says it."""

from __future__ import annotations

from voice_backend.live.server_events import Error

INVALID = "invalid_request_error"


class LiveFault(Exception):
    """One command is refused; the session goes on."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        kind: str = INVALID,
        client_event_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.kind = kind
        self.client_event_id = client_event_id

    def error(self) -> Error:
        """Return the body of the `error` event."""
        return Error(
            type=self.kind,
            code=self.code,
            message=self.message,
            param=self.param,
            client_event_id=self.client_event_id,
        )
