"""The DTLS 1.3 client, from the ServerHello on (RFC 9147 section 5.1, RFC 8446 section 4).

Called by the hello stage, behind which the first ClientHello lies.

    client                                       server
                        ◀── [HelloRetryRequest]
    [ClientHello] ──▶
                        ◀── ServerHello ‖ EncryptedExtensions, CertificateRequest, Certificate,
                            CertificateVerify, Finished
    Certificate, CertificateVerify, Finished ──▶
                        ◀── ACK

    accept_server_hello ─▶ [ServerHello] ─▶ EncryptedExtensions ─▶ RequestOrCertificate
                        ─▶ CertificateVerify ─▶ Finished ─▶ ClientEstablished
"""

from __future__ import annotations

from collections.abc import Set
from typing import ClassVar, Final

from warp.crypto import NamedGroup, PeerCertificate, generate_share
from warp.dtls import extensions as ext
from warp.dtls import messages
from warp.dtls.config import DtlsRole
from warp.dtls.exchange13 import (
    Exchange13,
    chain_of,
    signing_scheme,
)
from warp.dtls.extensions import ExtensionType
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.handshake import Awaiting, Handshake, HandshakeMessage
from warp.dtls.hello import ServerHello, decode_server_hello
from warp.dtls.messages import HandshakeType
from warp.dtls.offer import ClientOffer
from warp.dtls.record13 import HANDSHAKE_EPOCH
from warp.dtls.schedule13 import Schedule13
from warp.dtls.suites import DtlsVersion

_IN_SERVER_HELLO: Final = frozenset({ExtensionType.KEY_SHARE, ExtensionType.SUPPORTED_VERSIONS})
_IN_RETRY_REQUEST: Final = _IN_SERVER_HELLO | {ExtensionType.COOKIE}
_NEVER_ENCRYPTED: Final = _IN_RETRY_REQUEST | {ExtensionType.SIGNATURE_ALGORITHMS}


def accept_server_hello(
    handshake: Handshake,
    offer: ClientOffer,
    hello: ServerHello,
    message: HandshakeMessage,
    now: float,
) -> Awaiting:
    """Take the first ServerHello or HelloRetryRequest that chose 1.3."""
    _check_hello(hello, offer)
    if hello.is_retry_request:
        return _answer_retry_request(handshake, offer, hello, message, now)
    return _enter(handshake, offer, hello, message)


class AwaitServerHello(Awaiting):
    """Waits for the ServerHello that follows a HelloRetryRequest."""

    __slots__ = ("_group", "_handshake", "_offer", "_suite")

    awaited: ClassVar = (HandshakeType.SERVER_HELLO,)

    def __init__(
        self, handshake: Handshake, offer: ClientOffer, suite: int, group: int | None
    ) -> None:
        self._handshake: Final = handshake
        self._offer: Final = offer
        self._suite: Final = suite
        self._group: Final = group

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the ServerHello; it must keep to what the retry request said."""
        hello = decode_server_hello(message.body)
        if hello.is_retry_request:
            raise misbehaved(
                Alert.UNEXPECTED_MESSAGE, DtlsRule.SECOND_RETRY_REQUEST, "RFC 8446 section 4.1.4"
            )
        _check_hello(hello, self._offer)
        if hello.selected_version() != DtlsVersion.DTLS13:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.VERSION_NOT_OFFERED, "RFC 8446 section 4.1.4"
            )
        if hello.suite != self._suite:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.SUITE_NOT_OFFERED, "RFC 8446 section 4.1.4"
            )
        share = hello.key_share()
        if self._group is not None and share is not None and share[0] != self._group:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.GROUP_NOT_OFFERED, "RFC 8446 section 4.2.8"
            )
        return _enter(self._handshake, self._offer, hello, message)


def _check_hello(hello: ServerHello, offer: ClientOffer) -> None:
    if hello.session_id:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.SESSION_ID_ECHOED, "RFC 9147 section 5.3"
        )
    allowed = _IN_RETRY_REQUEST if hello.is_retry_request else _IN_SERVER_HELLO
    if hello.extensions.keys() <= allowed:
        return
    ext.refuse_unoffered(
        hello.extensions, {*offer.hello.extensions, *allowed}, "RFC 8446 section 4.2"
    )
    _refuse_misplaced(set(hello.extensions) - allowed)


def _refuse_misplaced(misplaced: Set[int]) -> None:
    """Raise for extensions that were offered but do not belong into this message."""
    for kind in misplaced:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER,
            DtlsRule.UNSOLICITED_EXTENSION,
            "RFC 8446 section 4.2",
            f"type {kind} in this message",
        )


def _answer_retry_request(
    handshake: Handshake,
    offer: ClientOffer,
    hello: ServerHello,
    message: HandshakeMessage,
    now: float,
) -> Awaiting:
    """Send the second ClientHello: the first one, save for what the server asks to change."""
    group, cookie = hello.selected_group(), hello.retry_cookie()
    if group is None and cookie is None:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.USELESS_RETRY_REQUEST, "RFC 8446 section 4.1.4"
        )
    if group is not None:
        if group not in (offer.hello.groups() or ()) or group not in set(NamedGroup):
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.GROUP_NOT_OFFERED, "RFC 8446 section 4.2.8"
            )
        if offer.share_for(group) is not None:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.USELESS_RETRY_REQUEST, "RFC 8446 section 4.2.8"
            )
        offer.replace_share(generate_share(NamedGroup(group), handshake.entropy))
    if cookie is not None:
        offer.add_retry_cookie(cookie)
    handshake.transcript.fold_for_retry()
    handshake.transcript.add_message(message)
    handshake.begin_flight()
    handshake.send_message(HandshakeType.CLIENT_HELLO, offer.hello.encode(), 0)
    handshake.finish_flight(now, reply_expected=True)
    return AwaitServerHello(handshake, offer, hello.suite, group)


def _enter(
    handshake: Handshake, offer: ClientOffer, hello: ServerHello, message: HandshakeMessage
) -> Awaiting:
    """Derive the keys of epoch 2 from the server's share."""
    ext.require(hello.extensions, ExtensionType.KEY_SHARE, "RFC 8446 section 4.2.8")
    group, public = hello.key_share() or (0, b"")
    share = offer.share_for(group)
    if share is None:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.GROUP_NOT_OFFERED, "RFC 8446 section 4.2.8"
        )
    try:
        shared_secret = share.finish(public)
    except ValueError as error:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.BAD_KEY_SHARE, "RFC 8446 section 4.2.8"
        ) from error
    handshake.outcome.group = share.group
    handshake.transcript.add_message(message)
    exchange = Exchange13(handshake, Schedule13(hello.suite))
    exchange.enter_handshake_epoch(shared_secret)
    return AwaitEncryptedExtensions(exchange, offer)


class AwaitEncryptedExtensions(Awaiting):
    """Waits for the first protected message of the server."""

    __slots__ = ("_exchange", "_offer")

    awaited: ClassVar = (HandshakeType.ENCRYPTED_EXTENSIONS,)
    epoch: ClassVar = HANDSHAKE_EPOCH

    def __init__(self, exchange: Exchange13, offer: ClientOffer) -> None:
        self._exchange: Final = exchange
        self._offer: Final = offer

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the SRTP profile; ignore politely whatever else was offered and is answered."""
        handshake, offered = self._exchange.handshake, self._offer.hello
        found = messages.decode_encrypted_extensions(message.body)
        ext.refuse_unoffered(found, offered.extensions, "RFC 8446 section 4.3.1")
        _refuse_misplaced(_NEVER_ENCRYPTED & found.keys())
        body = found.get(ExtensionType.USE_SRTP)
        if body is not None:
            handshake.outcome.srtp_profile = _chosen_profile(body, offered.srtp_profiles() or ())
        self._exchange.transcript.add_message(message)
        handshake.notify_negotiated(now)
        return AwaitRequestOrCertificate(self._exchange)


def _chosen_profile(body: bytes, offered: tuple[int, ...]) -> int:
    profiles, mki = ext.decode_use_srtp(body)
    # one profile, of ours, and no MKI, since we sent none (RFC 5764 section 4.1.3)
    if len(profiles) != 1 or profiles[0] not in offered or mki:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.PROFILE_NOT_OFFERED, "RFC 5764 section 4.1.1"
        )
    return profiles[0]


class AwaitRequestOrCertificate(Awaiting):
    """Waits for the server's certificate, before which it may ask for ours."""

    __slots__ = ("_exchange",)

    awaited: ClassVar = (HandshakeType.CERTIFICATE_REQUEST, HandshakeType.CERTIFICATE)
    epoch: ClassVar = HANDSHAKE_EPOCH

    def __init__(self, exchange: Exchange13) -> None:
        self._exchange: Final = exchange

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the request, or the certificate of a server that does not ask."""
        if message.message_type == HandshakeType.CERTIFICATE:
            return _take_certificate(self._exchange, None, message)
        context, schemes = messages.decode_certificate_request13(message.body)
        if context:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.MALFORMED_MESSAGE, "RFC 8446 section 4.3.2"
            )
        self._exchange.transcript.add_message(message)
        return AwaitCertificate(self._exchange, schemes)


class AwaitCertificate(Awaiting):
    """Waits for the server's certificate."""

    __slots__ = ("_accepted_schemes", "_exchange")

    awaited: ClassVar = (HandshakeType.CERTIFICATE,)
    epoch: ClassVar = HANDSHAKE_EPOCH

    def __init__(self, exchange: Exchange13, accepted_schemes: tuple[int, ...]) -> None:
        self._exchange: Final = exchange
        self._accepted_schemes: Final = accepted_schemes

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the certificate."""
        return _take_certificate(self._exchange, self._accepted_schemes, message)


def _take_certificate(
    exchange: Exchange13, accepted_schemes: tuple[int, ...] | None, message: HandshakeMessage
) -> Awaiting:
    chain = chain_of(message)
    if not chain:
        raise misbehaved(
            Alert.DECODE_ERROR, DtlsRule.CERTIFICATE_MISSING, "RFC 8446 section 4.4.2.4"
        )
    peer = exchange.handshake.accept_certificate(chain[0])
    exchange.transcript.add_message(message)
    return AwaitCertificateVerify(exchange, peer, accepted_schemes)


class AwaitCertificateVerify(Awaiting):
    """Waits for the proof that the server has its certificate's key."""

    __slots__ = ("_accepted_schemes", "_exchange", "_peer")

    awaited: ClassVar = (HandshakeType.CERTIFICATE_VERIFY,)
    epoch: ClassVar = HANDSHAKE_EPOCH

    def __init__(
        self,
        exchange: Exchange13,
        peer: PeerCertificate,
        accepted_schemes: tuple[int, ...] | None,
    ) -> None:
        self._exchange: Final = exchange
        self._peer: Final = peer
        self._accepted_schemes: Final = accepted_schemes

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the signature over all messages so far."""
        self._exchange.check_certificate_verify(DtlsRole.SERVER, self._peer, message)
        self._exchange.transcript.add_message(message)
        return AwaitFinished(self._exchange, self._accepted_schemes)


class AwaitFinished(Awaiting):
    """Waits for the server's Finished, which our last flight answers."""

    __slots__ = ("_accepted_schemes", "_exchange")

    awaited: ClassVar = (HandshakeType.FINISHED,)
    epoch: ClassVar = HANDSHAKE_EPOCH

    def __init__(self, exchange: Exchange13, accepted_schemes: tuple[int, ...] | None) -> None:
        self._exchange: Final = exchange
        self._accepted_schemes: Final = accepted_schemes

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the Finished, send our last flight and be done; it is repeated until its ACK."""
        exchange, handshake = self._exchange, self._exchange.handshake
        exchange.check_finished(message)
        exchange.transcript.add_message(message)
        exchange.derive_application()
        handshake.begin_flight()
        if self._accepted_schemes is not None:
            own = handshake.certificate.schemes
            exchange.send_certificate(signing_scheme(own, self._accepted_schemes))
        exchange.send_finished()
        handshake.finish_flight(now, reply_expected=True)
        exchange.install_data_write()
        exchange.install_data_read()
        return exchange.establish(now)
