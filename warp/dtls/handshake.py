"""The desk that a handshake machine sits at: what it is handed, and what it may do.

Shared by DTLS 1.3 (RFC 9147) and DTLS 1.2 (RFC 6347). The connection feeds records to this
module, and this module feeds whole messages, in order, to the machine.

    connection ─▶ Handshake.receive_record(epoch, sequence, content, now)
                    │ fragments ─▶ Reassembler ─▶ whole message, in message_seq order
                    ▼
                  awaiting.accept(message, now) ─▶ the next Awaiting, or itself to stay
                    │ handshake.begin_flight() · send_message() · finish_flight()
                    │ handshake.install_read() · install_write() · complete()
                    ▼
                  Flight ─▶ records ─▶ outgoing datagrams

How a machine is written
- One class for each awaited message (`class AwaitFinished(Awaiting)`). It names the message types
  that it accepts in `awaited` and the epoch that they must come in. A message of another type is
  answered with unexpected_message by this module (in epoch 0 it is dropped: anyone can forge it);
  a message of the right type in a lower epoch is dropped, so that the real one can still come.
- `accept(message, now)` returns the state that waits for what comes next. When the handshake is
  done it returns the state that waits for post-handshake messages, which stays for ever.
- A fault is raised as `HandshakeFault` (see faults); `OctetsError` out of a codec means
  decode_error. Nothing is sent by hand after a fault: the connection sends the alert.
- A state holds what it needs in its own slots (secrets, key shares); what outlives the handshake
  goes to `handshake.outcome`.

How the hello stage hands over (module version): it parses the whole ClientHello or ServerHello,
chooses the version, calls `handshake.choose(version, suite)` and then
- `client12.accept_server_hello(handshake, offer, hello, message, now) -> Awaiting`
- `server12.accept_client_hello(handshake, hello, message, now) -> Awaiting`
(the same two names in client13 and server13). HelloVerifyRequest is dealt with by the hello
stage: a 1.2 machine only ever sees the ServerHello that counts. `offer` is `version.ClientOffer`.
The message handed over has not been added to the transcript yet: the machine adds it.

Transcript
- `handshake.transcript.add(message)` for what was received, where the order of the RFC wants it;
  `send_message` adds what is sent. `.digest()` is the hash so far, `.raw()` in 1.2 the bytes that
  CertificateVerify signs. The form (TLS headers in 1.3, 12-byte headers in 1.2) is its business.

Flights
- `begin_flight()`: whatever was outstanding is acknowledged by what has just been received.
- `send_message(type, body, epoch)` queues; `send_change_cipher_spec()` queues the record of 1.2.
- `finish_flight(now, reply_expected=...)` seals it all into datagrams and, if a reply is expected,
  arms the retransmission timer. A final flight (1.2 server) passes False: it is resent only when
  the peer repeats itself.
  The keys of an epoch must be installed for writing before `finish_flight`.

Keys
- `install_write(keys)`, `install_read(keys)`; records that came too early for these keys are
  opened right after `accept` returns. ChangeCipherSpec is never shown to a machine: the epoch in
  the record header says the same, and a Finished must come in its epoch. So install the 1.2 read
  keys as soon as they can be computed.
- `log_secret(label, secret)` writes an SSLKEYLOGFILE line when a key log is configured.

Outcome
- `outcome`: version, suite, group, srtp_profile, exporter; set them as they become known and call
  `notify_negotiated()` when the first four are final. `accept_certificate(der)` checks the
  fingerprint when it is known (else later) and returns the PeerCertificate; `peer_proved()` after
  its CertificateVerify. `complete()` when both Finished are in place.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

from warp.dtls.suites import CipherSuite, DtlsVersion


class HandshakeMessage(NamedTuple):
    """A whole handshake message as it came out of the reassembler."""

    message_type: int
    message_seq: int
    body: bytes
    epoch: int


class Awaiting:
    """A state of a handshake: what is waited for, and what to do when it is there."""

    __slots__ = ()

    awaited: ClassVar[tuple[int, ...]] = ()
    epoch: ClassVar[int] = 0

    def accept(self, message: HandshakeMessage, now: float) -> Awaiting:
        """Take the awaited message and return the next state. Raises HandshakeFault."""
        raise NotImplementedError


class Exporter(Protocol):
    """Derives keying material for other protocols (RFC 5705, RFC 8446 section 7.5)."""

    def export(self, label: bytes, length: int) -> bytes:
        """Return `length` bytes for `label`, without a context."""


class Outcome:
    """What a handshake has agreed on."""

    __slots__ = ("exporter", "group", "srtp_profile", "suite", "version")

    def __init__(self) -> None:
        self.version: DtlsVersion | None = None
        self.suite: CipherSuite | None = None
        self.group: int | None = None
        self.srtp_profile: int | None = None
        self.exporter: Exporter | None = None
