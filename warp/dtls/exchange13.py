"""What client and server of DTLS 1.3 do alike: signatures, Finished, the keys of epochs 2 and 3.

RFC 8446 section 4.4 as RFC 9147 takes it over. Called by client13 and server13, which own the
order of the messages; the state after the handshake is here, because it is the same for both.
"""

from __future__ import annotations

from typing import ClassVar, Final

from warp.crypto import PeerCertificate, SignatureScheme, constant_time_equal
from warp.dtls import messages
from warp.dtls.config import DtlsRole
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.handshake import Awaiting, Handshake, HandshakeMessage
from warp.dtls.key_update import KeyUpdater
from warp.dtls.messages import HandshakeType
from warp.dtls.offer import SCHEMES13
from warp.dtls.record13 import HANDSHAKE_EPOCH, ReadKeys13, WriteKeys13
from warp.dtls.schedule13 import Exporter13, Schedule13, TrafficSecrets
from warp.errors import InternalError

DATA_EPOCH: Final = 3

_SIGNED_HEADS: Final = {  # "TLS", not "DTLS": RFC 9147 changes nothing here
    DtlsRole.CLIENT: b"\x20" * 64 + b"TLS 1.3, client CertificateVerify\0",
    DtlsRole.SERVER: b"\x20" * 64 + b"TLS 1.3, server CertificateVerify\0",
}


class Exchange13:
    """The secrets of one handshake, kept until it is done."""

    __slots__ = (
        "_own_data", "_own_finished", "_peer_data", "_peer_finished", "_read2", "_read3",
        "handshake", "schedule", "transcript",
    )  # fmt: skip

    def __init__(self, handshake: Handshake, schedule: Schedule13) -> None:
        self.handshake: Final = handshake
        self.schedule: Final = schedule
        self.transcript: Final = handshake.transcript
        self._own_finished = self._peer_finished = b""
        self._own_data = self._peer_data = b""  # traffic secrets of epoch 3
        self._read2: ReadKeys13 | None = None
        self._read3: ReadKeys13 | None = None

    def enter_handshake_epoch(self, shared_secret: bytes) -> None:
        """Derive epoch 2 from the key agreement; the transcript ends with the ServerHello."""
        handshake, schedule = self.handshake, self.schedule
        secrets = schedule.handshake_secrets(shared_secret, self.transcript.digest())
        if handshake.key_log.wanted:
            handshake.log_secret("CLIENT_HANDSHAKE_TRAFFIC_SECRET", secrets.client)
            handshake.log_secret("SERVER_HANDSHAKE_TRAFFIC_SECRET", secrets.server)
        own, peer = self._own_first(secrets)
        # derived at once: records in both directions are sure to come, and a Finished
        own_keys, self._own_finished = schedule.handshake_keys(own)
        peer_keys, self._peer_finished = schedule.handshake_keys(peer)
        handshake.install_write(WriteKeys13(HANDSHAKE_EPOCH, schedule.aead, own_keys.copy))
        self._read2 = ReadKeys13(HANDSHAKE_EPOCH, schedule.aead, peer_keys.copy)
        handshake.install_read(self._read2)

    def derive_application(self) -> None:
        """Derive epoch 3 and the exporter; the transcript ends with the server's Finished."""
        handshake = self.handshake
        secrets, exporter = self.schedule.application_secrets(self.transcript.digest())
        if handshake.key_log.wanted:
            handshake.log_secret("CLIENT_TRAFFIC_SECRET_0", secrets.client)
            handshake.log_secret("SERVER_TRAFFIC_SECRET_0", secrets.server)
            handshake.log_secret("EXPORTER_SECRET", exporter)
        self._own_data, self._peer_data = self._own_first(secrets)
        handshake.outcome.exporter = Exporter13(exporter, self.schedule.hash_name)

    def install_data_write(self) -> None:
        """Be able to send in epoch 3."""
        self.handshake.install_write(self.schedule.write_keys(DATA_EPOCH, self._own_data))

    def install_data_read(self) -> None:
        """Be able to receive in epoch 3."""
        self._read3 = self.schedule.read_keys(DATA_EPOCH, self._peer_data)
        self.handshake.install_read(self._read3)

    def establish(self, now: float) -> Awaiting:
        """Complete the handshake and return the state that stays."""
        handshake = self.handshake
        if self._read2 is None or self._read3 is None:
            raise InternalError("the handshake completes without keys for data")
        handshake.key_updater = updater = KeyUpdater(
            (handshake.context, handshake.epochs, handshake.flight),
            self.schedule,
            self._peer_data,
            self._own_data,
            self._read3,
            handshake.entropy,
        )
        handshake.complete(now)
        self._read2.park()  # the peer writes in epoch 2 again only if our last words were lost
        if handshake.role is DtlsRole.CLIENT:
            return ClientEstablished(updater)
        return Established(updater)

    def check_finished(self, message: HandshakeMessage) -> None:
        """Raise decrypt_error unless the peer's Finished sums up the handshake as we saw it."""
        expected = self.schedule.verify_data(self._peer_finished, self.transcript.digest())
        if not constant_time_equal(expected, message.body):
            raise misbehaved(Alert.DECRYPT_ERROR, DtlsRule.BAD_FINISHED, "RFC 8446 section 4.4.4")

    def check_certificate_verify(
        self, sender: DtlsRole, peer: PeerCertificate, message: HandshakeMessage
    ) -> None:
        """Raise unless the peer signs the transcript with its certificate's key."""
        scheme, signature = messages.decode_certificate_verify(message.body)
        if scheme not in SCHEMES13:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER,
                DtlsRule.SCHEME_NOT_OFFERED,
                "RFC 8446 section 4.4.3",
                f"0x{scheme:04x}",
            )
        content = signed_content(sender, self.transcript.digest())
        if not peer.verify(scheme, signature, content):
            raise misbehaved(Alert.DECRYPT_ERROR, DtlsRule.BAD_SIGNATURE, "RFC 8446 section 4.4.3")
        self.handshake.peer_proved()

    def send_certificate(self, scheme: SignatureScheme | None) -> None:
        """Queue Certificate and CertificateVerify; without a scheme, say that we have none."""
        handshake = self.handshake
        certificate = handshake.certificate
        chain = () if scheme is None else (certificate.der,)
        handshake.send_message(
            HandshakeType.CERTIFICATE, messages.encode_certificate13(chain), HANDSHAKE_EPOCH
        )
        if scheme is None:
            return
        content = signed_content(handshake.role, self.transcript.digest())
        signature = certificate.sign(scheme, content)
        handshake.send_message(
            HandshakeType.CERTIFICATE_VERIFY,
            messages.encode_certificate_verify(scheme, signature),
            HANDSHAKE_EPOCH,
        )

    def send_finished(self) -> None:
        """Queue our Finished."""
        verify_data = self.schedule.verify_data(self._own_finished, self.transcript.digest())
        self.handshake.send_message(HandshakeType.FINISHED, verify_data, HANDSHAKE_EPOCH)

    def _own_first(self, secrets: TrafficSecrets) -> tuple[bytes, bytes]:
        client, server = secrets
        return secrets if self.handshake.role is DtlsRole.CLIENT else (server, client)


def signed_content(sender: DtlsRole, digest: bytes) -> bytes:
    """Return what a CertificateVerify signs (RFC 8446 section 4.4.3)."""
    return _SIGNED_HEADS[sender] + digest


def signing_scheme(
    own: tuple[SignatureScheme, ...], accepted: tuple[int, ...]
) -> SignatureScheme | None:
    """Return the first of our certificate's schemes that 1.3 allows and the peer accepts."""
    for scheme in own:
        if scheme in SCHEMES13 and scheme in accepted:
            return scheme
    return None


def chain_of(message: HandshakeMessage) -> tuple[bytes, ...]:
    """Return the DER certificates of a Certificate message, whose context must be empty."""
    context, chain = messages.decode_certificate13(message.body)
    if context:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.MALFORMED_MESSAGE, "RFC 8446 section 4.4.2"
        )
    return chain


class Established(Awaiting):
    """The handshake is done; the peer may change its keys (RFC 9147 section 8)."""

    __slots__ = ("_updater",)

    awaited: ClassVar[tuple[int, ...]] = (HandshakeType.KEY_UPDATE,)
    epoch: ClassVar[int | None] = None  # after a KeyUpdate nothing may follow in the old one

    def __init__(self, updater: KeyUpdater) -> None:
        self._updater: Final = updater

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take a KeyUpdate."""
        self._updater.receive(message.body, now)
        return self


class ClientEstablished(Established):
    """As above; a server may also hand out tickets, which we acknowledge and do not use."""

    __slots__ = ()

    awaited: ClassVar[tuple[int, ...]] = (
        HandshakeType.KEY_UPDATE,
        HandshakeType.NEW_SESSION_TICKET,
    )

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take a KeyUpdate or a NewSessionTicket (RFC 8446 section 4.6.1)."""
        if message.message_type == HandshakeType.NEW_SESSION_TICKET:
            messages.decode_new_session_ticket(message.body)
            return self
        return super().accept(message, now)
