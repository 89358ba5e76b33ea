"""The State Cookie (RFC 9260 section 5.1.3)."""

from __future__ import annotations

import pytest

from warp.crypto import HmacSha256
from warp.errors import Discard
from warp.sctp import Agreement, Capabilities, SctpDiscard
from warp.sctp.cookie import Cookie, open_cookie, seal_cookie

KEY = HmacSha256(b"k" * 32)
AGREEMENT = Agreement(
    local_tag=0xFFFFFFFF,
    peer_tag=2,
    local_tsn=3,
    peer_tsn=0,
    peer_rwnd=5_000_000,
    outbound_streams=65535,
    inbound_streams=7,
    shared=Capabilities(True, False, True, False),
)
COOKIE = Cookie(AGREEMENT, tie_local=8, tie_peer=9)


def test_what_goes_in_comes_out() -> None:
    assert open_cookie(seal_cookie(COOKIE, KEY, 100.0), KEY, 101.5) == (COOKIE, 1.5)


def test_every_flipped_bit_is_noticed() -> None:
    sealed = seal_cookie(COOKIE, KEY, 100.0)
    for bit in range(8 * len(sealed)):
        broken = bytearray(sealed)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Discard) as caught:
            open_cookie(bytes(broken), KEY, 100.0)
        assert caught.value.reason is SctpDiscard.BAD_COOKIE


def test_other_sizes_and_other_keys() -> None:
    sealed = seal_cookie(COOKIE, KEY, 100.0)
    for data, key in (
        (sealed[:-1], KEY),
        (sealed + b"\0", KEY),
        (b"", KEY),
        (sealed, HmacSha256(b"x" * 32)),
    ):
        with pytest.raises(Discard):
            open_cookie(data, key, 100.0)
