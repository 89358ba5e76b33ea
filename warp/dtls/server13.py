"""The DTLS 1.3 server (RFC 9147 section 5.1, RFC 8446 section 4).

Called by the hello stage with the whole ClientHello. The answer is made at once: the flight
leaves with the next drain, and can ride in the response to the check that brought the hello.

    client                                       server
    ClientHello ──▶
                        ◀── [HelloRetryRequest: another group, or a cookie]
    [ClientHello] ──▶
                        ◀── ServerHello ‖ EncryptedExtensions, CertificateRequest, Certificate,
                            CertificateVerify, Finished          (may write in epoch 3 from here)
    Certificate, CertificateVerify, Finished ──▶
                        ◀── ACK

    accept_client_hello ─▶ [SecondHello] ─▶ Certificate ─▶ CertificateVerify ─▶ Finished
                        ─▶ Established
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple, TypeVar

from warp.crypto import (
    NamedGroup,
    PeerCertificate,
    SignatureScheme,
    constant_time_equal,
    respond,
)
from warp.dtls import extensions as ext
from warp.dtls import messages
from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.exchange13 import (
    Exchange13,
    chain_of,
    signing_scheme,
)
from warp.dtls.extensions import Extensions, ExtensionType
from warp.dtls.faults import Alert, DtlsRule, incompatible, misbehaved
from warp.dtls.handshake import Awaiting, Handshake, HandshakeMessage
from warp.dtls.hello import (
    RETRY_REQUEST_RANDOM,
    ClientHello,
    ServerHello,
    decode_client_hello,
)
from warp.dtls.messages import HandshakeType
from warp.dtls.offer import SCHEMES13
from warp.dtls.record13 import HANDSHAKE_EPOCH
from warp.dtls.schedule13 import Schedule13
from warp.dtls.suites import SUITES, SUITES13, CipherSuite, DtlsVersion

_Number = TypeVar("_Number", bound=int)

_COOKIE_LENGTH: Final = 32
_RANDOM_LENGTH: Final = 32
_VERSION: Final = DtlsVersion.DTLS13.to_bytes(2, "big")
_CERTIFICATE_REQUEST: Final = messages.encode_certificate_request13(SCHEMES13)


def choose_suite(config: DtlsConfig, hello: ClientHello) -> CipherSuite:
    """Return our favourite among the client's suites of DTLS 1.3."""
    for suite in config.suites:
        if suite in SUITES13 and suite in hello.suites:
            return suite
    raise incompatible(Alert.HANDSHAKE_FAILURE, "no cipher suite of DTLS 1.3 in common")


class _Choice(NamedTuple):
    """What a hello and our configuration have in common; `share` is None when it is missing."""

    group: NamedGroup
    share: bytes | None
    scheme: SignatureScheme
    profile: int | None


def accept_client_hello(
    handshake: Handshake, hello: ClientHello, message: HandshakeMessage, now: float
) -> Awaiting:
    """Take the first ClientHello: answer with our whole flight, or ask for another hello."""
    hello.refuse_legacy_fields()
    choice = _choose(handshake, hello)
    handshake.transcript.add_message(message)
    wants_cookie = handshake.config.require_cookie
    if choice.share is None or wants_cookie:
        return _send_retry_request(handshake, hello, choice, wants_cookie, now)
    return _send_flight(handshake, choice.share, choice, now)


def _choose(handshake: Handshake, hello: ClientHello) -> _Choice:
    section = "RFC 8446 section 9.2"
    ext.require(hello.extensions, ExtensionType.SIGNATURE_ALGORITHMS, section)
    ext.require(hello.extensions, ExtensionType.SUPPORTED_GROUPS, section)
    ext.require(hello.extensions, ExtensionType.KEY_SHARE, section)
    groups, shares = hello.groups() or (), hello.key_shares() or {}
    if not shares.keys() <= set(groups):
        raise misbehaved(Alert.ILLEGAL_PARAMETER, DtlsRule.BAD_KEY_SHARE, "RFC 8446 section 4.2.8")
    scheme = signing_scheme(handshake.certificate.schemes, hello.schemes() or ())
    if scheme is None:
        raise incompatible(Alert.HANDSHAKE_FAILURE, "no signature scheme in common")
    usable = [group for group in handshake.config.usable_groups() if group in groups]
    if not usable:
        raise incompatible(Alert.HANDSHAKE_FAILURE, "no group in common")
    # a round trip costs more than the second-best group
    group = _first_in(usable, shares) or usable[0]
    profile = _first_in(handshake.config.srtp_profiles, hello.srtp_profiles() or ())
    return _Choice(group, shares.get(group), scheme, profile)


def _first_in(ours: Iterable[_Number], theirs: Container[int]) -> _Number | None:
    """Return our favourite among the peer's."""
    for number in ours:
        if number in theirs:
            return number
    return None


def _send_retry_request(
    handshake: Handshake, hello: ClientHello, choice: _Choice, wants_cookie: bool, now: float
) -> Awaiting:
    """Ask for a share of our group, a cookie, or both; answered again to each repeated hello."""
    extensions: Extensions = {}
    group = choice.group if choice.share is None else None
    if group is not None:
        extensions[ExtensionType.KEY_SHARE] = group.to_bytes(2, "big")
    extensions[ExtensionType.SUPPORTED_VERSIONS] = _VERSION
    cookie: bytes | None = None
    if wants_cookie:
        cookie = handshake.entropy.random_bytes(_COOKIE_LENGTH)
        extensions[ExtensionType.COOKIE] = ext.encode_cookie(cookie)
    suite = choose_suite(handshake.config, hello)
    request = ServerHello(random=RETRY_REQUEST_RANDOM, suite=suite, extensions=extensions)
    handshake.transcript.fold_for_retry()
    handshake.begin_flight()
    handshake.send_message(HandshakeType.SERVER_HELLO, request.encode(), 0)
    # never by a timer (RFC 9147 section 5.8.1): the client repeats its hello
    handshake.finish_flight(now, reply_expected=handshake.config.boringssl_timing)
    return AwaitSecondHello(handshake, hello, group, cookie)


class AwaitSecondHello(Awaiting):
    """Waits for the ClientHello that answers our HelloRetryRequest."""

    __slots__ = ("_cookie", "_first", "_group", "_handshake")

    awaited: ClassVar = (HandshakeType.CLIENT_HELLO,)

    def __init__(
        self,
        handshake: Handshake,
        first: ClientHello,
        group: NamedGroup | None,
        cookie: bytes | None,
    ) -> None:
        self._handshake: Final = handshake
        self._first: Final = first
        self._group: Final = group
        self._cookie: Final = cookie

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the second hello; nothing but what we asked for may have changed."""
        handshake = self._handshake
        hello = decode_client_hello(message.body)
        hello.refuse_legacy_fields()
        self._check_unchanged(hello)
        self._check_cookie(hello.retry_cookie())
        choice = _choose(handshake, hello)
        if self._group is not None and list(hello.key_shares() or {}) != [self._group]:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.BAD_KEY_SHARE, "RFC 8446 section 4.2.8"
            )
        handshake.transcript.add_message(message)
        return _send_flight(handshake, choice.share or b"", choice, now)

    def _check_unchanged(self, hello: ClientHello) -> None:
        first = self._first
        free = {ExtensionType.COOKIE}
        if self._group is not None:
            free.add(ExtensionType.KEY_SHARE)
        kept = {kind: body for kind, body in hello.extensions.items() if kind not in free}
        before = {kind: body for kind, body in first.extensions.items() if kind not in free}
        if (
            kept != before
            or (hello.random, hello.suites) != (first.random, first.suites)
            or hello.session_id != first.session_id
        ):
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.CHANGED_HELLO, "RFC 8446 section 4.1.2"
            )

    def _check_cookie(self, cookie: bytes | None) -> None:
        expected = self._cookie
        if (cookie is None) is (expected is None) and (
            cookie is None or expected is None or constant_time_equal(cookie, expected)
        ):
            return
        raise misbehaved(Alert.ILLEGAL_PARAMETER, DtlsRule.INVALID_COOKIE, "RFC 9147 section 5.1")


def _send_flight(handshake: Handshake, share: bytes, choice: _Choice, now: float) -> Awaiting:
    """Send ServerHello to Finished; from here on we can read epoch 2 and write epoch 3."""
    outcome, config = handshake.outcome, handshake.config
    try:
        public, shared_secret = respond(choice.group, share, handshake.entropy)
    except ValueError as error:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.BAD_KEY_SHARE, "RFC 8446 section 4.2.8"
        ) from error
    outcome.group, outcome.srtp_profile = choice.group, choice.profile
    handshake.notify_negotiated(now)
    suite = SUITES[outcome.suite or 0]
    hello = ServerHello(
        random=handshake.entropy.random_bytes(_RANDOM_LENGTH),
        suite=suite,
        extensions={
            ExtensionType.KEY_SHARE: ext.encode_key_share(choice.group, public),
            ExtensionType.SUPPORTED_VERSIONS: _VERSION,
        },
    )
    handshake.begin_flight()
    handshake.send_message(HandshakeType.SERVER_HELLO, hello.encode(), 0)
    exchange = Exchange13(handshake, Schedule13(suite))
    exchange.enter_handshake_epoch(shared_secret)
    extensions = _encrypted_extensions(choice.profile)
    handshake.send_message(HandshakeType.ENCRYPTED_EXTENSIONS, extensions, HANDSHAKE_EPOCH)
    if config.request_client_certificate:
        request = _CERTIFICATE_REQUEST
        handshake.send_message(HandshakeType.CERTIFICATE_REQUEST, request, HANDSHAKE_EPOCH)
    exchange.send_certificate(choice.scheme)
    exchange.send_finished()
    exchange.derive_application()
    exchange.install_data_write()
    handshake.finish_flight(now, reply_expected=True)
    handshake.early_write_ready()
    if config.request_client_certificate:
        return AwaitCertificate(exchange)
    handshake.identity.anonymous = True
    return AwaitFinished(exchange)


@lru_cache(ext.REMEMBERED)
def _encrypted_extensions(profile: int | None) -> bytes:
    answered: Extensions = {}
    if profile is not None:
        answered[ExtensionType.USE_SRTP] = ext.encode_use_srtp((profile,))
    return ext.encode_extensions(answered.items())


class AwaitCertificate(Awaiting):
    """Waits for the client's certificate."""

    __slots__ = ("_exchange",)

    awaited: ClassVar = (HandshakeType.CERTIFICATE,)
    epoch: ClassVar = HANDSHAKE_EPOCH

    def __init__(self, exchange: Exchange13) -> None:
        self._exchange: Final = exchange

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the certificate; without one we do not know whom we talk to."""
        chain = chain_of(message)
        if not chain:
            raise misbehaved(
                Alert.CERTIFICATE_REQUIRED, DtlsRule.CERTIFICATE_MISSING, "RFC 8827 section 6.5"
            )
        peer = self._exchange.handshake.accept_certificate(chain[0])
        self._exchange.transcript.add_message(message)
        return AwaitCertificateVerify(self._exchange, peer)


class AwaitCertificateVerify(Awaiting):
    """Waits for the proof that the client has its certificate's key."""

    __slots__ = ("_exchange", "_peer")

    awaited: ClassVar = (HandshakeType.CERTIFICATE_VERIFY,)
    epoch: ClassVar = HANDSHAKE_EPOCH

    def __init__(self, exchange: Exchange13, peer: PeerCertificate) -> None:
        self._exchange: Final = exchange
        self._peer: Final = peer

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the signature over all messages so far."""
        self._exchange.check_certificate_verify(DtlsRole.CLIENT, self._peer, message)
        self._exchange.transcript.add_message(message)
        return AwaitFinished(self._exchange)


class AwaitFinished(Awaiting):
    """Waits for the client's Finished, which an ACK answers."""

    __slots__ = ("_exchange",)

    awaited: ClassVar = (HandshakeType.FINISHED,)
    epoch: ClassVar = HANDSHAKE_EPOCH

    def __init__(self, exchange: Exchange13) -> None:
        self._exchange: Final = exchange

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the Finished and be done; the driver acknowledges the flight in epoch 3."""
        self._exchange.check_finished(message)
        self._exchange.install_data_read()
        return self._exchange.establish(now)
