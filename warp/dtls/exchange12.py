"""What client and server of DTLS 1.2 do alike: signatures, the premaster's way to keys, Finished.

RFC 5246 section 7.4, RFC 8422, RFC 7627. Called by client12 and server12, which own the order of
the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from warp.crypto import KeyKind, NamedGroup, PeerCertificate, SignatureScheme, constant_time_equal
from warp.dtls import extensions as ext
from warp.dtls.extensions import Extensions, ExtensionType
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.handshake import Handshake
from warp.dtls.schedule12 import Schedule12, extended_master_secret
from warp.dtls.suites import SUITES12, CipherSuite, SuiteParameters
from warp.errors import InternalError

GROUPS: Final = (NamedGroup.X25519, NamedGroup.SECP256R1, NamedGroup.SECP384R1)
"""The hybrid is DTLS 1.3's alone."""

PLAIN_EPOCH: Final = 0
PROTECTED_EPOCH: Final = 1


class Exchange12:
    """The facts of one handshake, kept until it is done."""

    __slots__ = ("client_random", "handshake", "parameters", "peer", "schedule", "server_random")

    def __init__(
        self,
        handshake: Handshake,
        suite: CipherSuite,
        client_random: bytes,
        server_random: bytes,
    ) -> None:
        self.handshake: Final = handshake
        self.parameters: Final[SuiteParameters] = SUITES12[suite]
        self.client_random: Final = client_random
        self.server_random: Final = server_random
        handshake.key_log.client_random = client_random
        self.peer: PeerCertificate | None = None
        self.schedule: Schedule12 | None = None

    def derive(self, premaster: bytes) -> Schedule12:
        """Make the master secret; the transcript ends with the ClientKeyExchange (RFC 7627)."""
        session_hash = self.handshake.transcript.digest()
        master = extended_master_secret(premaster, session_hash, self.parameters.hash_name)
        self.schedule = Schedule12(self.parameters, master, self.client_random, self.server_random)
        self.handshake.log_secret("CLIENT_RANDOM", master)
        self.handshake.outcome.exporter = self.schedule.exporter()
        return self.schedule

    def verify_data(self, label: bytes) -> bytes:
        """Return the body of the Finished that fits the transcript so far."""
        if self.schedule is None:
            raise InternalError("a Finished before the keys")
        return self.schedule.verify_data(label, self.handshake.transcript.digest())


def check_extended_master_secret(extensions: Extensions) -> None:
    """Raise handshake_failure without RFC 7627: then two sessions could share their keys."""
    body = extensions.get(ExtensionType.EXTENDED_MASTER_SECRET)
    if body is None:
        raise misbehaved(
            Alert.HANDSHAKE_FAILURE,
            DtlsRule.NO_EXTENDED_MASTER_SECRET,
            "RFC 7627 section 5.2",
        )
    ext.check_empty(body)


def check_common_extensions(extensions: Extensions) -> None:
    """Raise for a renegotiation or for point formats that we cannot do; absence is fine."""
    renegotiation = extensions.get(ExtensionType.RENEGOTIATION_INFO)
    if renegotiation is not None:
        ext.check_renegotiation_info(renegotiation)
    formats = extensions.get(ExtensionType.EC_POINT_FORMATS)
    if formats is not None:
        ext.check_point_formats(formats)


def check_signature(
    peer: PeerCertificate,
    signed: tuple[int, bytes],
    data: bytes,
    offered: Iterable[int],
    section: str,
) -> None:
    """Raise unless `signed` (scheme and signature) is the peer's over `data`."""
    scheme, signature = signed
    if scheme not in offered:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER,
            DtlsRule.SCHEME_NOT_OFFERED,
            "RFC 5246 section 7.4.1.4.1",
            f"0x{scheme:04x}",
        )
    # in 1.2 an ECDSA scheme names a hash, not a curve (RFC 8446 section 4.2.3)
    if not peer.verify(scheme, signature, data, curve_bound=False):
        raise misbehaved(Alert.DECRYPT_ERROR, DtlsRule.BAD_SIGNATURE, section)


def check_finished(exchange: Exchange12, label: bytes, body: bytes) -> None:
    """Raise decrypt_error unless a Finished sums up the handshake that we have seen."""
    if not constant_time_equal(exchange.verify_data(label), body):
        raise misbehaved(Alert.DECRYPT_ERROR, DtlsRule.BAD_FINISHED, "RFC 5246 section 7.4.9")


def signs_for(kind: KeyKind, parameters: SuiteParameters) -> bool:
    """Tell whether a server key of this kind fits a suite (RFC 8422 section 5.3)."""
    return (kind is KeyKind.RSA) is parameters.rsa


def signing_scheme(own: Iterable[int], accepted: Iterable[int]) -> SignatureScheme | None:
    """Return the first of our schemes that the peer accepts."""
    known = set(accepted)
    return next((SignatureScheme(scheme) for scheme in own if scheme in known), None)
