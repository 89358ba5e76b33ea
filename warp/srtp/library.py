"""The operations of libsrtp on one scratch buffer a thread, instead of one a session.

pylibsrtp's own `Session` takes every packet through a buffer of that session, which is cold when
hundreds of sessions take turns, and four Python objects a call. Here its compiled binding is called
as its `Session` calls it. Called by `context` only.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from pylibsrtp import Error, Policy

try:
    from pylibsrtp._binding import ffi, lib
except ImportError as error:
    raise ImportError(
        "this pylibsrtp has no compiled binding at pylibsrtp._binding: install pylibsrtp 1.x"
    ) from error

BUFFER_BYTES: Final = 1500
TRAILER_BYTES: Final = 16 + 128
"""What libsrtp may append to RTP: tag and MKI at their largest; to RTCP four bytes more."""
MAX_RTP_BYTES: Final = BUFFER_BYTES - TRAILER_BYTES
MAX_RTCP_BYTES: Final = MAX_RTP_BYTES - 4

OK: Final = lib.srtp_err_status_ok
protect = lib.srtp_protect
protect_rtcp = lib.srtp_protect_rtcp
unprotect = lib.srtp_unprotect
unprotect_rtcp = lib.srtp_unprotect_rtcp


Scratch: TypeAlias = tuple[Any, Any, Any]
"""Room for one packet in the hands of libsrtp: its data, Python's view of them, their length."""


def make_scratch() -> Scratch:
    """Return a new buffer."""
    data = ffi.new("char[]", BUFFER_BYTES)
    return data, ffi.buffer(data), ffi.new("int *")


free: Final[list[Scratch]] = [make_scratch()]
"""Take one from the end, put it back: the binding lets other threads run while libsrtp works."""


def take() -> Scratch:
    """Return a free buffer; there are as many as threads ever used one at the same time."""
    try:
        return free.pop()
    except IndexError:
        return make_scratch()


def open_session(policy: Policy) -> Any:
    """Return a handle on a session of this policy, freed with its last reference.

    Raises `pylibsrtp.Error` when this build of libsrtp cannot do it.
    """
    handle = ffi.new("srtp_t *")
    status = lib.srtp_create(handle, policy._policy)
    if status != OK:
        raise Error(f"srtp_create: status {status}")
    return ffi.gc(handle[0], lib.srtp_dealloc)
