"""SRTP written from the text of RFC 3711 and RFC 7714, to check the library against the standard.

Slow and plain on purpose. `test_srtp_reference` holds it against the RFCs' own vectors.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

RTP_LABELS = (0, 1, 2)
RTCP_LABELS = (3, 4, 5)


class SessionKeys(NamedTuple):
    key: bytes
    auth: bytes
    salt: bytes


def keystream(key: bytes, block: int, length: int) -> bytes:
    """AES in counter mode from a first counter block (RFC 3711 section 4.1.1)."""
    context = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(16, "big"))).encryptor()
    return context.update(bytes(length))


def derive(
    master_key: bytes,
    master_salt: bytes,
    labels: tuple[int, int, int],
    *,
    salt_length: int,
    auth_length: int = 20,
) -> SessionKeys:
    """Session keys at index 0, key derivation rate 0 (RFC 3711 section 4.3)."""
    # a 96-bit AEAD salt is followed by 16 zero bits (RFC 7714 section 11)
    salt = int.from_bytes(master_salt.ljust(14, b"\0"), "big")
    key, auth, session_salt = (
        keystream(master_key, (salt ^ label << 48) << 16, length)
        for label, length in zip(labels, (len(master_key), auth_length, salt_length), strict=True)
    )
    return SessionKeys(key, auth, session_salt)


def header_length(packet: bytes) -> int:
    length = 12 + 4 * (packet[0] & 15)
    if packet[0] & 0x10:
        length += 4 + 4 * int.from_bytes(packet[length + 2 : length + 4], "big")
    return length


def xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def cm_rtp(keys: SessionKeys, packet: bytes, roc: int, tag_length: int) -> bytes:
    """RFC 3711 sections 4.1.1 and 4.2."""
    head = header_length(packet)
    ssrc = int.from_bytes(packet[8:12], "big")
    index = roc << 16 | int.from_bytes(packet[2:4], "big")
    block = int.from_bytes(keys.salt, "big") << 16 ^ ssrc << 64 ^ index << 16
    body = xor(packet[head:], keystream(keys.key, block, len(packet) - head))
    out = packet[:head] + body
    tag = hmac.digest(keys.auth, out + roc.to_bytes(4, "big"), hashlib.sha1)
    return out + tag[:tag_length]


def cm_rtcp(keys: SessionKeys, packet: bytes, index: int) -> bytes:
    """RFC 3711 section 3.4, always with an 80-bit tag (RFC 5764 section 4.1.2)."""
    ssrc = int.from_bytes(packet[4:8], "big")
    block = int.from_bytes(keys.salt, "big") << 16 ^ ssrc << 64 ^ index << 16
    body = xor(packet[8:], keystream(keys.key, block, len(packet) - 8))
    out = packet[:8] + body + (0x80000000 | index).to_bytes(4, "big")
    return out + hmac.digest(keys.auth, out, hashlib.sha1)[:10]


def gcm_rtp(keys: SessionKeys, packet: bytes, roc: int) -> bytes:
    """RFC 7714 sections 8.1 and 8.2."""
    head = header_length(packet)
    nonce = b"\0\0" + packet[8:12] + roc.to_bytes(4, "big") + packet[2:4]
    sealed = AESGCM(keys.key).encrypt(xor(nonce, keys.salt), packet[head:], packet[:head])
    return packet[:head] + sealed


def gcm_rtcp(keys: SessionKeys, packet: bytes, index: int) -> bytes:
    """RFC 7714 sections 9.1 and 9.2."""
    nonce = b"\0\0" + packet[4:8] + b"\0\0" + index.to_bytes(4, "big")
    trailer = (0x80000000 | index).to_bytes(4, "big")
    sealed = AESGCM(keys.key).encrypt(xor(nonce, keys.salt), packet[8:], packet[:8] + trailer)
    return packet[:8] + sealed + trailer
