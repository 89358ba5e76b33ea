"""The DTLS 1.2 server (RFC 6347 section 4.2, RFC 5246 section 7.3); the flow is client12's.

Called by the version decision with a whole ClientHello. It never asks for a cookie: ICE has
proved that the client is where it says (RFC 8826 section 4.2.4).

    accept_client_hello ─▶ Certificate ─▶ KeyExchange ─▶ CertificateVerify ─▶ Finished
                                                                 ─▶ Established
"""

from __future__ import annotations

from typing import ClassVar, Final

from warp.crypto import (
    KeyKind,
    KeyShare,
    NamedGroup,
    PeerCertificate,
    SignatureScheme,
    generate_share,
)
from warp.dtls import extensions as ext
from warp.dtls import messages
from warp.dtls.config import DtlsConfig
from warp.dtls.exchange12 import (
    GROUPS,
    PLAIN_EPOCH,
    PROTECTED_EPOCH,
    Exchange12,
    check_common_extensions,
    check_extended_master_secret,
    check_finished,
    check_signature,
    signing_scheme,
    signs_for,
)
from warp.dtls.extensions import Extensions, ExtensionType
from warp.dtls.faults import Alert, DtlsRule, incompatible, misbehaved
from warp.dtls.handshake import Awaiting, Handshake
from warp.dtls.hello import DOWNGRADE_SENTINEL, ClientHello, ServerHello
from warp.dtls.messages import HandshakeType
from warp.dtls.offer import SCHEMES12
from warp.dtls.reassembly import HandshakeMessage
from warp.dtls.record12 import WriteKeys12
from warp.dtls.schedule12 import CLIENT_FINISHED, SERVER_FINISHED
from warp.dtls.suites import SUITES12, CipherSuite, DtlsVersion

RENEGOTIATION_SCSV: Final = 0x00FF  # RFC 5746 section 3.3
FALLBACK_SCSV: Final = 0x5600  # RFC 7507 section 3
_RANDOM_LENGTH: Final = 32


def choose_suite(config: DtlsConfig, kind: KeyKind, hello: ClientHello) -> CipherSuite:
    """Return our favourite among the client's suites that our certificate can sign for."""
    for suite in config.suites:
        parameters = SUITES12.get(suite)
        if parameters is not None and suite in hello.suites and signs_for(kind, parameters):
            return suite
    raise incompatible(Alert.HANDSHAKE_FAILURE, "no cipher suite of DTLS 1.2 in common")


def accept_client_hello(
    handshake: Handshake, hello: ClientHello, message: HandshakeMessage, now: float
) -> Awaiting:
    """Take the ClientHello, send our whole flight, and return what is awaited next."""
    config = handshake.config
    if FALLBACK_SCSV in hello.suites and DtlsVersion.DTLS13 in config.versions:
        raise misbehaved(Alert.INAPPROPRIATE_FALLBACK, DtlsRule.DOWNGRADE, "RFC 7507 section 3")
    check_extended_master_secret(hello.extensions)
    check_common_extensions(hello.extensions)
    suite = choose_suite(config, handshake.certificate.key_kind, hello)
    group = _choose_group(config, hello)
    scheme = signing_scheme(handshake.certificate.schemes, hello.schemes() or ())
    if scheme is None:
        raise incompatible(Alert.HANDSHAKE_FAILURE, "no signature scheme in common")
    profile = _choose_profile(config, hello)
    handshake.outcome.group = group
    handshake.outcome.srtp_profile = profile
    answer = ServerHello(
        random=_server_random(handshake),
        suite=suite,
        extensions=_answered_extensions(hello, profile),
    )
    exchange = Exchange12(handshake, suite, hello.random, answer.random)
    handshake.transcript.add_message(message)
    return _send_flight(exchange, answer, generate_share(group, handshake.entropy), scheme, now)


def _choose_group(config: DtlsConfig, hello: ClientHello) -> NamedGroup:
    # without the extension the server may choose (RFC 8422 section 4)
    offered = hello.groups() or GROUPS
    for group in config.usable_groups():
        if group in offered and group in GROUPS:
            return group
    raise incompatible(Alert.HANDSHAKE_FAILURE, "no group of DTLS 1.2 in common")


def _choose_profile(config: DtlsConfig, hello: ClientHello) -> int | None:
    offered = hello.srtp_profiles() or ()
    return next((profile for profile in config.srtp_profiles if profile in offered), None)


def _server_random(handshake: Handshake) -> bytes:
    random = handshake.entropy.random_bytes(_RANDOM_LENGTH)
    if DtlsVersion.DTLS13 in handshake.config.versions:
        # tells a client that offered 1.3 that someone took it away (RFC 8446 section 4.1.3)
        return random[: -len(DOWNGRADE_SENTINEL)] + DOWNGRADE_SENTINEL
    return random


def _answered_extensions(hello: ClientHello, profile: int | None) -> Extensions:
    answered: Extensions = {ExtensionType.EXTENDED_MASTER_SECRET: b""}
    if ExtensionType.RENEGOTIATION_INFO in hello.extensions or RENEGOTIATION_SCSV in hello.suites:
        answered[ExtensionType.RENEGOTIATION_INFO] = ext.FIRST_RENEGOTIATION_INFO
    if ExtensionType.EC_POINT_FORMATS in hello.extensions:
        answered[ExtensionType.EC_POINT_FORMATS] = ext.UNCOMPRESSED_POINTS
    if profile is not None:
        answered[ExtensionType.USE_SRTP] = ext.encode_use_srtp((profile,))
    return answered


def _send_flight(
    exchange: Exchange12, hello: ServerHello, share: KeyShare, scheme: SignatureScheme, now: float
) -> Awaiting:
    handshake = exchange.handshake
    certificate = handshake.certificate
    parameters = messages.server_ecdh_parameters(share.group, share.public)
    signature = certificate.sign(
        scheme, exchange.client_random + exchange.server_random + parameters
    )
    flight = [
        (HandshakeType.SERVER_HELLO, hello.encode()),
        (HandshakeType.CERTIFICATE, messages.encode_certificate12((certificate.der,))),
        (
            HandshakeType.SERVER_KEY_EXCHANGE,
            messages.encode_server_key_exchange(parameters, scheme, signature),
        ),
    ]
    wants_certificate = handshake.config.request_client_certificate
    if wants_certificate:
        request = messages.encode_certificate_request12(SCHEMES12)
        flight.append((HandshakeType.CERTIFICATE_REQUEST, request))
    flight.append((HandshakeType.SERVER_HELLO_DONE, b""))
    handshake.begin_flight()
    for message_type, body in flight:
        handshake.send_message(message_type, body, PLAIN_EPOCH)
    handshake.finish_flight(now, reply_expected=True)
    handshake.notify_negotiated(now)
    if wants_certificate:
        return AwaitCertificate(exchange, share)
    handshake.identity.anonymous = True
    return AwaitKeyExchange(exchange, share)


class AwaitCertificate(Awaiting):
    """Waits for the client's certificate."""

    __slots__ = ("_exchange", "_share")

    awaited: ClassVar = (HandshakeType.CERTIFICATE,)

    def __init__(self, exchange: Exchange12, share: KeyShare) -> None:
        self._exchange: Final = exchange
        self._share: Final = share

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the certificate; without one we do not know whom we talk to."""
        exchange = self._exchange
        chain = messages.decode_certificate12(message.body)
        if not chain:
            raise misbehaved(
                Alert.HANDSHAKE_FAILURE, DtlsRule.CERTIFICATE_MISSING, "RFC 8827 section 6.5"
            )
        exchange.peer = exchange.handshake.accept_certificate(chain[0])
        exchange.handshake.transcript.add_message(message)
        return AwaitKeyExchange(exchange, self._share)


class AwaitKeyExchange(Awaiting):
    """Waits for the client's ephemeral key."""

    __slots__ = ("_exchange", "_share")

    awaited: ClassVar = (HandshakeType.CLIENT_KEY_EXCHANGE,)

    def __init__(self, exchange: Exchange12, share: KeyShare) -> None:
        self._exchange: Final = exchange
        self._share: Final = share

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the key: from here on records of epoch 1 can be read."""
        exchange = self._exchange
        public = messages.decode_client_key_exchange(message.body)
        try:
            premaster = self._share.finish(public)
        except ValueError as error:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.BAD_KEY_SHARE, "RFC 8422 section 5.11"
            ) from error
        exchange.handshake.transcript.add_message(message)
        read, write = exchange.derive(premaster).record_keys(is_client=False)
        exchange.handshake.install_read(read)
        if exchange.peer is None:
            return AwaitFinished(exchange, write)
        return AwaitCertificateVerify(exchange, exchange.peer, write)


class AwaitCertificateVerify(Awaiting):
    """Waits for the proof that the client has its certificate's key."""

    __slots__ = ("_exchange", "_peer", "_write")

    awaited: ClassVar = (HandshakeType.CERTIFICATE_VERIFY,)

    def __init__(self, exchange: Exchange12, peer: PeerCertificate, write: WriteKeys12) -> None:
        self._exchange: Final = exchange
        self._peer: Final = peer
        self._write: Final = write

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the signature over all messages so far (RFC 5246 section 7.4.8)."""
        handshake = self._exchange.handshake
        check_signature(
            self._peer,
            messages.decode_certificate_verify(message.body),
            handshake.transcript.raw(),
            SCHEMES12,
            "RFC 5246 section 7.4.8",
        )
        handshake.peer_proved()
        handshake.transcript.add_message(message)
        return AwaitFinished(self._exchange, self._write)


class AwaitFinished(Awaiting):
    """Waits for the client's Finished, the first message under the new keys."""

    __slots__ = ("_exchange", "_write")

    awaited: ClassVar = (HandshakeType.FINISHED,)
    epoch: ClassVar = PROTECTED_EPOCH

    def __init__(self, exchange: Exchange12, write: WriteKeys12) -> None:
        self._exchange: Final = exchange
        self._write: Final = write

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the Finished, answer with ours and be done."""
        exchange, handshake = self._exchange, self._exchange.handshake
        check_finished(exchange, CLIENT_FINISHED, message.body)
        handshake.transcript.add_message(message)
        handshake.begin_flight()
        handshake.send_change_cipher_spec()
        handshake.install_write(self._write)
        verify_data = exchange.verify_data(SERVER_FINISHED)
        handshake.send_message(HandshakeType.FINISHED, verify_data, PROTECTED_EPOCH)
        # the last flight: sent again when the client repeats its own (RFC 6347 section 4.2.4)
        handshake.finish_flight(now, reply_expected=False)
        handshake.complete(now)
        return Established(handshake)


class Established(Awaiting):
    """The handshake is done; a second one is refused."""

    __slots__ = ("_handshake",)

    awaited: ClassVar = (HandshakeType.CLIENT_HELLO,)
    epoch: ClassVar = PROTECTED_EPOCH

    def __init__(self, handshake: Handshake) -> None:
        self._handshake: Final = handshake

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Refuse a renegotiation without ending the connection (RFC 5746 section 4.5)."""
        self._handshake.send_warning(Alert.NO_RENEGOTIATION)
        return self
