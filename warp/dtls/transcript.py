"""The transcript: every handshake message so far, as each version hashes it.

DTLS 1.3 (RFC 9147 section 5.2) hashes the TLS form, type ‖ length ‖ body. DTLS 1.2 (RFC 6347
section 4.2.6) hashes the 12-byte header as if the message had never been fragmented. Called by
the handshake desk and its machines; until the version is known the messages are kept as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp.crypto import HASHES
from warp.dtls.reassembly import HandshakeMessage
from warp.dtls.suites import DtlsVersion
from warp.errors import InternalError

if TYPE_CHECKING:
    from hashlib import _Hash

_MESSAGE_HASH = 254  # RFC 8446 section 4.4.1


class Transcript:
    """Running hash of a handshake."""

    __slots__ = ("_early", "_hash", "_hash_name", "_raw", "_thirteen", "_version")

    def __init__(self) -> None:
        self._early: list[tuple[int, int, bytes]] = []
        self._version: DtlsVersion | None = None
        self._thirteen = False
        self._hash_name = ""
        self._hash: _Hash  # once the version is known, as that suite's hash
        self._raw: list[bytes] = []  # 1.2 signs the messages themselves, not their hash

    def start(self, version: DtlsVersion, hash_name: str) -> None:
        """Fix the form and the hash, and take in what came before the choice."""
        self._version = version
        self._thirteen = version is DtlsVersion.DTLS13
        self._hash_name = hash_name
        self._hash = HASHES[hash_name](b"")
        early, self._early = self._early, []
        for message_type, message_seq, body in early:
            self.add(message_type, message_seq, body)

    def add(self, message_type: int, message_seq: int, body: bytes) -> None:
        """Append one message."""
        if self._thirteen:
            self._hash.update((message_type << 24 | len(body)).to_bytes(4) + body)
        elif self._version is None:
            self._early.append((message_type, message_seq, body))
        else:
            head = (message_type << 24 | len(body)).to_bytes(4)
            whole = head + message_seq.to_bytes(2) + b"\0\0\0" + head[1:] + body
            self._hash.update(whole)
            self._raw.append(whole)

    def add_message(self, message: HandshakeMessage) -> None:
        """Append a message that was received."""
        self.add(message.message_type, message.message_seq, message.body)

    def clear(self) -> None:
        """Forget everything: a HelloVerifyRequest and what it answers do not count in 1.2."""
        self._early = []

    def fold_for_retry(self) -> None:
        """Replace the first ClientHello by its hash (RFC 8446 section 4.4.1)."""
        if not self._thirteen:
            raise InternalError("only DTLS 1.3 folds its transcript")
        digest = self._hash.digest()
        self._hash = HASHES[self._hash_name](bytes((_MESSAGE_HASH, 0, 0, len(digest))) + digest)

    def digest(self) -> bytes:
        """Return the hash of all messages so far."""
        return self._hash.digest()

    def raw(self) -> bytes:
        """Return all messages so far, as DTLS 1.2 signs them (RFC 5246 section 7.4.8)."""
        return b"".join(self._raw)
