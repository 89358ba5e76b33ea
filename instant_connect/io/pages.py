"""The page and its modules, as files of the package `instant_connect.web`.

Sent with headers that let the page load nothing but its own modules and call nobody but us, and
with the operator's origin-trial tokens. Called by `asgi`.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from instant_connect.exchange import Refusal

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".ts": "application/typescript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".wav": "audio/wav",
}
"""What is served; anything else in the folder is not."""
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; "
        "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_MAX_DEPTH: Final = 4


class Pages:
    """Answers GET with a file; read anew for each request, so that an edit shows at once."""

    __slots__ = ("_root", "_trials")

    def __init__(self, origin_trials: tuple[str, ...], root: Traversable | None = None) -> None:
        self._trials = origin_trials
        self._root = root if root is not None else resources.files("instant_connect.web")

    def get(self, request: Request, path: str) -> Response:
        """Return a file, or 304 when the browser has it; raises `Refusal` (404) for no file."""
        kind, content = self._read(path or "index.html")
        tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
        headers = {**SECURITY_HEADERS, "Cache-Control": "no-cache", "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            response = Response(status_code=304, headers=headers)
        else:
            response = Response(content, headers=headers, media_type=kind)
        if kind.startswith("text/html"):
            for token in self._trials:
                response.headers.append("Origin-Trial", token)
        return response

    def _read(self, path: str) -> tuple[str, bytes]:
        names = path.split("/")
        kind = TYPES.get("." + names[-1].rpartition(".")[2])
        if kind is not None and len(names) <= _MAX_DEPTH and all(map(_NAME.fullmatch, names)):
            place = self._root
            for name in names:
                place = place / name
            # what is not there, or no file, is reported in several ways
            with contextlib.suppress(OSError):
                return kind, place.read_bytes()
        raise Refusal(404, "not_found", "there is no such page")
