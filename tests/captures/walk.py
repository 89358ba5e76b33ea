"""Walks through a captured call, every datagram once, with the parsers of the stack.

    walk = Walk(read_pcap("stun/chromium156_warp.pcap"), passwords)
    walk.kinds                    how many datagrams are what, by `warp.peer.classify`
    walk.checks                   messages with FINGERPRINT; `walk.verified` with MESSAGE-INTEGRITY
    walk.carried, walk.hashes     SPED: datagrams inside checks, acknowledged CRCs
    walk.legs                     per pair of addresses: DTLS of both ends, media of both ends

A parser that discards something, a CRC that acknowledges nothing, a signature that does not hold:
each is one line of `walk.faults`.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.captures.pcap import UdpPacket
from warp.crypto import HmacSha1, PeerCertificate
from warp.dtls import messages
from warp.dtls.acks import decode_ack
from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.context import Context
from warp.dtls.epochs import EpochTable
from warp.dtls.extensions import ExtensionType, decode_use_srtp
from warp.dtls.faults import HandshakeFault
from warp.dtls.hello import ClientHello, ServerHello, decode_client_hello, decode_server_hello
from warp.dtls.intake import Intake
from warp.dtls.messages import HandshakeType
from warp.dtls.reassembly import Fragment, HandshakeMessage, Reassembler
from warp.dtls.records import ACK, CHANGE_CIPHER_SPEC, HANDSHAKE, DtlsDiscard
from warp.dtls.suites import DtlsVersion
from warp.dtls.transcript import Transcript
from warp.errors import Discard
from warp.peer import Kind, classify
from warp.rtp import ExtensionMap, parse_extensions, parse_rtp
from warp.sped import datagram_hash, decode_acknowledgement, is_dtls
from warp.stun import Attribute, MessageClass, decode_xor_address, parse_message, split_username

Address = tuple[str, int]

# a second copy of a record (direct and inside a check), and records whose keys nobody has
HARMLESS = {DtlsDiscard.REPLAY, DtlsDiscard.HELD, DtlsDiscard.UNKNOWN_EPOCH}
FINGERPRINT_HEADER = b"\x80\x28\0\4"
BODIES12 = {
    HandshakeType.SERVER_HELLO_DONE: messages.decode_empty,
    HandshakeType.CERTIFICATE_REQUEST: messages.decode_certificate_request12,
    HandshakeType.CLIENT_KEY_EXCHANGE: messages.decode_client_key_exchange,
}


class End:
    """What one end of a leg sent."""

    def __init__(self) -> None:
        self.context = Context(DtlsRole.CLIENT, DtlsConfig(), None)
        self.intake = Intake(self.context, EpochTable())
        self.reassembler = Reassembler()
        self.certificate: PeerCertificate | None = None
        self.hashes: set[int] = set()
        self.client_hello: ClientHello | None = None
        self.server_hello: ServerHello | None = None
        self.messages: list[int] = []
        self.sources: dict[int, list[int]] = {}
        self.indices: dict[int, list[int]] = {}


class Leg:
    """Two addresses that talk to each other."""

    def __init__(self) -> None:
        self.ends: dict[Address, End] = {}
        self.transcript = Transcript()
        self.signatures = 0

    def end(self, address: Address) -> End:
        return self.ends.setdefault(address, End())

    @property
    def client(self) -> End | None:
        return next((e for e in self.ends.values() if e.client_hello is not None), None)

    @property
    def server(self) -> End | None:
        return next((e for e in self.ends.values() if e.server_hello is not None), None)

    @property
    def srtp_profile(self) -> int | None:
        """What DTLS 1.2 says in the clear; in 1.3 the answer is encrypted."""
        server = self.server
        body = server.server_hello.extensions.get(ExtensionType.USE_SRTP) if server else None
        return None if body is None else decode_use_srtp(body)[0][0]

    @property
    def version(self) -> int | None:
        server = self.server
        return None if server is None else server.server_hello.selected_version()


class Walk:
    """One capture. `passwords` has the ice-pwd of every known ufrag, `extensions` the RTP ids."""

    def __init__(
        self,
        packets: list[UdpPacket],
        passwords: dict[str, str] | None = None,
        extensions: ExtensionMap | None = None,
        *,
        relayed: bool = False,
    ) -> None:
        self.kinds: Counter[str] = Counter()
        self.checks = self.verified = self.carried = self.hashes = 0
        self.faults: list[str] = []
        self.legs: dict[frozenset[Address], Leg] = {}
        self.mids: set[str | None] = set()
        self._keys = {u: HmacSha1(p.encode()) for u, p in (passwords or {}).items()}
        self._extensions = extensions or ExtensionMap()
        self._relayed = relayed
        self._asked: dict[tuple[frozenset[Address], bytes], tuple[str, Address]] = {}
        self._addresses = {packet.source for packet in packets}
        for number, packet in enumerate(packets, 1):
            self._where = f"datagram {number}"
            self._walk(packet)

    def _walk(self, packet: UdpPacket) -> None:
        kind = classify(packet.payload)
        self.kinds[kind.name] += 1
        both = frozenset((packet.source, packet.destination))
        leg = self.legs.setdefault(both, Leg())
        try:
            if kind is Kind.STUN:
                self._stun(packet, leg)
            elif kind is Kind.DTLS:
                self._dtls(packet.payload, packet.source, leg)
            elif kind is Kind.RTP:
                self._rtp(packet.payload, leg.end(packet.source))
            elif kind is Kind.RTCP:
                self._rtcp(packet.payload, leg.end(packet.source), leg)
            else:
                self._fault("no protocol")
        except (Discard, HandshakeFault) as error:
            self._fault(f"{kind.name} refused: {error}")

    def _fault(self, what: str) -> None:
        self.faults.append(f"{self._where}: {what}")

    # -- checks -------------------------------------------------------------------------------

    def _stun(self, packet: UdpPacket, leg: Leg) -> None:
        message = parse_message(packet.payload)  # a wrong FINGERPRINT would be a discard
        if packet.payload[-8:-4] != FINGERPRINT_HEADER or not message.has_integrity:
            self._fault("a check without FINGERPRINT or MESSAGE-INTEGRITY")
        both = frozenset((packet.source, packet.destination))
        if message.message_class is MessageClass.REQUEST:
            names = split_username(message.get(Attribute.USERNAME) or b"")
            if names is None:
                self._fault("a request without USERNAME")
                return
            self._asked[both, message.transaction_id] = (names[0], packet.source)
        ufrag, asker = self._asked[both, message.transaction_id]
        self.checks += 1
        key = self._keys.get(ufrag)
        if key is not None:
            if message.verify_integrity(key):
                self.verified += 1
            else:
                self._fault("wrong MESSAGE-INTEGRITY")
        if message.message_class is MessageClass.SUCCESS:
            value = message.get(Attribute.XOR_MAPPED_ADDRESS) or b""
            mapped = decode_xor_address(value, message.transaction_id)
            # behind a relay the answering end saw another port than the asking end used
            if mapped not in (self._addresses if self._relayed else (asker,)):
                self._fault("a response to somebody else")
        self._sped(
            message.get(Attribute.META_DTLS_IN_STUN),
            message.get(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT),
            packet,
            leg,
        )

    def _sped(
        self, data: bytes | None, acknowledgement: bytes | None, packet: UdpPacket, leg: Leg
    ) -> None:
        if acknowledgement is not None:
            for value in decode_acknowledgement(acknowledgement):
                self.hashes += 1
                if value not in leg.end(packet.destination).hashes:
                    self._fault(f"{value:08x} acknowledges nothing that was seen")
        if data:
            self.carried += 1
            if not is_dtls(data):
                self._fault("what a check carries is no DTLS")
            self._dtls(data, packet.source, leg)

    # -- DTLS, as far as it goes without keys -------------------------------------------------

    def _dtls(self, data: bytes, source: Address, leg: Leg) -> None:
        end = leg.end(source)
        end.hashes.add(datagram_hash(data))
        for record in end.intake.receive(data, 0.0):
            if record.content_type == HANDSHAKE:
                self._fragments(record.content, record.epoch, end, leg)
            elif record.content_type == ACK:
                decode_ack(record.content)
            elif record.content_type != CHANGE_CIPHER_SPEC:
                self._fault(f"a plaintext record of type {record.content_type}")
        for reason in set(end.context.discards) - HARMLESS:
            self._fault(f"DTLS record: {reason.value}")

    def _fragments(self, content: bytes, epoch: int, end: End, leg: Leg) -> None:
        at = 0
        while at < len(content):
            head = content[at : at + 12]
            size = int.from_bytes(head[9:12], "big")
            fragment = Fragment(
                head[0],
                int.from_bytes(head[1:4], "big"),
                int.from_bytes(head[4:6], "big"),
                int.from_bytes(head[6:9], "big"),
                content[at + 12 : at + 12 + size],
                epoch,
            )
            at += 12 + size
            end.reassembler.receive(fragment)
            while (message := end.reassembler.pop()) is not None:
                end.messages.append(message.message_type)
                self._message(message, end, leg)
                leg.transcript.add(message.message_type, message.message_seq, message.body)

    def _message(self, message: HandshakeMessage, end: End, leg: Leg) -> None:
        kind, body = message.message_type, message.body
        if kind == HandshakeType.CLIENT_HELLO:
            end.client_hello = hello = decode_client_hello(body)
            if hello.encode() != body or not hello.groups() or not hello.schemes():
                self._fault("a ClientHello that reads differently")
        elif kind == HandshakeType.SERVER_HELLO:
            end.server_hello = answer = decode_server_hello(body)
            if answer.encode() != body or not answer.selected_version():
                self._fault("a ServerHello that reads differently")
            leg.transcript.start(DtlsVersion(answer.selected_version()), "sha256")
        elif kind == HandshakeType.CERTIFICATE:
            end.certificate = PeerCertificate(messages.decode_certificate12(body)[0])
        elif kind == HandshakeType.SERVER_KEY_EXCHANGE:
            key = messages.decode_server_key_exchange(body)
            randoms = leg.client.client_hello.random + end.server_hello.random
            self._signature(leg, end, (key.scheme, key.signature), randoms + key.parameters)
        elif kind == HandshakeType.CERTIFICATE_VERIFY:
            signed = messages.decode_certificate_verify(body)
            self._signature(leg, end, signed, leg.transcript.raw())
        else:
            BODIES12[HandshakeType(kind)](body)

    def _signature(self, leg: Leg, end: End, signed: tuple[int, bytes], data: bytes) -> None:
        if end.certificate.verify(*signed, data, curve_bound=False):
            leg.signatures += 1
        else:
            self._fault("a signature that does not hold")

    # -- media, whose headers are in the clear ------------------------------------------------

    def _rtp(self, data: bytes, end: End) -> None:
        packet = parse_rtp(data)
        if packet.serialize() != data:
            self._fault("an RTP packet that reads differently")
        found = parse_extensions(self._extensions, packet.extension_profile, packet.extension)
        self.mids.add(found.mid)
        end.sources.setdefault(packet.ssrc, []).append(packet.sequence)

    def _rtcp(self, data: bytes, end: End, leg: Leg) -> None:
        """The first header, and the word with E and the index (RFC 3711 section 3.4)."""
        if data[0] >> 6 != 2 or not 200 <= data[1] <= 206 or len(data) < 8 + 16 + 4:
            self._fault("no RTCP header")
        # ahead of the tag of AES128_CM_SHA1_80, last with GCM (RFC 7714 section 9)
        at = len(data) - (4 if leg.srtp_profile in (7, 8) else 14)
        trailer = int.from_bytes(data[at : at + 4], "big")
        if not trailer >> 31:
            self._fault("SRTCP that is not encrypted")
        source = int.from_bytes(data[4:8], "big")
        end.indices.setdefault(source, []).append(trailer & 0x7FFFFFFF)

    def gaps(self) -> int:
        """Steps other than one between the RTP packets and SRTCP packets of a source."""
        runs = [
            run
            for leg in self.legs.values()
            for end in leg.ends.values()
            for run in (*end.sources.values(), *end.indices.values())
        ]
        return sum((b - a) & 0xFFFF != 1 for run in runs for a, b in pairwise(run))
