"""Configurations that make no sense are refused."""

from __future__ import annotations

import pytest

from warp.errors import InvalidConfig
from warp.sctp import SctpConfig


@pytest.mark.parametrize(
    "options",
    [
        {"port": 0},
        {"remote_port": 65536},
        {"mtu": 511},
        {"a_rwnd": 1499},
        {"outbound_streams": 0},
        {"rto_min_s": 2.0},
        {"rto_initial_s": 61.0},
        {"sack_delay_s": 0.6},
        {"max_burst_packets": 0},
    ],
)
def test_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidConfig):
        SctpConfig(**options)  # type: ignore[arg-type]


def test_defaults() -> None:
    config = SctpConfig()
    assert (config.port, config.remote_port, config.mtu) == (5000, 5000, 1191)
    assert config.max_retransmissions is config.max_init_retransmissions is None
