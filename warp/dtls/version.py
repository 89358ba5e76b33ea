"""The hello stage: one hello for all versions, read whole before a version is chosen.

RFC 9147 section 5.3, RFC 8446 section 4.2.1, RFC 6347 section 4.2.1. Called by the connection;
hands over to client13, client12, server13 or server12, which share no states.

    client  start_client ─▶ AwaitHello ─ ServerHello, HelloRetryRequest ─▶ client13
                               │  ▲                     ServerHello 1.2 ─▶ client12
                               └──┘ HelloVerifyRequest: the same hello with its cookie, 1.2 only
    server  AwaitClientHello ─ supported_versions, else the legacy field ─▶ server13 | server12
"""

from __future__ import annotations

from typing import ClassVar, Final

from warp.dtls import client12, client13, server12, server13
from warp.dtls.context import DtlsTimer
from warp.dtls.faults import Alert, DtlsRule, incompatible, misbehaved
from warp.dtls.handshake import Awaiting, Handshake, HandshakeMessage
from warp.dtls.hello import (
    ClientHello,
    ServerHello,
    decode_client_hello,
    decode_hello_verify_request,
    decode_server_hello,
)
from warp.dtls.messages import HandshakeType
from warp.dtls.offer import ClientOffer
from warp.dtls.records import DTLS10_WIRE, DTLS12_WIRE
from warp.dtls.suites import SUITES12, SUITES13, DtlsVersion


def start_client(handshake: Handshake, now: float) -> Awaiting:
    """Send the ClientHello and return the state that awaits the answer."""
    offer = ClientOffer(handshake.config, handshake.entropy)
    handshake.key_log.client_random = offer.hello.random
    # until the version is known, retransmissions included, as every other stack does
    handshake.epochs.plain.wire_version = DTLS10_WIRE
    _arm_deadline(handshake, now)
    _send_hello(handshake, offer, now)
    return AwaitHello(handshake, offer)


def _send_hello(handshake: Handshake, offer: ClientOffer, now: float) -> None:
    handshake.begin_flight()
    handshake.send_message(HandshakeType.CLIENT_HELLO, offer.hello.encode(), 0)
    handshake.finish_flight(now, reply_expected=True)


def _arm_deadline(handshake: Handshake, now: float) -> None:
    deadline_s = handshake.config.deadline_s
    if deadline_s is not None:
        handshake.context.timers.arm(DtlsTimer.DEADLINE, now + deadline_s)


class AwaitHello(Awaiting):
    """The client waits for whatever answers its hello."""

    __slots__ = ("_handshake", "_offer", "_verified")

    awaited: ClassVar = (HandshakeType.SERVER_HELLO, HandshakeType.HELLO_VERIFY_REQUEST)

    def __init__(self, handshake: Handshake, offer: ClientOffer, *, verified: bool = False) -> None:
        self._handshake: Final = handshake
        self._offer: Final = offer
        self._verified: Final = verified  # a HelloVerifyRequest came: the server speaks 1.2

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Choose the machine by the version that the server has chosen."""
        if message.message_type == HandshakeType.HELLO_VERIFY_REQUEST:
            return self._answer_verify_request(message, now)
        handshake = self._handshake
        hello = decode_server_hello(message.body)
        version = self._version(hello)
        table = SUITES13 if version is DtlsVersion.DTLS13 else SUITES12
        if hello.suite not in self._offer.hello.suites or hello.suite not in table:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.SUITE_NOT_OFFERED, "RFC 8446 section 4.1.3"
            )
        handshake.epochs.plain.wire_version = DTLS12_WIRE
        handshake.choose(version, hello.suite)
        if version is DtlsVersion.DTLS13:
            return client13.accept_server_hello(handshake, self._offer, hello, message, now)
        return client12.accept_server_hello(handshake, self._offer, hello, message, now)

    def _version(self, hello: ServerHello) -> DtlsVersion:
        selected = hello.selected_version()
        for version in self._handshake.config.versions:
            if selected != version:
                continue
            if version is DtlsVersion.DTLS13 and self._verified:
                break
            if version is DtlsVersion.DTLS12 and hello.is_retry_request:
                break
            return version
        raise misbehaved(
            Alert.PROTOCOL_VERSION if selected == hello.version else Alert.ILLEGAL_PARAMETER,
            DtlsRule.VERSION_NOT_OFFERED,
            "RFC 8446 section 4.2.1",
            f"0x{selected:04x}",
        )

    def _answer_verify_request(self, message: HandshakeMessage, now: float) -> Awaiting:
        handshake, offer = self._handshake, self._offer
        if DtlsVersion.DTLS12 not in handshake.config.versions:
            raise incompatible(Alert.PROTOCOL_VERSION, "the server speaks no DTLS above 1.2")
        if self._verified:
            raise misbehaved(
                Alert.UNEXPECTED_MESSAGE, DtlsRule.UNEXPECTED_MESSAGE, "RFC 6347 section 4.2.1"
            )
        offer.add_verify_cookie(decode_hello_verify_request(message.body))
        handshake.transcript.clear()  # neither counts (RFC 6347 section 4.2.1)
        _send_hello(handshake, offer, now)
        return AwaitHello(handshake, offer, verified=True)


class AwaitClientHello(Awaiting):
    """The server waits for a whole ClientHello."""

    __slots__ = ("_handshake",)

    awaited: ClassVar = (HandshakeType.CLIENT_HELLO,)

    def __init__(self, handshake: Handshake) -> None:
        self._handshake: Final = handshake

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Choose the version, then let its machine answer at once."""
        handshake = self._handshake
        hello = decode_client_hello(message.body)
        version = _common_version(handshake.config.versions, hello)
        handshake.key_log.client_random = hello.random
        _arm_deadline(handshake, now)
        if version is DtlsVersion.DTLS13:
            handshake.choose(version, server13.choose_suite(handshake.config, hello))
            return server13.accept_client_hello(handshake, hello, message, now)
        kind = handshake.certificate.key_kind
        handshake.choose(version, server12.choose_suite(handshake.config, kind, hello))
        return server12.accept_client_hello(handshake, hello, message, now)


def _common_version(ours: tuple[DtlsVersion, ...], hello: ClientHello) -> DtlsVersion:
    offered = hello.versions()
    if offered is None:
        # before 1.3: everything up to the legacy field, and the newer, the lower (the numbers are
        # complements); one that we do not know is no reason to refuse (RFC 5246 appendix E.1)
        legacy = hello.legacy_version
        offered = (DtlsVersion.DTLS12,) if 0x8000 <= legacy <= DtlsVersion.DTLS12 else ()
    for version in sorted(ours):
        if version in offered:
            return version
    raise incompatible(Alert.PROTOCOL_VERSION, "no DTLS version in common")
