"""AES on single blocks against FIPS 197."""

from __future__ import annotations

import pytest

from warp.crypto import BlockCipher


@pytest.mark.parametrize(
    ("key", "plain", "cipher"),
    [
        (  # appendix B
            "2b7e151628aed2a6abf7158809cf4f3c",
            "3243f6a8885a308d313198a2e0370734",
            "3925841d02dc09fbdc118597196a0b32",
        ),
        (  # appendix C.1
            "000102030405060708090a0b0c0d0e0f",
            "00112233445566778899aabbccddeeff",
            "69c4e0d86a7b0430d8cdb78070b4c55a",
        ),
    ],
)
def test_fips197(key: str, plain: str, cipher: str) -> None:
    blocks = BlockCipher(bytes.fromhex(key))
    for _ in range(2):  # a kept context has no memory of the block before
        assert blocks.encrypt(bytes.fromhex(plain)).hex() == cipher
        assert blocks.decrypt(bytes.fromhex(cipher)).hex() == plain


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 32"):
        BlockCipher(bytes(32))
