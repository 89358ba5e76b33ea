"""The signalling of pipecat's small WebRTC transport: JSON at one path, for its clients.

    POST  {"sdp", "type": "offer", "pc_id"?, "restart_pc"?, "request_data"?}
          ─┬ no pc_id, or restart_pc ─▶ a new call       ─▶ {"sdp", "type": "answer", "pc_id"}
           └ pc_id of a live call ────▶ another offer of it
    PATCH {"pc_id", "candidates": [{"candidate", "sdp_mid", "sdp_mline_index"}]}

`pc_id` is the id of the call, which the other routes know as well. Called by `io.asgi`; whatever is
not granted is a `Refusal`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from instant_connect.calls import Call
from instant_connect.exchange import JSON, Ask, Refusal, Reply, require_type, text_of
from instant_connect.offers import Kind, Offer, described, offer_key, parse_object
from instant_connect.signalling import PATHS, Signalling, status_headers

MAX_CANDIDATES: Final = 100


class PipecatDoor:
    """Offers and candidates of pipecat's clients, for the calls of `signalling`."""

    __slots__ = ("_limit", "_signalling")

    def __init__(self, signalling: Signalling, *, max_body_bytes: int) -> None:
        self._signalling = signalling
        self._limit = max_body_bytes

    async def open(self, ask: Ask, clock: Callable[[], float]) -> Reply:
        """Answer an offer, of a new call or of one that is under way."""
        value = self._read(ask)
        sdp, known = _text(value, "sdp"), self._named(value)
        if value.get("type") != "offer":
            raise _refused("invalid_type", 'type is "offer"', "type")
        description = described(sdp)
        if known is not None and not value.get("restart_pc"):
            self._signalling.renegotiate(known, sdp)
            return _reply(known, ask)
        if known is not None:
            await self._signalling.hang_up(known.info.id)
        data = value.get("request_data", value.get("requestData"))
        config = data if isinstance(data, dict) else {} if data is None else {"data": data}
        offer = Offer(sdp, offer_key(Kind.PIPECAT, description, None), config, None)
        return _reply(self._signalling.begin(ask, Kind.PIPECAT, offer, clock), ask)

    def patch(self, ask: Ask) -> Reply:
        """Take in trickled candidates."""
        value = self._read(ask)
        call = self._signalling.calls.get(_text(value, "pc_id"))
        candidates = value.get("candidates")
        if not isinstance(candidates, list) or len(candidates) > MAX_CANDIDATES:
            what = f"candidates is a list of at most {MAX_CANDIDATES}"
            raise _refused("invalid_candidates", what, "candidates")
        lines = []
        for item in candidates:
            line = item.get("candidate") if isinstance(item, dict) else None
            if not isinstance(line, str):
                what = "each candidate is an object with a text named candidate"
                raise _refused("invalid_candidates", what, "candidates")
            lines.append(line)
        for line in lines:
            self._signalling.trickle(call, line or None)
        return _json(200, {"status": "success"})

    def _read(self, ask: Ask) -> dict[str, Any]:
        require_type(ask, JSON)
        return parse_object(text_of(ask.body, "the request", limit=self._limit), "the request")

    def _named(self, value: Mapping[str, Any]) -> Call | None:
        """Return the call of `pc_id`; a name that nobody has begins another, as with pipecat."""
        name = value.get("pc_id")
        if name is None:
            return None
        if not isinstance(name, str):
            raise _refused("invalid_pc_id", "pc_id is a text", "pc_id")
        try:
            return self._signalling.calls.get(name)
        except Refusal:
            return None


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise _refused(f"missing_{name}", f"the object has no text named {name}", name)
    return found


def _reply(call: Call, ask: Ask) -> Reply:
    answer = {"sdp": call.session.answer, "type": "answer", "pc_id": call.info.id}
    place = ("Location", f"{ask.base}{PATHS[Kind.REALTIME]}/{call.info.id}")
    return _json(200, answer, (place, *status_headers(call, ask)))


def _json(status: int, value: object, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    return Reply(status=status, body=json.dumps(value), content_type=JSON, headers=headers)


def _refused(code: str, message: str, param: str) -> Refusal:
    return Refusal(400, code, message, details={"param": param})
