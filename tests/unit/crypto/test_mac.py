"""HMAC against RFC 2202 and RFC 4231, and the PRF of TLS 1.2."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp.crypto import HmacSha1, HmacSha256, constant_time_equal, hmac_digest, prf12

h = bytes.fromhex
LONG = b"Test Using Larger Than Block-Size Key - Hash Key First"


@pytest.mark.parametrize(
    ("key", "data", "digest"),
    [
        (b"\x0b" * 20, b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
        (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        (b"\xaa" * 20, b"\xdd" * 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
        (b"\xaa" * 80, LONG, "aa4ae5e15272d00e95705637ce8a3b55ed402112"),
    ],
)
def test_rfc2202(key, data, digest):
    keyed = HmacSha1(key)
    assert keyed.digest(data) == keyed.digest(data) == h(digest)
    assert hmac_digest(key, data, "sha1") == h(digest)


@pytest.mark.parametrize(
    ("key", "data", "digest"),
    [
        (
            b"\x0b" * 20,
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            b"\xaa" * 131,
            LONG,
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ],
)
def test_rfc4231(key, data, digest):
    keyed = HmacSha256(key)
    assert keyed.digest(data) == keyed.digest(data) == h(digest)
    assert hmac_digest(key, data, "sha256") == h(digest)


def test_prf_sha256():
    """The vector published on the TLS working group's list for RFC 5246's PRF."""
    out = prf12(
        h("9bbe436ba940f017b17652849a71db35"),
        b"test label",
        h("a0ba9f936cda311827a6f796ffd5198c"),
        100,
        "sha256",
    )
    assert out == h(
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a"
        "6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17abfd3797c0564bab"
        "4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701"
        "87347b66"
    )


def test_constant_time_equal():
    assert constant_time_equal(b"ab", b"ab")
    assert not constant_time_equal(b"ab", b"ac")
    assert not constant_time_equal(b"ab", b"abc")


@given(
    st.sampled_from(["sha1", "sha256", "sha384", "sha512"]),
    st.binary(max_size=300),
    st.binary(max_size=300),
)
def test_any_key_gives_what_the_standard_library_gives(name, key, data):
    assert hmac_digest(key, data, name) == hmac.digest(key, data, name)
