"""Front door of the primitives: the only package that imports `cryptography`.

identity      Certificate, PeerCertificate, fingerprint_matches
agreement     generate_share / respond ──▶ shared secret
schedule      hkdf_* (DTLS 1.3), prf12 (DTLS 1.2) ──▶ keys
records       Aead, RecordNumberMask
checks        HmacSha1, HmacSha256, constant_time_equal
identifiers   BlockCipher
"""

from __future__ import annotations

from warp.crypto.aead import (
    NONCE_LENGTH,
    TAG_LENGTH,
    Aead,
    AeadKind,
    DecryptError,
    RecordNumberMask,
)
from warp.crypto.block import BLOCK_LENGTH, BlockCipher
from warp.crypto.certificate import (
    Certificate,
    PeerCertificate,
    fingerprint_matches,
    fingerprint_of,
    read_certificate,
)
from warp.crypto.groups import (
    KeyShare,
    NamedGroup,
    generate_share,
    generate_shares,
    respond,
    supported_groups,
)
from warp.crypto.hkdf import HASH_LENGTHS, ExpandKey, hkdf_expand, hkdf_expand_label, hkdf_extract
from warp.crypto.mac import HASHES, Hmac, HmacSha1, HmacSha256, constant_time_equal, hmac_digest
from warp.crypto.prf import prf12
from warp.crypto.signatures import SCHEMES_BY_KIND, KeyKind, SignatureScheme

__all__ = [
    "BLOCK_LENGTH",
    "HASHES",
    "HASH_LENGTHS",
    "NONCE_LENGTH",
    "SCHEMES_BY_KIND",
    "TAG_LENGTH",
    "Aead",
    "AeadKind",
    "BlockCipher",
    "Certificate",
    "DecryptError",
    "ExpandKey",
    "Hmac",
    "HmacSha1",
    "HmacSha256",
    "KeyKind",
    "KeyShare",
    "NamedGroup",
    "PeerCertificate",
    "RecordNumberMask",
    "SignatureScheme",
    "constant_time_equal",
    "fingerprint_matches",
    "fingerprint_of",
    "generate_share",
    "generate_shares",
    "hkdf_expand",
    "hkdf_expand_label",
    "hkdf_extract",
    "hmac_digest",
    "prf12",
    "read_certificate",
    "respond",
    "supported_groups",
]
