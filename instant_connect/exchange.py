"""One HTTP exchange as values: what was asked, what is answered, what is refused.

    bytes ─ io.asgi ─▶ Ask ─ signalling ─▶ Reply | Refusal ─ io.asgi ─▶ bytes

Called by every module of signalling; knows no HTTP library. A refusal is JSON in the shape that
voice APIs use: `{"error": {"type", "code", "message", ...}}`, and names the fault and the remedy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from warp.sdp import SdpError, SdpRule

SDP: Final = "application/sdp"
SDP_FRAGMENT: Final = "application/trickle-ice-sdpfrag"
JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
_MAX_SHOWN: Final = 80
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 503: "server_error"}

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNames:
    """What an offer says of the attempt that it comes beside: it may start a session, so no repr.

    `Instant-Ufrag` and `Instant-Proof`.
    """

    ufrag: str = field(repr=False)
    proof: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, read to its end. `base` is the path that the routes are mounted on."""

    content_type: str = ""
    body: bytes = b""
    parts: Mapping[str, bytes] | None = None  # of a form
    query: Mapping[str, str] = field(default_factory=dict)
    if_match: str | None = None
    base: str = ""
    client: str = ""  # address of whoever asks, as the server saw it
    attempt: AttemptNames | None = None  # which an offer comes beside
    policy: int = 0  # what the application has agreed to with whoever asks, in its own numbers
    hops: int = 0  # how often servers of the cell have handed it on
    settled: bool = False  # the attempt's owner has said that it is ours

    def alone(self) -> Ask:
        """Return the same request without its attempt, which cannot be joined from here."""
        return replace(self, attempt=AttemptNames(ufrag=""))

    now: float = 0.0  # monotonic seconds when the request was complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What goes back."""

    status: int
    body: str = ""
    content_type: str = ""
    headers: Headers = ()


class Refusal(Exception):
    """A request that is not granted: `code` for machines, the text for whoever reads the log."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Headers = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers
        self.details = dict(details or {})

    def reply(self) -> Reply:
        """Return the answer that says so."""
        kind = _TYPES.get(self.status)
        if kind is None:
            kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"type": kind, "code": self.code, "message": str(self), **self.details}
        return Reply(
            status=self.status,
            body=json.dumps({"error": error}) + "\n",
            content_type=JSON,
            headers=self.headers,
        )


def refuse_sdp(error: SdpError) -> Refusal:
    """Return the refusal of a description, with its line and the name of the rule it breaks.

    An offer that is well formed and holds nothing for us is not acceptable (RFC 9725 section
    4.4.3); every other fault is the text's.
    """
    status, code = 400, "invalid_sdp"
    if error.rule is SdpRule.NOTHING_LEFT:
        status, code = 406, "nothing_acceptable"
    details: dict[str, Any] = {"param": "sdp", "rule": error.rule.name.lower()}
    if error.line is not None:
        details["line"] = error.line
    return Refusal(status, code, str(error), details=details)


def media_type(content_type: str) -> str:
    """Return type and subtype in lower case, without parameters (RFC 9110 section 8.3.1)."""
    return content_type.partition(";")[0].strip().lower()


def require_type(ask: Ask, *accepted: str, header: str = "Accept-Post") -> str:
    """Return the media type of the body; raise `Refusal` (415) unless it is one of these."""
    kind = media_type(ask.content_type)
    if kind in accepted:
        return kind
    given = repr(kind[:_MAX_SHOWN]) if kind else "no Content-Type"
    raise Refusal(
        415,
        "unsupported_media_type",
        f"send {' or '.join(accepted)}, not {given}",
        headers=((header, ", ".join(accepted)),),
    )


def text_of(body: bytes, what: str, *, limit: int) -> str:
    """Return the text of a body or a part; raise `Refusal` when it is empty, large or no UTF-8."""
    if len(body) > limit:
        raise too_large(what, limit)
    if not body.strip():
        raise Refusal(400, "empty_body", f"{what} is empty", details={"param": what})
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(
            400,
            "invalid_utf8",
            f"{what} is not UTF-8: byte {error.start} cannot be read",
            details={"param": what},
        ) from None


def too_large(what: str, limit: int) -> Refusal:
    """Return the refusal of something beyond a limit in bytes."""
    return Refusal(
        413, "too_large", f"{what} has at most {limit} bytes", details={"limit_bytes": limit}
    )
