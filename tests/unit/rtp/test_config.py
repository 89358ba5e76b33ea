"""Configuration that cannot work is refused when it is made."""

from __future__ import annotations

import pytest

from warp.errors import InvalidConfig
from warp.rtp import PayloadKind, ReceiverConfig, SessionConfig


@pytest.mark.parametrize(
    "change",
    [{"clock_rate": 0}, {"reorder_capacity": 0}, {"reorder_wait_s": -1.0},
     {"payload_kinds": {128: PayloadKind.AUDIO}}, {"payload_kinds": {72: PayloadKind.AUDIO}}],
)  # fmt: skip
def test_receiver(change: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig):
        ReceiverConfig(**change)


@pytest.mark.parametrize("change", [{"report_interval_s": 0.0}, {"feedback_interval_s": 0.0}])
def test_session(change: dict[str, float]) -> None:
    with pytest.raises(InvalidConfig):
        SessionConfig(**change)
