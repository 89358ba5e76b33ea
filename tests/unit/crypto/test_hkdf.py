"""HKDF against RFC 5869 and the labelled expansion against a published DTLS 1.3 trace."""

from __future__ import annotations

import hashlib

import pytest

from warp.crypto import ExpandKey, hkdf_expand, hkdf_expand_label, hkdf_extract, hmac_digest

h = bytes.fromhex


@pytest.mark.parametrize(
    ("ikm", "salt", "info", "length", "prk", "okm"),
    [
        pytest.param(
            b"\x0b" * 22,
            bytes(range(13)),
            bytes(range(0xF0, 0xFA)),
            42,
            "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
            id="RFC 5869 A.1",
        ),
        pytest.param(
            bytes(range(0x50)),
            bytes(range(0x60, 0xB0)),
            bytes(range(0xB0, 0x100)),
            82,
            "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
            "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
            "cc30c58179ec3e87c14c01d5c1f3434f1d87",
            id="RFC 5869 A.2",
        ),
        pytest.param(
            b"\x0b" * 22,
            b"",
            b"",
            42,
            "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
            id="RFC 5869 A.3",
        ),
    ],
)
def test_rfc5869(ikm, salt, info, length, prk, okm):
    assert hkdf_extract(salt, ikm, "sha256") == h(prk)
    assert hkdf_expand(h(prk), info, length, "sha256") == h(okm)


def test_expand_has_an_end():
    with pytest.raises(ValueError, match="cannot expand"):
        hkdf_expand(bytes(32), b"", 255 * 32 + 1, "sha256")


# The public "illustrated DTLS 1.3" connection: TLS_AES_128_GCM_SHA256, X25519
EARLY = h("33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a")
DERIVED = h("b17bce9451ee8bc6e8aebc0aa9e98295677a4a6a91f78440833146e465f2ff95")
ECDHE = h("df4a291baa1eb7cfa6934b29b474baad2697e29f1f920dcc77c8a0a088447624")
HELLOS = h("aee8eba0d2ee87052fbbc6864c1514c5a927d6f0ffb4f7954c7f379d95f1b1d7")
HANDSHAKE = h("d0d1397bb3c445d37f26f7ed00c83b73d2f67540de3761465ffe524f8f944e12")


def test_secret_chain_of_the_illustrated_trace():
    assert hkdf_extract(b"", bytes(32), "sha256") == EARLY
    empty = hashlib.sha256().digest()
    assert hkdf_expand_label(EARLY, b"derived", empty, 32, "sha256") == DERIVED
    assert hkdf_extract(DERIVED, ECDHE, "sha256") == HANDSHAKE


@pytest.mark.parametrize(
    ("label", "secret", "key", "iv", "sn", "finished"),
    [
        (
            b"c hs traffic",
            "33e472fb8d821b0193314626bebee307ccbd1aeb3d3a17ba468888ffc5246da1",
            "6caa2633d5e48f10051e69dc45549c97",
            "106dc6e393b7a9ea8ef29dd7",
            "beed6218676635c2cb46a45694144fec",
            "82e2cbff51136d6a2f44f0e4951bfebe7d01861f92bab02a4f9648c2dc91f155",
        ),
        (
            b"s hs traffic",
            "8ad7990b9d249bcbaa0805d8d3f3ad2259e75f3a42c5d84db3ea3c6ee57b3d38",
            "004e03e64ab6cba6b542775ec230e20a",
            "6d9924be044ee97c624913f2",
            "7173fac51194e775001d625ef69d7c9f",
            "57e7553eaa872bf06b3d56aaa9390541ff81cdc66c142898bd96be5e8cd07b3b",
        ),
    ],
)
def test_traffic_keys_of_the_illustrated_trace(label, secret, key, iv, sn, finished):
    traffic = hkdf_expand_label(HANDSHAKE, label, HELLOS, 32, "sha256")
    assert traffic == h(secret)
    assert hkdf_expand_label(traffic, b"key", b"", 16, "sha256") == h(key)
    assert hkdf_expand_label(traffic, b"iv", b"", 12, "sha256") == h(iv)
    assert hkdf_expand_label(traffic, b"sn", b"", 16, "sha256") == h(sn)
    assert hkdf_expand_label(traffic, b"finished", b"", 32, "sha256") == h(finished)


def test_the_label_prefix_has_no_space():
    """RFC 9147 section 5.9: `dtls13`, where TLS has `tls13 `."""
    info = (32).to_bytes(2, "big") + b"\x0ddtls13derived" + b"\x00"
    expected = hmac_digest(EARLY, info + b"\x01", "sha256")
    assert hkdf_expand_label(EARLY, b"derived", b"", 32, "sha256") == expected


@pytest.mark.parametrize(("hash_name", "most"), [("sha256", 32), ("sha384", 48)])
def test_a_key_for_many_labels_expands_as_each_label_alone(hash_name, most):
    secret = bytes(range(most))
    key = ExpandKey(secret, hash_name)
    for label, context, length in ((b"key", b"", 16), (b"iv", b"", 12), (b"s hs", HELLOS, most)):
        expected = hkdf_expand_label(secret, label, context, length, hash_name)
        assert key.expand_label(label, context, length) == expected
    labels = ((b"key", 16), (b"iv", 12), (b"s hs", most))
    for context in (b"", HELLOS):
        assert key.expand_labels(labels, context) == [
            hkdf_expand_label(secret, label, context, length, hash_name) for label, length in labels
        ]
    with pytest.raises(ValueError, match="one block"):
        key.expand_label(b"key", b"", most + 1)
