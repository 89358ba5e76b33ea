"""The plaintext handshake messages of a capture, put together per direction."""

from __future__ import annotations

from tests.captures.pcap import read_pcap

HANDSHAKE = 22


def handshake_messages(capture: str, ports: set[int] | None = None) -> list[tuple[int, bytes]]:
    """Return type and body of every epoch-0 handshake message, in order of completion."""
    parts: dict[tuple, dict[int, bytes]] = {}
    done: list[tuple[int, bytes]] = []
    for packet in read_pcap(capture):
        if ports and not ports & {packet.source[1], packet.destination[1]}:
            continue
        data, pos = packet.payload, 0
        while pos + 13 <= len(data) and 20 <= data[pos] <= 26 and data[pos + 1] == 0xFE:
            kind, epoch = data[pos], int.from_bytes(data[pos + 3 : pos + 5], "big")
            length = int.from_bytes(data[pos + 11 : pos + 13], "big")
            if kind == HANDSHAKE and epoch == 0:
                way = (packet.source, packet.destination)
                _take(way, data[pos + 13 : pos + 13 + length], parts, done)
            pos += 13 + length
    return done


def _take(way, record, parts, done) -> None:
    pos = 0
    while pos < len(record):
        kind = record[pos]
        total = int.from_bytes(record[pos + 1 : pos + 4], "big")
        sequence = int.from_bytes(record[pos + 4 : pos + 6], "big")
        offset = int.from_bytes(record[pos + 6 : pos + 9], "big")
        length = int.from_bytes(record[pos + 9 : pos + 12], "big")
        fragments = parts.setdefault((way, sequence, kind, total), {})
        fragments[offset] = record[pos + 12 : pos + 12 + length]
        body = b"".join(fragments[key] for key in sorted(fragments))
        if len(body) == total:
            done.append((kind, body))
        pos += 12 + length
