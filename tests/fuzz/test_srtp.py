"""Any bytes into an SRTP context: a packet or Discard, and the stream goes on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warp.errors import Discard
from warp.srtp import SrtpContext, SrtpProfile

CONTEXTS = [
    SrtpContext(profile, bytes(profile.keying_material_length), False) for profile in SrtpProfile
]


def fuzz_srtp(data: bytes) -> None:
    for context in CONTEXTS:
        for call in (context.unprotect_rtp, context.unprotect_rtcp):
            try:
                plain = call(data)
            except Discard:
                continue
            assert len(plain) < len(data)


@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    fuzz_srtp(data)


@given(st.binary(max_size=80), st.sampled_from([b"\x80\x6f", b"\x9f\xef", b"\x81\xc9"]))
def test_plausible_packets(data: bytes, start: bytes) -> None:
    fuzz_srtp(start + data)
