"""Text and bytes as SCTP payloads, and back (RFC 8831 sections 6.6 and 8).

Used by `channel` on the way out and by `registry` on the way in.
"""

from __future__ import annotations

from typing import Final

from warp.datachannel.dcep import Ppid
from warp.errors import UsageError

# RFC 8831 section 6.6: SCTP cannot send nothing, so the empty message is one byte and its own PPID
_NOTHING: Final = b"\0"
# plain ints: comparing with them is what a message costs
_STRING: Final = int(Ppid.STRING)
_BINARY: Final = int(Ppid.BINARY)
_TEXTS: Final = frozenset({_STRING, int(Ppid.STRING_PARTIAL)})


def encode_payload(data: str | bytes | bytearray | memoryview) -> tuple[int, bytes]:
    """Return PPID and payload. A `bytes` object is passed on as it is, not copied.

    Raises `UsageError` for what is neither text that UTF-8 can hold nor bytes.
    """
    if isinstance(data, str):
        if data:
            try:
                return _STRING, data.encode()
            except UnicodeEncodeError as error:
                raise UsageError(f"a text message cannot hold {data[error.start]!r}") from None
        return Ppid.STRING_EMPTY, _NOTHING
    # bytes(10**9) would be a gigabyte of zeros
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise UsageError(f"a message is str or bytes, not {type(data).__name__}")
    payload = bytes(data)
    return (_BINARY, payload) if payload else (Ppid.BINARY_EMPTY, _NOTHING)


def decode_payload(ppid: int, payload: bytes) -> str | bytes | None:
    """Return the message, or None for a PPID that has no meaning.

    The deprecated partial PPIDs count as whole messages, as in browsers. Text that is not UTF-8
    raises `UnicodeDecodeError`.
    """
    if ppid in (_BINARY, Ppid.BINARY_PARTIAL):
        return payload
    if ppid in _TEXTS:
        return payload.decode()
    if ppid == Ppid.STRING_EMPTY:
        return ""
    return b"" if ppid == Ppid.BINARY_EMPTY else None
