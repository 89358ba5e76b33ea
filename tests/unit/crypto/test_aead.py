"""Ciphers and masks against RFC 8439, FIPS 197 and the GCM specification's test cases."""

from __future__ import annotations

import pytest

from warp.crypto import Aead, AeadKind, DecryptError, RecordNumberMask

h = bytes.fromhex


def test_chacha20_poly1305_of_rfc8439():
    """RFC 8439 section 2.8.2."""
    aead = Aead(AeadKind.CHACHA20_POLY1305, bytes(range(0x80, 0xA0)))
    nonce, aad = h("070000004041424344454647"), h("50515253c0c1c2c3c4c5c6c7")
    plain = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for "
        b"the future, sunscreen would be it."
    )
    sealed = aead.seal(nonce, plain, aad)
    assert sealed[:16] == h("d31a8d34648e60db7b86afbc53ef7ec2")
    assert sealed[-16:] == h("1ae10b594f09e26a7e902ecbd0600691")
    assert aead.open(nonce, sealed, aad) == plain


@pytest.mark.parametrize(
    ("kind", "key", "tag"),
    [
        (
            AeadKind.AES_128_GCM,
            "feffe9928665731c6d6a8f9467308308",
            "5bc94fbc3221a5db94fae95ae7121a47",
        ),
        (
            AeadKind.AES_256_GCM,
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ],
)
def test_gcm_test_cases_4_and_16(kind, key, tag):
    plain = h(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    aad = h("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    sealed = Aead(kind, h(key)).seal(h("cafebabefacedbaddecaf888"), plain, aad)
    assert sealed[-16:] == h(tag)


@pytest.mark.parametrize("kind", list(AeadKind))
def test_what_was_not_sealed_does_not_open(kind):
    aead = Aead(kind, bytes(kind.key_length))
    sealed = aead.seal(bytes(12), b"content", b"aad")
    assert len(sealed) == 7 + 16
    wrong = [(bytes(12), sealed[:end], b"aad") for end in range(len(sealed))]
    wrong += [(bytes(12), sealed, b"other"), (b"\1" * 12, sealed, b"aad")]
    for nonce, ciphertext, aad in wrong:
        with pytest.raises(DecryptError):
            aead.open(nonce, ciphertext, aad)


def test_aes_mask_is_one_block():
    """FIPS 197 appendices C.1 and C.3; the context serves many samples."""
    block = h("00112233445566778899aabbccddeeff")
    mask = RecordNumberMask(AeadKind.AES_128_GCM, bytes(range(16)))
    for _ in range(3):
        assert mask.mask(block) == h("69c4e0d86a7b0430d8cdb78070b4c55a")
    mask = RecordNumberMask(AeadKind.AES_256_GCM, bytes(range(32)))
    assert mask.mask(block) == h("8ea2b7ca516745bfeafc49904b496089")


def test_chacha_mask_takes_counter_and_nonce_from_the_sample():
    """RFC 8439 section 2.3.2: counter 1, that nonce, first two bytes of the key stream."""
    mask = RecordNumberMask(AeadKind.CHACHA20_POLY1305, bytes(range(32)))
    sample = h("01000000" + "000000090000004a00000000")
    for _ in range(3):
        assert mask.mask(sample) == h("10f1")


@pytest.mark.parametrize("kind", list(AeadKind))
@pytest.mark.parametrize("maker", [Aead, RecordNumberMask])
def test_keys_have_one_length(kind, maker):
    with pytest.raises(ValueError, match="takes a key"):
        maker(kind, bytes(kind.key_length + 1))
