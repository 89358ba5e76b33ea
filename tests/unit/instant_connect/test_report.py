from __future__ import annotations

from typing import Any

from instant_connect.calls import Call, CallInfo
from instant_connect.offers import Kind
from instant_connect.report import start_report
from tests.unit.instant_connect.doubles import DoubleSession
from tests.unit.sdp import shapes
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.srtp import SrtpProfile

STATS: dict[str, Any] = {
    "state": "connected",
    "datagrams_received": 12,
    "bytes_received": 3400,
    "datagrams_sent": 11,
    "bytes_sent": 2300,
    "dtls_version": DtlsVersion.DTLS13,
    "dtls_group": NamedGroup.X25519MLKEM768,
    "dtls_role": "server",
    "srtp_profile": int(SrtpProfile.AEAD_AES_256_GCM),
    "sped": "complete",
    "sped_used": True,
    "sped_options": ("sped", "googspedv1"),
    "snap": "snap",
    "ice_lite": True,
    "ice_role": "controlled",
    "rtt_s": None,
    "flow": (("192.0.2.1", 1), ("192.0.2.2", 2)),
    "milestones": {"first_check": 100.0, "early_write": 100.004, "dtls_connected": 100.2511},
}


def report(stats: dict[str, Any], now: float = 101.0) -> dict[str, Any]:
    session = DoubleSession(1, shapes.FIREFOX)
    session.told = stats
    info = CallInfo(id="rtc_1", kind=Kind.REALTIME)
    call = Call(info=info, session=session, key=None, asked_at=99.9, answered_at=99.9015)
    return start_report(call, now)


def test_times_count_from_the_first_datagram() -> None:
    told = report(STATS)
    assert told["milestones_ms"] == {
        "dtls_connected": 251.1,
        "early_write": 4.0,
        "first_check": 0.0,
        "srtp_ready": 4.0,
    }
    assert told["now_ms"] == 1000.0
    assert told["signalling"] == {
        "offer_read_ms": -100.0,
        "answered_ms": -98.5,
        "took_ms": 1.5,
    }


def test_what_was_negotiated_is_told_in_words() -> None:
    told = report(STATS)
    assert told["dtls"] == {
        "version": "1.3",
        "group": "X25519MLKEM768",
        "post_quantum": True,
        "role": "server",
    }
    assert told["srtp_profile"] == "AEAD_AES_256_GCM"
    assert told["sped"] == {
        "used": True,
        "options": ["sped", "googspedv1"],
        "state": "complete",
    }
    assert told["snap"] == {"used": True, "mode": "snap"}
    assert told["ice"] == {"lite": True, "role": "controlled", "rtt_ms": None}
    assert told["traffic"]["datagrams_sent"] == 11
    # addresses are nobody's business
    assert "192.0.2" not in str(told)


def test_classical_and_older() -> None:
    told = report(
        {
            **STATS,
            "dtls_version": DtlsVersion.DTLS12,
            "dtls_group": NamedGroup.SECP256R1,
            "snap": "classic",
            "rtt_s": 0.0523,
        }
    )
    assert told["dtls"]["version"] == "1.2"
    assert told["dtls"]["post_quantum"] is False
    assert told["snap"]["used"] is False
    assert told["ice"]["rtt_ms"] == 52.3


def test_before_the_first_datagram_there_are_no_times() -> None:
    told = report({"state": "connecting", "milestones": {}})
    assert told["milestones_ms"] == {}
    assert told["now_ms"] is None
    assert told["signalling"] == {"offer_read_ms": None, "answered_ms": None, "took_ms": 1.5}
    assert told["dtls"]["post_quantum"] is None
    assert told["srtp_profile"] is None
