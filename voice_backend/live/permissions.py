"""What a page that nobody trusts may send and see on its data channel.

Fixed at the start by `client.data_channel.allowed_client_events` and `allowed_server_events`:
"all", or nothing said, allows everything, an empty list nothing. Trusted sidebands are not
concerned.
"""

from __future__ import annotations

from voice_backend.live.shapes import DataChannelConfig, ServerEventSelector

NEVER_OVER_MEDIA = frozenset({"session.start", "session.input_audio.append"})
"""Events that belong to a WebSocket: media sessions have a track, and begin with their offer."""


class Permissions:
    """One door's lists."""

    __slots__ = ("_client", "_response", "_server")

    def __init__(self, config: DataChannelConfig | None = None) -> None:
        self._client: frozenset[str] | None = None
        self._server: frozenset[str] | None = None
        self._response: frozenset[str] = frozenset()
        if config is None:
            return
        client, server = config.allowed_client_events, config.allowed_server_events
        if isinstance(client, list):
            self._client = frozenset(client)
        if isinstance(server, list):
            names, nested = set(), set()
            for entry in server:
                if isinstance(entry, ServerEventSelector) and entry.response_event is not None:
                    nested.add(entry.response_event)
                else:
                    names.add(entry.type if isinstance(entry, ServerEventSelector) else entry)
            self._server = frozenset(names)
            self._response = frozenset(nested)

    @property
    def limited(self) -> bool:
        """Whether anything is not allowed."""
        return self._client is not None or self._server is not None

    def may_send(self, kind: str) -> bool:
        """Whether a client event of this type is taken."""
        return self._client is None or kind in self._client

    def may_see(self, kind: str, response_event: str | None = None) -> bool:
        """Whether a server event of this type is sent."""
        if self._server is None or kind in self._server:
            return True
        return kind == "response.event" and response_event in self._response
