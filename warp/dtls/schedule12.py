"""Secrets of DTLS 1.2: from the key agreement to record keys, Finished and exporter.

RFC 5246 sections 5, 6.3 and 7.4.9, with the extended master secret of RFC 7627, without which
there is no connection. Called by client12 and server12.

    premaster ──PRF(session hash)──▶ master ──▶ key block ─▶ client key · server key · ivs
                                       │  ────▶ verify_data of each Finished
                                       └──────▶ exporter
"""

from __future__ import annotations

from typing import Final

from warp.crypto import prf12
from warp.dtls.record12 import ReadKeys12, WriteKeys12, iv_length
from warp.dtls.suites import SuiteParameters

CLIENT_FINISHED: Final = b"client finished"
SERVER_FINISHED: Final = b"server finished"
VERIFY_DATA_LENGTH: Final = 12


def extended_master_secret(premaster: bytes, session_hash: bytes, hash_name: str) -> bytes:
    """Return the master secret; the hash goes up to the ClientKeyExchange (RFC 7627 section 4)."""
    return prf12(premaster, b"extended master secret", session_hash, 48, hash_name)


class Exporter12:
    """The exporter of RFC 5705 section 4, without a context."""

    __slots__ = ("_hash_name", "_master", "_randoms")

    def __init__(
        self, master: bytes, client_random: bytes, server_random: bytes, hash_name: str
    ) -> None:
        self._master: Final = master
        self._randoms: Final = client_random + server_random
        self._hash_name: Final = hash_name

    def export(self, label: bytes, length: int) -> bytes:
        """Return `length` bytes for `label`."""
        return prf12(self._master, label, self._randoms, length, self._hash_name)


class Schedule12:
    """What a handshake derives from its master secret."""

    __slots__ = ("_client_random", "_parameters", "_server_random", "master")

    def __init__(
        self,
        parameters: SuiteParameters,
        master: bytes,
        client_random: bytes,
        server_random: bytes,
    ) -> None:
        self._parameters: Final = parameters
        self._client_random: Final = client_random
        self._server_random: Final = server_random
        self.master: Final = master

    def record_keys(self, *, is_client: bool) -> tuple[ReadKeys12, WriteKeys12]:
        """Return the keys of epoch 1, as seen from our side (RFC 5246 section 6.3)."""
        kind = self._parameters.aead
        key, iv = kind.key_length, iv_length(kind)
        seed = self._server_random + self._client_random
        block = prf12(
            self.master, b"key expansion", seed, 2 * (key + iv), self._parameters.hash_name
        )
        client_key, server_key = block[:key], block[key : 2 * key]
        client_iv, server_iv = block[2 * key : 2 * key + iv], block[2 * key + iv :]
        if is_client:
            return ReadKeys12(kind, server_key, server_iv), WriteKeys12(kind, client_key, client_iv)
        return ReadKeys12(kind, client_key, client_iv), WriteKeys12(kind, server_key, server_iv)

    def verify_data(self, label: bytes, transcript_hash: bytes) -> bytes:
        """Return the body of a Finished; `label` says whose (RFC 5246 section 7.4.9)."""
        return prf12(
            self.master, label, transcript_hash, VERIFY_DATA_LENGTH, self._parameters.hash_name
        )

    def exporter(self) -> Exporter12:
        """Return the exporter, which outlives the handshake."""
        return Exporter12(
            self.master, self._client_random, self._server_random, self._parameters.hash_name
        )
