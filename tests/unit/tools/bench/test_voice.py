from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from warp_tools.bench.lossy_path import LossyPath
from warp_tools.bench.voice import Trial, VoiceReport, plot
from warp_tools.bench.voice_path import open_path

RTP, RTCP, STUN = b"\x80\x6f" + bytes(50), b"\x80\xc8" + bytes(50), bytes(60)


def trial(sessions: int, late: int = 0, p50: float = 400.0, p95: float = 800.0) -> Trial:
    causes = {"input_wait": 0, "queue": late, "model": 0, "encode": 0, "pacer": 0}
    return Trial(
        sessions=sessions,
        frames=3_000 * sessions,
        late=late,
        late_by_cause=causes,
        missing_ms=0,
        longest_late_run=late,
        reply_ms={"p50": p50, "p95": p95},
        replies=10,
        unanswered=0,
        overlaps=1,
        tick_p99_ms=3.0,
        server_mib=300,
    )


def test_the_capacity_is_the_largest_number_without_a_late_frame(tmp_path: Path) -> None:
    report = VoiceReport(60.0, 0.01, [trial(16), trial(24, late=3), trial(20)])
    told = report.to_json()
    assert told["sessions_no_late"] == 20
    assert told["reply_ms"] == {"p50": 400.0, "p95": 800.0}
    assert told["late_by_cause"]["queue"] == 0
    assert told["targets_met"] is True
    report.latencies = {16: [380.0, 420.0], 20: [500.0], 24: []}
    plot(report, tmp_path / "voice.png")
    assert (tmp_path / "voice.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_missed_is_said() -> None:
    report = VoiceReport(60.0, 0.01, [trial(16, late=1, p95=901.0), trial(8)])
    assert report.to_json()["misses"] == [
        "sessions without a late frame: 8 (target >= 16)",
        "ms to an answer, p95: 901 (target <= 900)",
    ]
    assert not VoiceReport(60.0, 0.01).targets_met


def test_media_alone_is_lost() -> None:
    path = LossyPath(9, 1.0, 1)
    assert [path._is_lost(data) for data in (RTP, RTCP, STUN, b"")] == [True, False, False, False]
    path.close()


def test_a_path_leads_each_client_to_the_server_and_back() -> None:
    async def test() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.settimeout(10)
            async with open_path(server.getsockname()[1], 0.0, 1) as front:
                clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
                for number, client in enumerate(clients):
                    client.settimeout(10)
                    client.sendto(bytes([number]) * 20, ("127.0.0.1", front))
                    data, source = server.recvfrom(100)
                    server.sendto(data + b"!", source)
                for number, client in enumerate(clients):
                    assert client.recv(100) == bytes([number]) * 20 + b"!"
                    client.close()

    asyncio.run(test())
