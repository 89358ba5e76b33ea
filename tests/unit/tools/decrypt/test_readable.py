"""Records for every Wireshark: messages whole and in TLS's form, and a comment for the rest."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.captures.pcap import CAPTURES
from warp.dtls import DtlsRole
from warp.dtls.acks import encode_ack
from warp.dtls.records import ACK, DTLS12_WIRE, HANDSHAKE, PLAIN_HEADER
from warp_tools.capture.reader import Datagram
from warp_tools.decrypt import DecryptConfig, decrypt
from warp_tools.decrypt.plain import Plain
from warp_tools.decrypt.readable import MAX_MESSAGES, Readable, Readables

BODY = bytes(range(200))
A, B = ("192.0.2.1", 1), ("192.0.2.2", 2)


def fragment(seq: int, start: int, end: int, kind: int = 11) -> bytes:
    head = bytes((kind,)) + len(BODY).to_bytes(3, "big") + seq.to_bytes(2, "big")
    return head + start.to_bytes(3, "big") + (end - start).to_bytes(3, "big") + BODY[start:end]


def record(number: int, content: bytes, epoch: int = 2, kind: int = HANDSHAKE) -> Plain:
    datagram = Datagram(number, 0, A, B, content, len(content), "udp", 0, 64)
    data = PLAIN_HEADER.pack(kind, DTLS12_WIRE, 0, 0, number, len(content)) + content
    return Plain(datagram, "dtls", data, 1, DtlsRole.SERVER, f"epoch {epoch}", epoch)


def tls(kind: int = 11) -> bytes:
    return bytes((kind,)) + len(BODY).to_bytes(3, "big") + BODY


def test_a_whole_message_is_that_of_tls() -> None:
    readable = Readables().receive(record(7, fragment(3, 0, 200) + fragment(4, 0, 200, 15)))
    assert readable == Readable("tls13-handshake", tls() + tls(15), "epoch 2")


def test_fragments_are_put_together_where_the_last_one_comes() -> None:
    readables = Readables()
    assert readables.receive(record(7, fragment(3, 0, 80))) == Readable(
        "data", fragment(3, 0, 80), "epoch 2; Certificate[0..80 of 200]"
    )
    last = readables.receive(record(9, fragment(3, 80, 200) + fragment(4, 0, 200, 20)))
    assert last.dissector == "tls13-handshake" and last.content == tls() + tls(20)
    assert last.comment == "epoch 2; Certificate put together from #7, #9"


def test_a_message_that_comes_again_is_put_together_again() -> None:
    readables = Readables()
    for first in (1, 3):
        readables.receive(record(first, fragment(3, 0, 80)))
        again = readables.receive(record(first + 1, fragment(3, 80, 200)))
        assert again.content == tls()
        assert again.comment.endswith(f"from #{first}, #{first + 1}")


def test_what_makes_no_sense_stays_bytes() -> None:
    readables = Readables()
    assert readables.receive(record(1, b"abc")).dissector == "data"
    absurd = bytes((11,)) + (8).to_bytes(3, "big") + bytes(2) + (7).to_bytes(3, "big")
    assert readables.receive(record(2, absurd + (9).to_bytes(3, "big") + bytes(9)))[0] == "data"


def test_messages_that_never_become_whole_are_forgotten() -> None:
    readables = Readables()
    for seq in range(MAX_MESSAGES + 1):
        readables.receive(record(seq, fragment(seq, 0, 80)))
    assert readables.receive(record(99, fragment(0, 80, 200))).dissector == "data"
    assert readables.receive(record(99, fragment(9, 80, 200))).content == tls()


def test_records_in_the_clear_stay_as_they_were_and_an_ack_is_told() -> None:
    readables = Readables()
    clear = record(1, fragment(0, 0, 80), epoch=0)
    assert readables.receive(clear)[:2] == ("dtls", clear.data)
    ack = record(2, encode_ack([(2, 0), (2, 1)]), epoch=3, kind=ACK)
    assert readables.receive(ack).comment == "epoch 3; ACK of records (epoch/number) 2/0, 2/1"
    assert "malformed" in readables.receive(record(2, b"\0\7", kind=ACK)).comment


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bssl_mtu300", "nssff153_basic", "bssl_tickets", "loss_bn_mtu400_s5"]
)
def test_tshark_finds_nothing_malformed(name: str, tmp_path: Path, require_peer: Any) -> None:
    """Captures with certificates and tickets in fragments."""
    require_peer("tshark")
    capture = CAPTURES / "dtls" / f"{name}.pcap"
    plain = tmp_path / "plain.pcapng"
    decrypt(DecryptConfig(capture=capture, keylog=capture.with_suffix(".keylog"), plain=plain))
    command = [shutil.which("tshark") or "tshark", "-n", "-r", str(plain), "-Y", "_ws.malformed"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
