"""The endpoint's answer to an offer, or in one line what kind of door was shut.

Called by `attempt`. HTTP is `warp_tools.signalling`; here its failures are told apart.
"""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.parse
from collections.abc import Mapping
from typing import Final

from warp_tools.failure import CommandRefused, ToolFailure
from warp_tools.signalling import HttpCall, open_call

_UNAUTHORISED: Final = (401, 403)
_NO_ENDPOINT: Final = (404, 405, 406, 415)


async def open_door(
    url: str, offer: str, *, token: str, headers: Mapping[str, str] | None = None
) -> HttpCall:
    """Take an offer to an endpoint. Raises ToolFailure that names what is wrong and what helps."""
    try:
        return await open_call(url, offer, token=token, headers=headers)
    except CommandRefused:
        raise
    except ToolFailure as failure:
        raise ToolFailure(_explained(url, token, failure)) from failure


def _explained(url: str, token: str, failure: ToolFailure) -> str:
    cause = failure.__cause__
    host = urllib.parse.urlsplit(url).netloc.rpartition("@")[2] or url
    if isinstance(cause, urllib.error.HTTPError):
        if cause.code in _UNAUTHORISED:
            help_ = "the token was not accepted" if token else "give one with --token"
            return f"{failure}: the endpoint wants a token; {help_}"
        if cause.code in _NO_ENDPOINT:
            return f"{failure}: is this the path of a WHIP or /v1/realtime/calls endpoint?"
        return str(failure)
    reason = getattr(cause, "reason", cause)
    if isinstance(reason, socket.gaierror):
        return f"there is no host {urllib.parse.urlsplit(url).hostname or host}: {reason.strerror}"
    if isinstance(reason, ssl.SSLCertVerificationError):
        help_ = "one of your own is trusted with SSL_CERT_FILE=certificate.pem"
        return f"TLS with {host} failed: {reason.verify_message or reason}; {help_}"
    if isinstance(reason, ssl.SSLError):
        return f"TLS with {host} failed: {reason}; does it speak http:// there?"
    if isinstance(reason, ConnectionRefusedError):
        return f"nothing listens at {host}"
    if isinstance(reason, ConnectionError):  # http.client.RemoteDisconnected is one
        help_ = "; does it speak https:// there?" if url.startswith("http://") else ""
        return f"{host} hangs up without an answer{help_}"
    if isinstance(cause, TimeoutError):
        return f"{host} takes the offer and does not answer"
    if isinstance(reason, TimeoutError):
        return f"{host} does not answer over TCP"
    return str(failure)
