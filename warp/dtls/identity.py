"""Who the peer is: its certificate against the fingerprints of its description (RFC 8122).

Called by the handshake desk with the certificate and by the connection with the fingerprints,
in either order: an answer may still be on its way when the handshake is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp.crypto import fingerprint_matches
from warp.dtls.faults import Alert, HandshakeFault
from warp.errors import FingerprintMismatch


class PeerIdentity:
    """A certificate, whether its key was proved, and what it should be."""

    __slots__ = ("_fingerprints", "_matched", "anonymous", "der", "proved")

    def __init__(self) -> None:
        self._fingerprints: tuple[tuple[str, str], ...] | None = None
        self._matched = False
        self.der: bytes | None = None
        self.proved = False  # CertificateVerify has been checked
        self.anonymous = False  # a server that was told not to ask

    def show(self, der: bytes) -> None:
        """Take the peer's certificate. Raises HandshakeFault (bad_certificate) on a mismatch."""
        self.der = der
        self._check()

    def set_fingerprints(self, fingerprints: Sequence[tuple[str, str]]) -> None:
        """Take what the description says. Raises HandshakeFault on a mismatch."""
        self._fingerprints = tuple(fingerprints)
        self._check()

    @property
    def verified(self) -> bool:
        """Tell whether the peer is who it should be, or need not be anybody."""
        return self.anonymous or (self._matched and self.proved)

    def _check(self) -> None:
        if self.der is None or self._fingerprints is None:
            return
        self._matched = fingerprint_matches(self.der, self._fingerprints)
        if not self._matched:
            raise HandshakeFault(
                Alert.BAD_CERTIFICATE,
                FingerprintMismatch("the certificate is not the one that was promised"),
            )
