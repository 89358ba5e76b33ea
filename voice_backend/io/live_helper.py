"""What a live session asks for of a Responses service, over where this server finds it.

The client names model, prompt and tools; address and key are the server's own and never leave it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from voice_backend.io.live_run import MakeHelper
from voice_backend.io.responses import ResponsesConfig, ResponsesHelper
from voice_backend.live.shapes import JsonObject, ResponsesBackend

_OWN = ("model", "instructions", "max_output_tokens")
_EXTRA = ("parallel_tool_calls", "reasoning", "service_tier", "text", "tool_choice", "tools")


class LiveResponses(ResponsesHelper):
    """A `ResponsesHelper` that is configured by its session's client."""

    __slots__ = ()

    def reconfigure(self, backend: ResponsesBackend) -> None:
        """Ask otherwise from now on."""
        self._config = configured(self._config, backend)


def responses_helpers(config: ResponsesConfig) -> MakeHelper:
    """Return what makes a helper for each session; `config` has address, key and defaults."""
    return lambda backend: LiveResponses(configured(config, backend))


def configured(config: ResponsesConfig, backend: ResponsesBackend) -> ResponsesConfig:
    """Return a configuration with what a client asks for in it."""
    given: JsonObject = backend.model_dump(exclude_none=True)
    members: dict[str, Any] = {name: given[name] for name in _OWN if name in given}
    extra = {**config.extra, **{name: given[name] for name in _EXTRA if name in given}}
    return replace(config, **members, extra=extra)
