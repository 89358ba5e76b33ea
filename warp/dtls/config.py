"""What a DTLS connection is told before it starts: values only, with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from warp.crypto import NamedGroup, supported_groups
from warp.dtls.suites import SUITES12, SUITES13, CipherSuite, DtlsVersion
from warp.errors import InvalidConfig
from warp.names import Name


class DtlsRole(Name):
    """Who speaks first (RFC 8842 section 5: `active` is the client)."""

    CLIENT = "client"
    SERVER = "server"


MIN_MTU = 256  # below this the hybrid flight no longer fits into one burst of ten records
MAX_MTU = 1 << 14


DEFAULT_MAX_TIMEOUTS = 12  # after completion, as BoringSSL; before it the deadline decides
SRTP_LABEL = b"EXTRACTOR-dtls_srtp"  # RFC 5764 section 4.2
SRTP_KEYING_LENGTHS = {1: 60, 2: 60, 7: 56, 8: 88}  # twice key and salt: RFC 5764, RFC 7714


@dataclass(frozen=True, slots=True, kw_only=True)
class DtlsConfig:
    """Choices of one connection. Lists are in our order of preference."""

    versions: tuple[DtlsVersion, ...] = (DtlsVersion.DTLS13, DtlsVersion.DTLS12)
    groups: tuple[NamedGroup, ...] = (
        NamedGroup.X25519MLKEM768,
        NamedGroup.X25519,
        NamedGroup.SECP256R1,
        NamedGroup.SECP384R1,
    )
    """Groups we accept; those that this build cannot do are left out when it starts."""
    share_groups: tuple[NamedGroup, ...] = (NamedGroup.X25519MLKEM768, NamedGroup.X25519)
    """Groups a client sends a key share for at once (RFC 8446 section 4.2.8)."""
    suites: tuple[CipherSuite, ...] = (
        CipherSuite.AES_128_GCM_SHA256,
        CipherSuite.AES_256_GCM_SHA384,
        CipherSuite.CHACHA20_POLY1305_SHA256,
        CipherSuite.ECDHE_ECDSA_AES_128_GCM_SHA256,
        CipherSuite.ECDHE_ECDSA_CHACHA20_POLY1305_SHA256,
        CipherSuite.ECDHE_ECDSA_AES_256_GCM_SHA384,
        CipherSuite.ECDHE_RSA_AES_128_GCM_SHA256,
        CipherSuite.ECDHE_RSA_CHACHA20_POLY1305_SHA256,
        CipherSuite.ECDHE_RSA_AES_256_GCM_SHA384,
    )
    srtp_profiles: tuple[int, ...] = (0x0007, 0x0008, 0x0001)  # RFC 5764 4.1.2, RFC 7714 14.2
    require_srtp: bool = False  # fail when no profile is agreed on (media sections exist)
    request_client_certificate: bool = True  # RFC 8827 section 6.5: both sides are known
    require_cookie: bool = False  # ICE proves return routability; a cookie costs a round trip
    early_data: bool = False
    """As a 1.3 server, send data right after our Finished, before the client is known."""
    min_hello: int = 0
    """Least size of our ClientHello, by padding (RFC 7685): an address that is not validated gets
    back at most three times what it sent, and early data has to fit beside the server's flight."""
    mtu: int = 1200  # bytes of UDP payload
    initial_rto_s: float = 0.4  # RFC 9147 section 5.8.2: for DTLS-SRTP, as long as no RTT is known
    max_rto_s: float = 10.0  # RFC 9147 allows 60 s; a call is over long before
    max_timeouts: int | None = None
    """Fail after so many in a row, besides the deadline, even if only our last flight was never
    acknowledged; None lets a connection live that works all the same."""
    deadline_s: float | None = 30.0  # a handshake that takes longer has failed
    boringssl_timing: bool = False
    """Acknowledge and resend exactly when BoringSSL does, so that its own tests can be run on us:
    only when a timer says so, a HelloRetryRequest too, plaintext records too. We are quicker."""
    dense_flights: bool = False
    """Fill records and datagrams to the last byte, also when resending. It saves a few bytes and
    meets faults of NSS and BoringSSL that we go around otherwise (module flight)."""
    strict_plaintext: bool = False
    """Fail on absurd plaintext that anyone could have forged, instead of dropping it."""

    def __post_init__(self) -> None:
        if not self.versions or not set(self.versions) <= set(DtlsVersion):
            raise InvalidConfig("versions must name DTLS12, DTLS13 or both")
        if not self.usable_groups():
            raise InvalidConfig("groups names nothing that this build can do")
        if not set(self.share_groups) <= set(self.groups):
            raise InvalidConfig("share_groups must be among groups")
        for version, table in ((DtlsVersion.DTLS13, SUITES13), (DtlsVersion.DTLS12, SUITES12)):
            if version in self.versions and not set(self.suites) & set(table):
                raise InvalidConfig(f"suites has none for {version.name}")
        if not MIN_MTU <= self.mtu <= MAX_MTU:
            raise InvalidConfig(f"mtu must be in {MIN_MTU}..{MAX_MTU}")
        if self.initial_rto_s <= 0 or self.max_rto_s < self.initial_rto_s:
            raise InvalidConfig("initial_rto_s must be above 0 and not above max_rto_s")

    def usable_groups(self) -> tuple[NamedGroup, ...]:
        """Return the groups that this build can do, in our order."""
        return _usable(self.groups)


@lru_cache(maxsize=32)
def _usable(groups: tuple[NamedGroup, ...]) -> tuple[NamedGroup, ...]:
    possible = supported_groups()
    return tuple(group for group in groups if group in possible)
