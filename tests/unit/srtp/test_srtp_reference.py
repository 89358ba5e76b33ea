"""The yardstick itself, against the vectors printed in the RFCs."""

from __future__ import annotations

from tests.vectors import srtp_reference as reference

GALLIA = b"Gallia est omnis divisa in partes tres"


def test_rfc3711_appendix_b2_keystream() -> None:
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    block = int("f0f1f2f3f4f5f6f7f8f9fafbfcfd0000", 16)
    assert reference.keystream(key, block, 48).hex() == (
        "e03ead0935c95e80e166b16dd92b4eb4"
        "d23513162b02d0f72a43a2fe4a5f97ab"
        "41e95b3bb0a2e8dd477901e4fca894c0"
    )


def test_rfc3711_appendix_b3_key_derivation() -> None:
    keys = reference.derive(
        bytes.fromhex("e1f97a0d3e018be0d64fa32c06de4139"),
        bytes.fromhex("0ec675ad498afeebb6960b3aabe6"),
        reference.RTP_LABELS,
        salt_length=14,
        auth_length=94,
    )
    assert keys.key.hex() == "c61e7a93744f39ee10734afe3ff7a087"
    assert keys.salt.hex() == "30cbbc08863d8c85d49db34a9ae1"
    assert keys.auth.hex() == (
        "cebe321f6ff7716b6fd4ab49af256a15"
        "6d38baa48f0a0acf3c34e2359e6cdbce"
        "e049646c43d9327ad175578ef7227098"
        "6371c10c9a369ac2f94a8c5fbcdddc25"
        "6d6e919a48b610ef17c2041e47403576"
        "6b68642c59bbfc2f34db60dbdfb2"
    )


def test_rfc7714_section_16_srtp() -> None:
    packet = bytes.fromhex("8040f17b8041f8d35501a0b2") + GALLIA
    salt = bytes.fromhex("517569642070726f2071756f")
    short = reference.SessionKeys(bytes(range(16)), b"", salt)
    assert reference.gcm_rtp(short, packet, 0).hex() == (
        "8040f17b8041f8d35501a0b2"
        "f24de3a3fb34de6cacba861c9d7e4bcabe633bd50d294e6f42a5f47a51c7d19b36de3adf8833"
        "899d7f27beb16a9152cf765ee4390cce"
    )
    long = reference.SessionKeys(bytes(range(32)), b"", salt)
    assert reference.gcm_rtp(long, packet, 0).hex() == (
        "8040f17b8041f8d35501a0b2"
        "32b1de78a822fe12ef9f78fa332e33aab18012389a58e2f3b50b2a0276ffae0f1ba63799b87b"
        "7aa3db36dfffd6b0f9bb7878d7a76c13"
    )


def test_rfc7714_section_17_srtcp() -> None:
    packet = bytes.fromhex("81c8000d4d6172734e5450314e545032525450200000042a0000e9304c756e61"
                           "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef")  # fmt: skip
    salt = bytes.fromhex("517569642070726f2071756f")
    keys = reference.SessionKeys(bytes(range(16)), b"", salt)
    assert reference.gcm_rtcp(keys, packet, 0x5D4).hex() == (
        "81c8000d4d617273"
        "63e94885dcdab67ca727d7662f6b7e997ff5c0f76c06f32dc676a5f1730d6fda4ce09b4686303ded0bb9275bc84aa458"
        "96cf4d2fc5abf87245d9eade"
        "800005d4"
    )
