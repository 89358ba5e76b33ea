"""The caller of `warp bench media`, the same for both stacks: it must not be what is measured.

Calls are set up and kept up as any other. Then all speak on the grid; one in sixteen listens as
well, and what comes back to the others is dropped by the kernel before it wakes anybody. A caller
that opened all that a server sends would need its core before the server needs its own.

    audio_out ─▶ SRTP ─▶ socket          socket ─▶ filter ─ STUN, DTLS, RTCP ─▶ the call
                                                      └──── media ─▶ dropped
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from typing import Final

from warp.io.udp import UdpSocket
from warp.rtp import AudioFrame
from warp_tools.bench.ours import OurParty

LISTENER_EVERY: Final = 16
_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD_BYTE, _AT_LEAST, _MORE_THAN, _RETURN = 0x30, 0x35, 0x25, 0x06
_UDP_HEADER = 8
# classic BPF: RTP has a first byte of 128 to 191, and RTCP a second one of 192 to 223 (RFC 5761)
NO_MEDIA: Final = (
    (_LOAD_BYTE, 0, 0, _UDP_HEADER),
    (_AT_LEAST, 0, 5, 128),
    (_MORE_THAN, 4, 0, 191),
    (_LOAD_BYTE, 0, 0, _UDP_HEADER + 1),
    (_AT_LEAST, 0, 1, 192),
    (_MORE_THAN, 0, 1, 223),
    (_RETURN, 0, 0, 0),
    (_RETURN, 0, 0, 0xFFFF),
)


def drop_media(descriptor: int) -> None:
    """Let a UDP socket receive all but RTP; where the system has no such filter, all of it."""
    if sys.platform != "linux":
        return
    program = b"".join(_INSTRUCTION.pack(*one) for one in NO_MEDIA)
    held = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions, and where they are
    filter_ = struct.pack("@HP", len(NO_MEDIA), ctypes.addressof(held))
    with socket.socket(fileno=descriptor) as sock:
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)
        sock.detach()


class LoadParty(OurParty):
    """Calls, speaks, and counts what comes back to those who listen (`packets`)."""

    async def start_media(self) -> None:
        """Speak; most stop listening."""
        for number, session in enumerate(self._sessions.values()):
            if number % LISTENER_EVERY == 0:
                session.audio_in.set_reader(self._count)
                continue
            for port, _ in session.routes:
                if isinstance(port.sock, UdpSocket):
                    drop_media(port.sock.fileno())
        await super().start_media()

    def _count(self, frames: list[AudioFrame]) -> None:
        self.packets += sum(frame.payload is not None for frame in frames)


def listeners(sessions: int) -> int:
    """How many of so many calls listen."""
    return -(-sessions // LISTENER_EVERY)
