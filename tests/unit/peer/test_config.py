"""Values that cannot work are refused where they are written."""

from __future__ import annotations

import pytest

from warp.dtls import DtlsRole, DtlsVersion
from warp.errors import InvalidConfig
from warp.peer import PeerConfig
from warp.peer.config import DTLS_MTU, SCTP_MTU

DTLS12_OVERHEAD = 13 + 8 + 16  # RFC 6347 section 4.1, RFC 5288 section 3: header, nonce, tag
DTLS13_OVERHEAD = 5 + 1 + 16  # RFC 9147 section 4: unified header, content type, tag


@pytest.mark.parametrize(
    "wrong",
    [
        {"connect_timeout_s": 0.0},
        {"connect_timeout_s": float("nan")},
        {"connect_timeout_s": float("inf")},
        {"max_message_size": -1},
        {"max_message_size": 10**12},
        {"versions": ()},
        {"versions": ("x",)},
        {"groups": ()},
        {"sctp_port": 0},
        {"audio": False, "data": False},
    ],
)
def test_what_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig):
        PeerConfig(**wrong)  # type: ignore[arg-type]


def test_an_sctp_packet_fits_a_datagram_in_either_version() -> None:
    assert PeerConfig().sctp().mtu == SCTP_MTU
    assert SCTP_MTU + max(DTLS12_OVERHEAD, DTLS13_OVERHEAD) <= DTLS_MTU


def test_the_names_of_roles_and_versions_are_the_wires() -> None:
    assert DtlsVersion.DTLS13 == 0xFEFC
    assert {role.value for role in DtlsRole} == {"client", "server"}


@pytest.mark.parametrize(
    ("rtt_s", "interval_s"),
    [(None, 0.05), (0.001, 0.02), (0.02, 0.025), (0.03, 0.0375), (0.2, 0.05)],
)
def test_a_known_path_sets_the_pace_of_checks(rtt_s: float | None, interval_s: float) -> None:
    """Sooner where an answer would have come sooner; never slower than usual."""
    config = PeerConfig(rtt_hint_s=rtt_s).ice()
    assert config.check_interval_s == pytest.approx(interval_s)
    assert not config.lite


@pytest.mark.parametrize("rtt_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_round_trip_that_cannot_be(rtt_s: float) -> None:
    with pytest.raises(InvalidConfig, match="rtt_hint_s"):
        PeerConfig(rtt_hint_s=rtt_s)
