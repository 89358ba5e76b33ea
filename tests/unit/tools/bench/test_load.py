"""The caller of the media bench drops media in the kernel, and nothing else."""

from __future__ import annotations

import socket
import sys

import pytest

from warp_tools.bench.load import drop_media, listeners

STUN = b"\x00\x01" + bytes(18)
DTLS_12 = b"\x16\xfe\xfd" + bytes(20)
DTLS_13 = b"\x2f" + bytes(20)
RTP = b"\x80\x6f" + bytes(20)
RTP_MARKED = b"\x90\xef" + bytes(20)
RTCP_SR = b"\x80\xc8" + bytes(26)
RTCP_FIRST, RTCP_LAST = b"\x80\xc0" + bytes(6), b"\xbf\xdf" + bytes(6)
BESIDE = b"\xbf\xe0" + bytes(20), b"\xbf\xbf" + bytes(20)


@pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
def test_only_media_is_dropped() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer,
    ):
        ours.bind(("127.0.0.1", 0))
        ours.settimeout(10)
        drop_media(ours.fileno())
        assert ours.fileno() >= 0  # still ours
        wanted = [STUN, DTLS_12, DTLS_13, RTCP_SR, RTCP_FIRST, RTCP_LAST, b"\xc0", b"\x7f"]
        for data in (RTP, RTP_MARKED, *BESIDE, *wanted):
            peer.sendto(data, ours.getsockname())
        assert [ours.recv(2048) for _ in wanted] == wanted
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.recv(2048)


def test_one_call_in_sixteen_listens() -> None:
    assert [listeners(n) for n in (1, 16, 17, 600)] == [1, 1, 2, 38]
