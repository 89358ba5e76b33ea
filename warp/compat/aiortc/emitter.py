"""Events by name, as aiortc's objects have them: `on`, `once`, `emit`, plain or `async` handlers.

An `async` handler runs as a task. What a handler raises is reported to the event loop's exception
handler: it never reaches the connection that emitted.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Emitter:
    """Something that others listen to. Handlers are called in the order they were added."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[tuple[Callable[..., Any], bool]]] = {}
        self._running: set[asyncio.Future[Any]] = set()

    def on(self, event: str, f: Handler | None = None) -> Any:
        """Call `f` at each `event`; without `f`, this decorates a function."""
        return self._add(event, f, once=False)

    def once(self, event: str, f: Handler | None = None) -> Any:
        """Call `f` at the next `event` only; without `f`, this decorates a function."""
        return self._add(event, f, once=True)

    def add_listener(self, event: str, f: Handler) -> Handler:
        """Call `f` at each `event`."""
        self._add(event, f, once=False)
        return f

    def remove_listener(self, event: str, f: Callable[..., Any]) -> None:
        """Call `f` no more; raises `KeyError` when it was not added."""
        kept = self._handlers.get(event, [])
        index = next((i for i, (handler, _) in enumerate(kept) if handler == f), None)
        if index is None:
            raise KeyError(f)
        del kept[index]

    def remove_all_listeners(self, event: str | None = None) -> None:
        """Forget the handlers of one event, or of all."""
        if event is None:
            self._handlers.clear()
        else:
            self._handlers.pop(event, None)

    def listeners(self, event: str) -> list[Callable[..., Any]]:
        """Return the handlers of an event."""
        return [handler for handler, _ in self._handlers.get(event, [])]

    def emit(self, event: str, *args: Any) -> bool:
        """Call every handler of `event`; whether there was one."""
        handlers = self._handlers.get(event)
        if not handlers:
            return False
        called = list(handlers)
        self._handlers[event] = [entry for entry in handlers if not entry[1]]
        for handler, _ in called:
            try:
                result = handler(*args)
            except Exception as error:
                self._report(event, error)
            else:
                if inspect.isawaitable(result):
                    self._follow(event, asyncio.ensure_future(result))
        return True

    def _add(self, event: str, f: Handler | None, *, once: bool) -> Any:
        def add(handler: Handler) -> Handler:
            self._handlers.setdefault(event, []).append((handler, once))
            return handler

        return add if f is None else add(f)

    def _follow(self, event: str, task: asyncio.Future[Any]) -> None:
        # the loop itself keeps only a weak reference to a task
        self._running.add(task)

        def end(done: asyncio.Future[Any]) -> None:
            self._running.discard(done)
            error = None if done.cancelled() else done.exception()
            if error is not None:
                self._report(event, error)

        task.add_done_callback(end)

    def _report(self, event: str, error: BaseException) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise error from None
        text = f"a handler of {event!r} failed"
        loop.call_exception_handler({"message": text, "exception": error})
