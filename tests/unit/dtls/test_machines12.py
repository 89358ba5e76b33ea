"""The DTLS 1.2 machines, message by message: what each state must refuse, and with which alert."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.unit.crypto.test_certificate import _sign
from warp.crypto import Certificate, NamedGroup, SignatureScheme, generate_share
from warp.dtls import client12, messages, server12
from warp.dtls import extensions as ext
from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.context import Context
from warp.dtls.extensions import ExtensionType
from warp.dtls.faults import Alert, DtlsRule, HandshakeFault
from warp.dtls.handshake import Awaiting, Handshake
from warp.dtls.hello import DOWNGRADE_SENTINEL, ClientHello, ServerHello, decode_server_hello
from warp.dtls.messages import HandshakeType
from warp.dtls.offer import ClientOffer
from warp.dtls.reassembly import HandshakeMessage
from warp.dtls.suites import CipherSuite, DtlsVersion
from warp.entropy import SeededEntropy
from warp.errors import PeerIncompatible

SUITE = CipherSuite.ECDHE_ECDSA_AES_128_GCM_SHA256
OWN = Certificate.generate(SeededEntropy(1), 1.7e9)
PEER = Certificate.generate(SeededEntropy(2), 1.7e9)


def desk(role: DtlsRole, **config) -> Handshake:
    return Handshake(Context(role, DtlsConfig(**config), None), OWN, SeededEntropy(3), None)


def message(kind: int, body: bytes, seq: int = 0, epoch: int = 0) -> HandshakeMessage:
    return HandshakeMessage(kind, seq, body, epoch)


def fault(act) -> HandshakeFault:
    with pytest.raises(HandshakeFault) as caught:
        act()
    return caught.value


class TestClient:
    """A client that has sent its ClientHello."""

    def setup_method(self):
        self.handshake = desk(DtlsRole.CLIENT)
        self.offer = ClientOffer(self.handshake.config, self.handshake.entropy)
        body = self.offer.hello.encode()
        self.handshake.send_message(HandshakeType.CLIENT_HELLO, body, 0)

    def hello(self, **changes) -> ServerHello:
        extensions = {
            ExtensionType.EXTENDED_MASTER_SECRET: b"",
            ExtensionType.RENEGOTIATION_INFO: b"\0",
            ExtensionType.USE_SRTP: ext.encode_use_srtp((7,)),
        }
        extensions |= changes.pop("add", {})
        for kind in changes.pop("drop", ()):
            del extensions[kind]
        fields = {"random": b"s" * 32, "suite": SUITE, "extensions": extensions}
        return ServerHello(**(fields | changes))

    def accept(self, hello: ServerHello) -> Awaiting:
        self.handshake.choose(DtlsVersion.DTLS12, SUITE)
        received = message(HandshakeType.SERVER_HELLO, hello.encode())
        return client12.accept_server_hello(self.handshake, self.offer, hello, received, 0.0)

    def refuse(self, **changes) -> HandshakeFault:
        return fault(lambda: self.accept(self.hello(**changes)))

    def exchange(self, *, group=NamedGroup.X25519, scheme=0x0403, signed=None, public=None):
        share = generate_share(group, SeededEntropy(9))
        parameters = messages.server_ecdh_parameters(group, public or share.public)
        data = self.offer.hello.random + b"s" * 32 + (signed or parameters)
        signature = PEER.sign(0x0403, data)
        return message(
            HandshakeType.SERVER_KEY_EXCHANGE,
            messages.encode_server_key_exchange(parameters, scheme, signature),
            2,
        )

    def awaiting_exchange(self) -> Awaiting:
        body = messages.encode_certificate12([PEER.der])
        return self.accept(self.hello()).accept(message(HandshakeType.CERTIFICATE, body, 1), 0.0)

    def test_ends_with_a_flight_of_five_messages(self):
        state = self.awaiting_exchange().accept(self.exchange(), 0.0)
        body = messages.encode_certificate_request12(SignatureScheme)
        state = state.accept(message(HandshakeType.CERTIFICATE_REQUEST, body, 3), 0.0)
        state = state.accept(message(HandshakeType.SERVER_HELLO_DONE, b"", 4), 0.0)
        assert (state.awaited, state.epoch) == ((HandshakeType.FINISHED,), 1)
        outcome = self.handshake.outcome
        assert (outcome.group, outcome.srtp_profile) == (NamedGroup.X25519, 7)
        records = b"".join(self.handshake.context.outbox.flight)
        kinds = []
        while records:
            kinds.append((records[0], records[13] if records[4] == 0 else None))
            records = records[13 + int.from_bytes(records[11:13], "big") :]
        assert kinds == [(22, 11), (22, 16), (22, 15), (20, 1), (22, None)]

    def test_server_that_does_not_ask_sees_no_certificate(self):
        state = self.awaiting_exchange().accept(self.exchange(), 0.0)
        state.accept(message(HandshakeType.SERVER_HELLO_DONE, b"", 3), 0.0)
        assert self.handshake.context.outbox.flight[0][13] == HandshakeType.CLIENT_KEY_EXCHANGE

    def test_server_that_wants_another_kind_of_key_sees_an_empty_certificate(self):
        state = self.awaiting_exchange().accept(self.exchange(), 0.0)
        body = messages.encode_certificate_request12((SignatureScheme.RSA_PKCS1_SHA256,))
        state = state.accept(message(HandshakeType.CERTIFICATE_REQUEST, body, 3), 0.0)
        state.accept(message(HandshakeType.SERVER_HELLO_DONE, b"", 4), 0.0)
        first = self.handshake.context.outbox.flight[0]
        assert (first[13], first[25:28]) == (HandshakeType.CERTIFICATE, b"\0\0\0")

    def test_extended_master_secret_is_mandatory(self):
        refused = self.refuse(drop=[ExtensionType.EXTENDED_MASTER_SECRET])
        assert refused.alert is Alert.HANDSHAKE_FAILURE
        assert refused.error.rule is DtlsRule.NO_EXTENDED_MASTER_SECRET
        refused = self.refuse(add={ExtensionType.EXTENDED_MASTER_SECRET: b"x"})
        assert refused.alert is Alert.DECODE_ERROR

    def test_renegotiation_info_is_checked_but_may_be_absent(self):
        refused = self.refuse(add={ExtensionType.RENEGOTIATION_INFO: b"\x01x"})
        assert refused.alert is Alert.HANDSHAKE_FAILURE
        self.accept(self.hello(drop=[ExtensionType.RENEGOTIATION_INFO]))

    @pytest.mark.parametrize("last", [b"\x00", b"\x01"])
    def test_downgrade(self, last):
        """RFC 8446 section 4.1.3: both sentinels."""
        refused = self.refuse(random=b"s" * 24 + DOWNGRADE_SENTINEL[:-1] + last)
        assert refused.alert is Alert.ILLEGAL_PARAMETER
        assert refused.error.rule is DtlsRule.DOWNGRADE

    def test_a_client_of_12_alone_is_not_downgraded(self):
        self.handshake = desk(DtlsRole.CLIENT, versions=(DtlsVersion.DTLS12,))
        self.offer = ClientOffer(self.handshake.config, self.handshake.entropy)
        self.accept(self.hello(random=b"s" * 24 + DOWNGRADE_SENTINEL))

    @pytest.mark.parametrize("suite", [0x1301, 0xC013, 0x0000])
    def test_suites_that_do_not_fit(self, suite):
        assert self.refuse(suite=suite).error.rule is DtlsRule.SUITE_NOT_OFFERED

    def test_unoffered_extension(self):
        assert self.refuse(add={16: b""}).alert is Alert.UNSUPPORTED_EXTENSION

    def test_supported_versions_is_for_newer_versions(self):
        refused = self.refuse(add={ExtensionType.SUPPORTED_VERSIONS: b"\xfe\xfd"})
        assert refused.error.rule is DtlsRule.VERSION_NOT_OFFERED

    @pytest.mark.parametrize("body", [b"\0\4\0\7\0\1\0", b"\0\2\0\2\0", b"\0\2\0\7\1x"])
    def test_srtp_answers_that_do_not_fit(self, body):
        refused = self.refuse(add={ExtensionType.USE_SRTP: body})
        assert refused.error.rule is DtlsRule.PROFILE_NOT_OFFERED

    def test_long_session_id_is_fine(self):
        self.accept(self.hello(session_id=b"i" * 32))

    def test_no_certificate(self):
        state = self.accept(self.hello())
        refused = fault(lambda: state.accept(message(HandshakeType.CERTIFICATE, b"\0\0\0", 1), 0.0))
        assert refused.error.rule is DtlsRule.CERTIFICATE_MISSING

    def test_certificate_of_a_kind_that_the_suite_excludes(self):
        from cryptography.hazmat.primitives import hashes

        der = _sign(rsa.generate_private_key(65537, 2048), hashes.SHA256())
        state, body = self.accept(self.hello()), messages.encode_certificate12([der])
        refused = fault(lambda: state.accept(message(HandshakeType.CERTIFICATE, body, 1), 0.0))
        assert refused.alert is Alert.ILLEGAL_PARAMETER

    @pytest.mark.parametrize(
        ("changes", "alert"),
        [
            ({"signed": b"other"}, Alert.DECRYPT_ERROR),
            ({"scheme": 0x0203}, Alert.ILLEGAL_PARAMETER),
            ({"scheme": 0x0804}, Alert.DECRYPT_ERROR),
        ],
    )
    def test_bad_key_exchanges(self, changes, alert):
        state = self.awaiting_exchange()
        assert fault(lambda: state.accept(self.exchange(**changes), 0.0)).alert is alert

    def test_the_hybrid_is_not_for_12(self):
        state = self.awaiting_exchange()
        received = self.exchange()
        body = received.body.replace(b"\x03\x00\x1d", b"\x03\x11\xec", 1)
        refused = fault(lambda: state.accept(received._replace(body=body), 0.0))
        assert refused.error.rule is DtlsRule.GROUP_NOT_OFFERED

    def test_zero_share(self):
        state = self.awaiting_exchange().accept(self.exchange(public=bytes(32)), 0.0)
        done = message(HandshakeType.SERVER_HELLO_DONE, b"", 3)
        assert fault(lambda: state.accept(done, 0.0)).error.rule is DtlsRule.BAD_KEY_SHARE

    def test_two_requests(self):
        state = self.awaiting_exchange().accept(self.exchange(), 0.0)
        body = messages.encode_certificate_request12(SignatureScheme)
        state = state.accept(message(HandshakeType.CERTIFICATE_REQUEST, body, 3), 0.0)
        again = message(HandshakeType.CERTIFICATE_REQUEST, body, 4)
        assert fault(lambda: state.accept(again, 0.0)).alert is Alert.UNEXPECTED_MESSAGE

    def test_wrong_finished(self):
        state = self.awaiting_exchange().accept(self.exchange(), 0.0)
        state = state.accept(message(HandshakeType.SERVER_HELLO_DONE, b"", 3), 0.0)
        finished = message(HandshakeType.FINISHED, bytes(12), 4, 1)
        assert fault(lambda: state.accept(finished, 0.0)).error.rule is DtlsRule.BAD_FINISHED


class TestServer:
    """A server with the first ClientHello in its hands."""

    def hello(self, **changes) -> ClientHello:
        extensions = {
            ExtensionType.SUPPORTED_GROUPS: ext.encode_u16_list((0x11EC, 0x1D, 0x17)),
            ExtensionType.SIGNATURE_ALGORITHMS: ext.encode_u16_list((0x0403,)),
            ExtensionType.EXTENDED_MASTER_SECRET: b"",
            ExtensionType.USE_SRTP: ext.encode_use_srtp((1, 7)),
        }
        extensions |= changes.pop("add", {})
        for kind in changes.pop("drop", ()):
            del extensions[kind]
        fields = {"random": b"c" * 32, "suites": (0xC02F, SUITE), "extensions": extensions}
        return ClientHello(**(fields | changes))

    def accept(self, hello: ClientHello, **config) -> Awaiting:
        self.handshake = desk(DtlsRole.SERVER, **config)
        self.handshake.choose(DtlsVersion.DTLS12, SUITE)
        received = message(HandshakeType.CLIENT_HELLO, hello.encode())
        return server12.accept_client_hello(self.handshake, hello, received, 0.0)

    def refuse(self, config=None, **changes) -> HandshakeFault:
        return fault(lambda: self.accept(self.hello(**changes), **(config or {})))

    def answer(self) -> ServerHello:
        return decode_server_hello(self.handshake.context.outbox.flight[0][25:][: self._length()])

    def _length(self) -> int:
        return int.from_bytes(self.handshake.context.outbox.flight[0][22:25], "big")

    def test_answer(self):
        self.accept(self.hello(suites=(0x00FF, 0xC02F, SUITE)))
        answer = self.answer()
        assert (answer.version, answer.suite, answer.session_id) == (0xFEFD, SUITE, b"")
        assert answer.random.endswith(DOWNGRADE_SENTINEL)
        assert answer.extensions == {
            ExtensionType.EXTENDED_MASTER_SECRET: b"",
            ExtensionType.RENEGOTIATION_INFO: b"\0",
            ExtensionType.USE_SRTP: ext.encode_use_srtp((7,)),
        }

    def test_answers_only_what_was_offered(self):
        self.accept(self.hello(drop=[ExtensionType.USE_SRTP]))
        assert list(self.answer().extensions) == [ExtensionType.EXTENDED_MASTER_SECRET]

    def test_no_sentinel_without_13(self):
        self.accept(self.hello(), versions=(DtlsVersion.DTLS12,))
        assert DOWNGRADE_SENTINEL not in self.answer().random

    def test_fallback_is_inappropriate(self):
        """RFC 7507 section 3."""
        assert self.refuse(suites=(0x5600, SUITE)).alert is Alert.INAPPROPRIATE_FALLBACK
        only = {"versions": (DtlsVersion.DTLS12,)}
        self.accept(self.hello(suites=(0x5600, SUITE)), **only)

    @pytest.mark.parametrize(
        "changes",
        [
            {"suites": (0xC02F, 0x1301)},
            {"add": {ExtensionType.SUPPORTED_GROUPS: ext.encode_u16_list((0x11EC, 0x0100))}},
            {"add": {ExtensionType.SIGNATURE_ALGORITHMS: ext.encode_u16_list((0x0804,))}},
            {"drop": [ExtensionType.SIGNATURE_ALGORITHMS]},
        ],
    )
    def test_nothing_in_common(self, changes):
        refused = self.refuse(**changes)
        assert refused.alert is Alert.HANDSHAKE_FAILURE
        assert isinstance(refused.error, PeerIncompatible)

    def test_without_groups_the_server_chooses(self):
        """RFC 8422 section 4."""
        self.accept(self.hello(drop=[ExtensionType.SUPPORTED_GROUPS]))
        assert self.handshake.outcome.group in (NamedGroup.X25519, NamedGroup.SECP256R1)

    def test_extended_master_secret_is_mandatory(self):
        refused = self.refuse(drop=[ExtensionType.EXTENDED_MASTER_SECRET])
        assert refused.error.rule is DtlsRule.NO_EXTENDED_MASTER_SECRET

    def test_renegotiation_info_and_point_formats_are_checked(self):
        refused = self.refuse(add={ExtensionType.RENEGOTIATION_INFO: b"\x01x"})
        assert refused.alert is Alert.HANDSHAKE_FAILURE
        refused = self.refuse(add={ExtensionType.EC_POINT_FORMATS: b"\x01\x01"})
        assert refused.alert is Alert.ILLEGAL_PARAMETER

    def test_srtp_when_it_is_needed(self):
        refused = self.refuse({"require_srtp": True}, drop=[ExtensionType.USE_SRTP])
        assert refused.alert is Alert.HANDSHAKE_FAILURE

    def test_client_without_a_certificate(self):
        state = self.accept(self.hello())
        refused = fault(lambda: state.accept(message(HandshakeType.CERTIFICATE, b"\0\0\0", 1), 0.0))
        assert refused.alert is Alert.HANDSHAKE_FAILURE
        assert refused.error.rule is DtlsRule.CERTIFICATE_MISSING

    def test_server_that_does_not_ask(self):
        state = self.accept(self.hello(), request_client_certificate=False)
        assert state.awaited == (HandshakeType.CLIENT_KEY_EXCHANGE,)

    def test_bad_share_bad_signature_bad_finished(self):
        state = self.accept(self.hello())
        body = messages.encode_certificate12([PEER.der])
        state = state.accept(message(HandshakeType.CERTIFICATE, body, 1), 0.0)
        zero = message(HandshakeType.CLIENT_KEY_EXCHANGE, b"\x20" + bytes(32), 2)
        assert fault(lambda: state.accept(zero, 0.0)).error.rule is DtlsRule.BAD_KEY_SHARE
        share = generate_share(NamedGroup.X25519, SeededEntropy(9))
        key = messages.encode_client_key_exchange(share.public)
        state = state.accept(message(HandshakeType.CLIENT_KEY_EXCHANGE, key, 2), 0.0)
        raw = self.handshake.transcript.raw()
        for scheme, signature, rule in (
            (0x0403, PEER.sign(0x0403, raw + b"x"), DtlsRule.BAD_SIGNATURE),
            (0x0203, PEER.sign(0x0403, raw), DtlsRule.SCHEME_NOT_OFFERED),
            (0x0804, PEER.sign(0x0403, raw), DtlsRule.BAD_SIGNATURE),
        ):
            verify = messages.encode_certificate_verify(scheme, signature)
            received = message(HandshakeType.CERTIFICATE_VERIFY, verify, 3)
            assert fault(lambda m=received: state.accept(m, 0.0)).error.rule is rule
        verify = messages.encode_certificate_verify(0x0403, PEER.sign(0x0403, raw))
        state = state.accept(message(HandshakeType.CERTIFICATE_VERIFY, verify, 3), 0.0)
        finished = message(HandshakeType.FINISHED, b"", 4, 1)
        assert fault(lambda: state.accept(finished, 0.0)).error.rule is DtlsRule.BAD_FINISHED


def test_rsa_identity_signs_for_rsa_suites():
    key = rsa.generate_private_key(65537, 2048)
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    cert = x509.load_der_x509_certificate(_sign(key, hashes.SHA256()))
    own = Certificate.from_pem(
        cert.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    hello = TestServer().hello()
    assert server12.choose_suite(DtlsConfig(), own.key_kind, hello) == 0xC02F
    assert server12.choose_suite(DtlsConfig(), OWN.key_kind, hello) == SUITE
