"""The DTLS 1.2 client, from the ServerHello on (RFC 6347 section 4.2, RFC 5246 section 7.3).

Called by the version decision; the ClientHello, a HelloVerifyRequest and their answer lie behind.

    client                                   server
                       ◀── ServerHello, Certificate, ServerKeyExchange,
                           CertificateRequest, ServerHelloDone
    Certificate, ClientKeyExchange,
    CertificateVerify,
    [ChangeCipherSpec], Finished ──▶
                       ◀── [ChangeCipherSpec], Finished

    accept_server_hello ─▶ Certificate ─▶ KeyExchange ─▶ RequestOrDone ─▶ Finished ─▶ Established
"""

from __future__ import annotations

from typing import ClassVar, Final

from warp.crypto import NamedGroup, PeerCertificate, SignatureScheme, respond
from warp.dtls import extensions as ext
from warp.dtls import messages
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
from warp.dtls.extensions import ExtensionType
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.handshake import Awaiting, Handshake
from warp.dtls.hello import DOWNGRADE_SENTINEL, ClientHello, ServerHello
from warp.dtls.messages import HandshakeType, ServerKeyExchange
from warp.dtls.offer import ClientOffer
from warp.dtls.reassembly import HandshakeMessage
from warp.dtls.schedule12 import CLIENT_FINISHED, SERVER_FINISHED
from warp.dtls.suites import SUITES12, CipherSuite, DtlsVersion

_OLDER_SENTINEL: Final = DOWNGRADE_SENTINEL[:-1] + b"\x00"


def accept_server_hello(
    handshake: Handshake,
    offer: ClientOffer,
    hello: ServerHello,
    message: HandshakeMessage,
    now: float,
) -> Awaiting:
    """Take the ServerHello that chose 1.2 and return the state that awaits the certificate."""
    offered = offer.hello
    _check_downgrade(offered, hello)
    suite = _chosen_suite(offered, hello)
    ext.refuse_unoffered(hello.extensions, offered.extensions, "RFC 5246 section 7.4.1.4")
    if ExtensionType.SUPPORTED_VERSIONS in hello.extensions:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.VERSION_NOT_OFFERED, "RFC 8446 section 4.2.1"
        )
    check_extended_master_secret(hello.extensions)
    check_common_extensions(hello.extensions)
    handshake.outcome.srtp_profile = _chosen_profile(offered, hello)
    handshake.transcript.add_message(message)
    return AwaitCertificate(Exchange12(handshake, suite, offered.random, hello.random), offered)


def _check_downgrade(offered: ClientHello, hello: ServerHello) -> None:
    """Refuse a 1.2 that someone on the way has forced on us (RFC 8446 section 4.1.3)."""
    wanted_more = DtlsVersion.DTLS13 in (offered.versions() or ())
    if wanted_more and hello.random.endswith((DOWNGRADE_SENTINEL, _OLDER_SENTINEL)):
        raise misbehaved(Alert.ILLEGAL_PARAMETER, DtlsRule.DOWNGRADE, "RFC 8446 section 4.1.3")


def _chosen_suite(offered: ClientHello, hello: ServerHello) -> CipherSuite:
    if hello.suite in offered.suites and hello.suite in SUITES12:
        return CipherSuite(hello.suite)
    raise misbehaved(
        Alert.ILLEGAL_PARAMETER, DtlsRule.SUITE_NOT_OFFERED, "RFC 5246 section 7.4.1.3"
    )


def _chosen_profile(offered: ClientHello, hello: ServerHello) -> int | None:
    body = hello.extensions.get(ExtensionType.USE_SRTP)
    if body is None:
        return None
    profiles, mki = ext.decode_use_srtp(body)
    # one profile, of ours, and no MKI, since we sent none (RFC 5764 section 4.1.3)
    if len(profiles) != 1 or profiles[0] not in (offered.srtp_profiles() or ()) or mki:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.PROFILE_NOT_OFFERED, "RFC 5764 section 4.1.1"
        )
    return profiles[0]


class AwaitCertificate(Awaiting):
    """Waits for the server's certificate."""

    __slots__ = ("_exchange", "_offered")

    awaited: ClassVar = (HandshakeType.CERTIFICATE,)

    def __init__(self, exchange: Exchange12, offered: ClientHello) -> None:
        self._exchange: Final = exchange
        self._offered: Final = offered

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the certificate; the suite says what kind of key it must hold."""
        exchange = self._exchange
        chain = messages.decode_certificate12(message.body)
        if not chain:
            raise misbehaved(
                Alert.DECODE_ERROR, DtlsRule.CERTIFICATE_MISSING, "RFC 5246 section 7.4.2"
            )
        peer = exchange.handshake.accept_certificate(chain[0])
        if not signs_for(peer.key_kind, exchange.parameters):
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.BAD_CERTIFICATE, "RFC 8422 section 5.3"
            )
        exchange.peer = peer
        exchange.handshake.transcript.add_message(message)
        return AwaitKeyExchange(exchange, self._offered, peer)


class AwaitKeyExchange(Awaiting):
    """Waits for the server's ephemeral key and its signature."""

    __slots__ = ("_exchange", "_offered", "_peer")

    awaited: ClassVar = (HandshakeType.SERVER_KEY_EXCHANGE,)

    def __init__(self, exchange: Exchange12, offered: ClientHello, peer: PeerCertificate) -> None:
        self._exchange: Final = exchange
        self._offered: Final = offered
        self._peer: Final = peer

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the key once the certificate's key has signed it."""
        exchange, offered = self._exchange, self._offered
        key = messages.decode_server_key_exchange(message.body)
        if key.group not in (offered.groups() or ()) or key.group not in GROUPS:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.GROUP_NOT_OFFERED, "RFC 8422 section 5.4"
            )
        check_signature(
            self._peer,
            (key.scheme, key.signature),
            exchange.client_random + exchange.server_random + key.parameters,
            offered.schemes() or (),
            "RFC 8422 section 5.4",
        )
        handshake = exchange.handshake
        handshake.outcome.group = NamedGroup(key.group)
        handshake.notify_negotiated(now)
        handshake.peer_proved()
        handshake.transcript.add_message(message)
        return AwaitRequestOrDone(exchange, key)


class AwaitRequestOrDone(Awaiting):
    """Waits for ServerHelloDone, before which the server may ask who we are."""

    __slots__ = ("_accepted_schemes", "_exchange", "_key")

    awaited: ClassVar = (HandshakeType.CERTIFICATE_REQUEST, HandshakeType.SERVER_HELLO_DONE)

    def __init__(
        self,
        exchange: Exchange12,
        key: ServerKeyExchange,
        accepted_schemes: tuple[int, ...] | None = None,
    ) -> None:
        self._exchange: Final = exchange
        self._key: Final = key
        self._accepted_schemes: Final = accepted_schemes

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the request, or answer the whole flight."""
        if message.message_type == HandshakeType.CERTIFICATE_REQUEST:
            if self._accepted_schemes is not None:
                raise misbehaved(
                    Alert.UNEXPECTED_MESSAGE,
                    DtlsRule.UNEXPECTED_MESSAGE,
                    "RFC 5246 section 7.4.4",
                )
            accepted = messages.decode_certificate_request12(message.body)
            self._exchange.handshake.transcript.add_message(message)
            return AwaitRequestOrDone(self._exchange, self._key, accepted)
        messages.decode_empty(message.body)
        self._exchange.handshake.transcript.add_message(message)
        return self._answer(now)

    def _answer(self, now: float) -> Awaiting:
        exchange, handshake = self._exchange, self._exchange.handshake
        try:
            public, premaster = respond(
                NamedGroup(self._key.group), self._key.public, handshake.entropy
            )
        except ValueError as error:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.BAD_KEY_SHARE, "RFC 8422 section 5.11"
            ) from error
        handshake.begin_flight()
        scheme = self._send_certificate()
        handshake.send_message(
            HandshakeType.CLIENT_KEY_EXCHANGE,
            messages.encode_client_key_exchange(public),
            PLAIN_EPOCH,
        )
        schedule = exchange.derive(premaster)
        if scheme is not None:
            signature = handshake.certificate.sign(scheme, handshake.transcript.raw())
            handshake.send_message(
                HandshakeType.CERTIFICATE_VERIFY,
                messages.encode_certificate_verify(scheme, signature),
                PLAIN_EPOCH,
            )
        read, write = schedule.record_keys(is_client=True)
        handshake.send_change_cipher_spec()
        handshake.install_write(write)
        verify_data = exchange.verify_data(CLIENT_FINISHED)
        handshake.send_message(HandshakeType.FINISHED, verify_data, PROTECTED_EPOCH)
        handshake.finish_flight(now, reply_expected=True)
        handshake.install_read(read)
        return AwaitFinished(exchange)

    def _send_certificate(self) -> SignatureScheme | None:
        """Queue our certificate if it was asked for; return the scheme to sign with."""
        if self._accepted_schemes is None:
            return None
        handshake = self._exchange.handshake
        scheme = signing_scheme(handshake.certificate.schemes, self._accepted_schemes)
        # nothing that the server can verify: say so, and let it decide (RFC 5246 section 7.4.6)
        chain = () if scheme is None else (handshake.certificate.der,)
        handshake.send_message(
            HandshakeType.CERTIFICATE, messages.encode_certificate12(chain), PLAIN_EPOCH
        )
        return scheme


class AwaitFinished(Awaiting):
    """Waits for the server's Finished, which answers our last flight."""

    __slots__ = ("_exchange",)

    awaited: ClassVar = (HandshakeType.FINISHED,)
    epoch: ClassVar = PROTECTED_EPOCH

    def __init__(self, exchange: Exchange12) -> None:
        self._exchange: Final = exchange

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the Finished and be done."""
        check_finished(self._exchange, SERVER_FINISHED, message.body)
        handshake = self._exchange.handshake
        handshake.begin_flight()
        handshake.complete(now)
        return Established(handshake)


class Established(Awaiting):
    """The handshake is done; a wish to renegotiate is not heard."""

    __slots__ = ("_handshake",)

    awaited: ClassVar = (HandshakeType.HELLO_REQUEST,)
    epoch: ClassVar = PROTECTED_EPOCH

    def __init__(self, handshake: Handshake) -> None:
        self._handshake: Final = handshake

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Ignore a HelloRequest (RFC 5246 section 7.4.1.1 lets a client do so)."""
        messages.decode_empty(message.body)
        return self
