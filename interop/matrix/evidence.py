"""What is kept of a call that failed, or of every one: its datagrams, keys, and all that was said.

call-1.pcap   raw IPv4: 192.0.2.1 is our end, 192.0.2.2 the peer; when they entered the path
keys.log      SSLKEYLOGFILE of our end
call.sdp call-1.sqlog peer.log why.txt
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

from interop.matrix.call import Stage
from interop.wire import Rung
from warp.trace import JsonSeqTrace, MemoryTrace

OURS, THEIRS = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
_PORTS = {OURS: 10_001, THEIRS: 10_002}
_LINKTYPE_RAW = 101
_MAGIC = 0xA1B23C4D  # nanoseconds
_UDP = 17


def write_pcap(path: Path, rungs: Iterable[Rung]) -> None:
    """Write datagrams as a capture file."""
    wall_ns = time.time_ns() - time.monotonic_ns()
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", _MAGIC, 2, 4, 0, 0, 0xFFFF, _LINKTYPE_RAW))
        for rung in rungs:
            packet = _packet(rung.data, *((OURS, THEIRS) if rung.ours else (THEIRS, OURS)))
            seconds, rest = divmod(round(rung.time * 1e9) + wall_ns, 1_000_000_000)
            file.write(struct.pack("<IIII", seconds, rest, len(packet), len(packet)) + packet)


def _packet(data: bytes, source: bytes, target: bytes) -> bytes:
    udp = struct.pack(">HHHH", _PORTS[source], _PORTS[target], 8 + len(data), 0) + data
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, _UDP, 0) + source + target
    return head[:10] + struct.pack(">H", _checksum(head)) + head[12:] + udp


def _checksum(head: bytes) -> int:
    total = int(sum(struct.unpack(">10H", head)))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def keep(stage: Stage, folder: Path, why: str) -> None:
    """Write everything of a stage."""
    for number, wire in enumerate(stage.wires, 1):
        write_pcap(folder / f"call-{number}.pcap", list(wire.rungs))
    for number, trace in enumerate(stage.traces, 1):
        _write_trace(folder / f"call-{number}.sqlog", trace)
    (folder / "call.sdp").write_text("\n".join(stage.descriptions))
    (folder / "peer.log").write_text(stage.running.log())
    (folder / "why.txt").write_text(why + "\n")


def _write_trace(path: Path, trace: MemoryTrace) -> None:
    with path.open("w") as file:
        out = JsonSeqTrace(file.write)
        for record in trace.records:
            out.emit(*record)
