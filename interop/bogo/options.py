"""What the runner tells the shim on its command line.

Called by the shim. A flag that is not known here, or asks for what we do not do, raises
Unimplemented: the runner then counts the test as such, and expectations.toml says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion

_SRTP = {
    "SRTP_AES128_CM_SHA1_80": 0x0001,
    "SRTP_AES128_CM_SHA1_32": 0x0002,
    "SRTP_AEAD_AES_128_GCM": 0x0007,
    "SRTP_AEAD_AES_256_GCM": 0x0008,
}
_NEWEST_FIRST = (DtlsVersion.DTLS13, DtlsVersion.DTLS12)


class Unimplemented(Exception):
    """The test needs something that this stack does not have."""


@dataclass(slots=True)
class Credential:
    """A certificate and its key, as files, and the schemes to sign with (empty: the key's own)."""

    certificate_file: str = ""
    key_file: str = ""
    schemes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Options:
    """One command line."""

    server: bool = False
    port: int = 0
    shim_id: int = 0
    ipv6: bool = False
    resumptions: int = 0  # connections after the first one
    credentials: list[Credential] = field(default_factory=list)
    mtu: int = 1200
    initial_rto_s: float = 0.4
    newest: int = DtlsVersion.DTLS13
    oldest: int = DtlsVersion.DTLS12
    excluded: set[int] = field(default_factory=set)
    groups: list[NamedGroup] = field(default_factory=list)
    srtp_profiles: tuple[int, ...] = ()
    require_certificate: bool = False
    verify_peer: bool = False
    reject_peer: bool = False
    writes_first: bool = False
    shuts_down: bool = False
    key_update_before_read: bool = False
    export_length: int = 0
    export_label: str = ""
    expect_retry_request: bool | None = None

    @property
    def versions(self) -> tuple[DtlsVersion, ...]:
        """Versions to offer, the newest first; by their numbers, the newer is the lower."""
        return tuple(
            version
            for version in _NEWEST_FIRST
            if self.newest <= version <= self.oldest and version not in self.excluded
        )


def _srtp(text: str) -> tuple[int, ...]:
    return tuple(_SRTP[name] for name in text.split(":"))


def _group(text: str) -> NamedGroup:
    try:
        return NamedGroup(int(text))
    except ValueError:
        raise Unimplemented(f"group {text}") from None


_SWITCHES: dict[str, tuple[str, object]] = {
    "-server": ("server", True),
    "-ipv6": ("ipv6", True),
    "-require-any-client-certificate": ("require_certificate", True),
    "-verify-peer": ("verify_peer", True),
    "-verify-fail": ("reject_peer", True),
    "-shim-writes-first": ("writes_first", True),
    "-shim-shuts-down": ("shuts_down", True),
    "-key-update-before-read": ("key_update_before_read", True),
    "-expect-hrr": ("expect_retry_request", True),
    "-expect-no-hrr": ("expect_retry_request", False),
}
_VALUES: dict[str, tuple[str, Callable[[str], object]]] = {
    "-port": ("port", int),
    "-shim-id": ("shim_id", int),
    "-resume-count": ("resumptions", int),
    "-mtu": ("mtu", int),
    "-initial-timeout-duration-ms": ("initial_rto_s", lambda text: int(text) / 1000),
    "-max-version": ("newest", int),
    "-min-version": ("oldest", int),
    "-srtp-profiles": ("srtp_profiles", _srtp),
    "-export-keying-material": ("export_length", int),
    "-export-label": ("export_label", str),
}
_EXCLUDED = {
    "-no-tls1": 0xFEFF,
    "-no-tls11": 0,
    "-no-tls12": DtlsVersion.DTLS12,
    "-no-tls13": DtlsVersion.DTLS13,
}
_NO_MEANING = {
    "-dtls",
    "-async",  # nothing here ever blocks
    "-implicit-handshake",  # the handshake goes on with every datagram
    "-use-custom-verify-callback",  # the peer is judged by its fingerprint, whatever is asked
    "-expect-verify-result",
    "-use-old-client-cert-callback",
    "-expect-session-miss",  # there is no other outcome
    "-no-ticket",
    "-reverify-on-resume",
    "-on-resume-verify-fail",
    "-use-early-callback",
    "-expect-session-id",
    "-expect-no-session-id",
    "-expect-no-session",
    "-expect-ticket-renewal",
}
_NO_MEANING_WITH_VALUE = {
    "-trust-cert",
    "-export-context",  # none is used without -use-export-context
    "-expect-selected-credential",  # there is one at most
    "-expect-early-data-reason",
    "-quic-transport-params",
    "-quic-use-legacy-codepoint",
    "-verify-prefs",
    "-max-cert-list",  # our limit is not configurable
}
_CREDENTIAL = {"-cert-file", "-key-file", "-signing-prefs"}
_FIRST = "-on-initial-"


def parse_options(arguments: Sequence[str]) -> Options:
    """Return what a command line says. Raises Unimplemented."""
    options = Options()
    rest = iter(arguments)
    for given in rest:
        flag = "-" + given.removeprefix(_FIRST) if given.startswith(_FIRST) else given
        if flag in _SWITCHES:
            name, value = _SWITCHES[flag]
            setattr(options, name, value)
        elif flag in _VALUES:
            name, convert = _VALUES[flag]
            setattr(options, name, convert(next(rest)))
        elif flag in _EXCLUDED:
            options.excluded.add(_EXCLUDED[flag])
        elif flag == "-curves":
            options.groups.append(_group(next(rest)))
        elif flag in _CREDENTIAL:
            _describe_credential(options.credentials, flag, next(rest))
        elif flag == "-new-x509-credential":
            options.credentials.append(Credential())
        elif flag in _NO_MEANING_WITH_VALUE:
            next(rest)
        elif flag not in _NO_MEANING:
            raise Unimplemented(f"flag {given}")
    if len(options.credentials) > 1:
        raise Unimplemented("a choice of certificates")
    return options


def _describe_credential(credentials: list[Credential], flag: str, value: str) -> None:
    if not credentials:
        credentials.append(Credential())
    if flag == "-cert-file":
        credentials[-1].certificate_file = value
    elif flag == "-key-file":
        credentials[-1].key_file = value
    else:
        credentials[-1].schemes.append(int(value))
