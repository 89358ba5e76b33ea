"""Reads a captured DTLS 1.3 connection with its key log, through the organs of warp.dtls.

Tap(capture, keylog).messages      every handshake message of both sides, in order
                    .records       every opened record
                    .finished      for each Finished: does it fit the transcript
                    .signatures    for each CertificateVerify: does it fit certificate, transcript
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.captures.pcap import read_keylog, read_pcap
from warp.crypto import PeerCertificate
from warp.dtls.acks import decode_ack
from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.context import Context
from warp.dtls.epochs import EpochTable
from warp.dtls.exchange13 import signed_content
from warp.dtls.hello import decode_client_hello, decode_server_hello
from warp.dtls.intake import Intake, Record
from warp.dtls.messages import (
    HandshakeType,
    decode_certificate13,
    decode_certificate_verify,
    decode_key_update,
)
from warp.dtls.reassembly import Fragment, HandshakeMessage, Reassembler
from warp.dtls.records import ACK, ALERT, APPLICATION_DATA, HANDSHAKE
from warp.dtls.schedule13 import Exporter13, Schedule13
from warp.dtls.suites import DtlsVersion
from warp.dtls.transcript import Transcript

POST_HANDSHAKE = (HandshakeType.NEW_SESSION_TICKET, HandshakeType.KEY_UPDATE)


class Opened(NamedTuple):
    side: str
    content_type: int
    epoch: int
    sequence: int
    content: bytes


class _Side:
    def __init__(self) -> None:
        config = DtlsConfig()
        self.context = Context(DtlsRole.CLIENT, config, None)
        self.epochs = EpochTable()
        self.intake = Intake(self.context, self.epochs)
        self.reassembler = Reassembler()
        self.certificate: PeerCertificate | None = None
        self.secret = b""


class Tap:
    def __init__(self, capture: str, keylog: str, port: int | None = None) -> None:
        self.secrets = read_keylog(keylog)
        self.sides = {"client": _Side(), "server": _Side()}
        self.transcript = Transcript()
        self.schedule: Schedule13 | None = None
        self.client_random = b""
        self.suite = 0
        self.messages: list[tuple[str, HandshakeMessage]] = []
        self.records: list[Opened] = []
        self.acks: list[tuple[str, int, list[tuple[int, int]]]] = []
        self.data: list[tuple[str, bytes]] = []
        self.alerts: list[tuple[str, bytes]] = []
        self.finished: list[bool] = []
        self.signatures: list[bool] = []
        self.datagrams: list[tuple[str, bytes]] = []
        client = None
        for packet in read_pcap(capture):
            ports = (packet.source[1], packet.destination[1])
            if not packet.payload or not 20 <= packet.payload[0] <= 63:
                continue
            if port is not None and port not in ports:
                continue
            client = client or packet.source
            side = "client" if packet.source == client else "server"
            self.datagrams.append((side, packet.payload))
            self._datagram(side, packet.payload)

    def discards(self) -> dict:
        return {name: dict(side.context.discards) for name, side in self.sides.items()}

    def exporter(self) -> Exporter13:
        secret = self.secrets[self.client_random]["EXPORTER_SECRET"]
        return Exporter13(secret, self.schedule.hash_name)

    def _datagram(self, name: str, data: bytes) -> None:
        waited = self.schedule is None
        self._take(name, self.sides[name].intake.receive(data, 0.0))
        if waited and self.schedule is not None:
            for each, side in self.sides.items():
                self._take(each, side.intake.release(0.0))

    def _take(self, name: str, records: Iterator[Record]) -> None:
        for record in records:
            self.records.append(Opened(name, *record))
            if record.content_type == HANDSHAKE:
                self._fragments(name, record.content, record.epoch)
            elif record.content_type == ACK:
                self.acks.append((name, record.epoch, decode_ack(record.content)))
            elif record.content_type == APPLICATION_DATA:
                self.data.append((name, record.content))
            elif record.content_type == ALERT:
                self.alerts.append((name, record.content))

    def _fragments(self, name: str, content: bytes, epoch: int) -> None:
        position = 0
        while position < len(content):
            head = content[position : position + 12]
            length = int.from_bytes(head[9:12], "big")
            data = content[position + 12 : position + 12 + length]
            position += 12 + length
            self.sides[name].reassembler.receive(
                Fragment(
                    head[0],
                    int.from_bytes(head[1:4], "big"),
                    int.from_bytes(head[4:6], "big"),
                    int.from_bytes(head[6:9], "big"),
                    data,
                    epoch,
                )
            )
            while (message := self.sides[name].reassembler.pop()) is not None:
                self.messages.append((name, message))
                self._message(name, message)

    def _message(self, name: str, message: HandshakeMessage) -> None:
        kind, body = message.message_type, message.body
        side = self.sides[name]
        if kind == HandshakeType.FINISHED:
            secret = self.secrets[self.client_random][f"{name.upper()}_HANDSHAKE_TRAFFIC_SECRET"]
            _, finished_key = self.schedule.handshake_keys(secret)
            expected = self.schedule.verify_data(finished_key, self.transcript.digest())
            self.finished.append(expected == body)
        elif kind == HandshakeType.CERTIFICATE:
            _, chain = decode_certificate13(body)
            side.certificate = PeerCertificate(chain[0])
        elif kind == HandshakeType.CERTIFICATE_VERIFY:
            scheme, signature = decode_certificate_verify(body)
            role = DtlsRole.CLIENT if name == "client" else DtlsRole.SERVER
            content = signed_content(role, self.transcript.digest())
            self.signatures.append(side.certificate.verify(scheme, signature, content))
        elif kind == HandshakeType.KEY_UPDATE:
            decode_key_update(body)
            side.secret = self.schedule.next_secret(side.secret)
            epoch = side.epochs.newest_read + 1
            side.epochs.install_read(self.schedule.read_keys(epoch, side.secret))
        elif kind == HandshakeType.CLIENT_HELLO:
            self.client_random = decode_client_hello(body).random
        elif kind == HandshakeType.SERVER_HELLO:
            self._server_hello(message)
            return
        if kind not in POST_HANDSHAKE:
            self.transcript.add(kind, message.message_seq, body)

    def _server_hello(self, message: HandshakeMessage) -> None:
        hello = decode_server_hello(message.body)
        if self.schedule is None:
            self.suite = hello.suite
            self.schedule = Schedule13(hello.suite)
            self.transcript.start(DtlsVersion.DTLS13, self.schedule.hash_name)
        if hello.is_retry_request:
            self.transcript.fold_for_retry()
        self.transcript.add(message.message_type, message.message_seq, message.body)
        if not hello.is_retry_request:
            log = self.secrets[self.client_random]
            for name, side in self.sides.items():
                side.intake.version = DtlsVersion.DTLS13
                side.secret = (
                    log.get(f"{name.upper()}_TRAFFIC_SECRET_0")
                    or log[f"{name.upper()}_TRAFFIC_SECRET"]
                )
                handshake = log[f"{name.upper()}_HANDSHAKE_TRAFFIC_SECRET"]
                side.epochs.install_read(self.schedule.read_keys(2, handshake))
                side.epochs.install_read(self.schedule.read_keys(3, side.secret))
