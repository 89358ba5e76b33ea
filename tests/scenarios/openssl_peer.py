"""OpenSSL as a DTLS 1.2 peer inside the process, with the verbs of our own endpoints.

pyOpenSSL over memory BIOs. OpenSSL keeps time by itself and never retransmits here: what is lost
must be repaired by our side. A bundled OpenSSL that speaks DTLS 1.3 is told not to.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL

from warp.contract import Event
from warp.crypto import Certificate

DTLS12 = 0xFEFD


@dataclass(frozen=True, slots=True)
class OpenSslConnected(Event):
    """OpenSSL considers its handshake complete."""


class OpenSslPeer:
    """One connection; `received` collects application data."""

    def __init__(
        self,
        *,
        server: bool,
        certificate: Certificate,
        ciphers: str = "ECDHE-ECDSA-AES128-GCM-SHA256",
        srtp: str | None = "SRTP_AEAD_AES_128_GCM:SRTP_AES128_CM_SHA1_80",
        ask_certificate: bool = True,
        cookie: bytes | None = None,
    ) -> None:
        context = SSL.Context(SSL.DTLS_METHOD)
        context.set_max_proto_version(DTLS12)
        context.set_options(SSL.OP_NO_QUERY_MTU)
        cert_pem, key_pem = certificate.to_pem()
        context.use_certificate(x509.load_pem_x509_certificate(cert_pem))
        context.use_privatekey(load_pem_private_key(key_pem, None))
        context.set_cipher_list(ciphers.encode())
        if srtp is not None:
            context.set_tlsext_use_srtp(srtp.encode())
        if ask_certificate:
            mode = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
            context.set_verify(mode, lambda *_: True)
        if cookie is not None:
            context.set_options(SSL.OP_COOKIE_EXCHANGE)
            context.set_cookie_generate_callback(lambda _: cookie)
            context.set_cookie_verify_callback(lambda _, given: given == cookie)
        self.ssl = SSL.Connection(context, None)
        self.ssl.set_ciphertext_mtu(1200)
        if server:
            self.ssl.set_accept_state()
        else:
            self.ssl.set_connect_state()
        self._is_server = server
        self.connected = False
        self.closed = False
        self.failure: SSL.Error | None = None
        self.received: list[bytes] = []
        self._events: list[Event] = []

    def start(self, now: float) -> None:
        """Let a client speak first."""
        self._advance()

    def receive_datagram(self, data: bytes, now: float) -> None:
        """Take in one datagram."""
        self.ssl.bio_write(data)
        self._advance()

    def datagrams_to_send(self, now: float) -> list[bytes]:
        """Return each record as a datagram of its own."""
        try:
            data = self.ssl.bio_read(1 << 16)
        except SSL.WantReadError:
            return []
        out, position = [], 0
        while position < len(data):
            end = position + 13 + int.from_bytes(data[position + 11 : position + 13], "big")
            out.append(data[position:end])
            position = end
        return out

    def get_timer(self) -> float | None:
        """OpenSSL's timers follow the real clock: none here."""
        return None

    def handle_timer(self, now: float) -> None:
        """Nothing to do."""

    def events(self) -> list[Event]:
        """Drain."""
        out, self._events = self._events, []
        return out

    def send_data(self, data: bytes) -> None:
        """Send application data."""
        self.ssl.send(data)

    def _advance(self) -> None:
        if not self.connected:
            try:
                self.ssl.do_handshake()
            except SSL.WantReadError:
                return
            except SSL.Error as error:
                self.failure = error
                return
            self.connected = True
            self._events.append(OpenSslConnected())
        while True:
            try:
                self.received.append(self.ssl.recv(1 << 14))
            except SSL.WantReadError:
                return
            except SSL.ZeroReturnError:
                self.closed = True
                return
            except SSL.Error as error:
                self.failure = error
                return
