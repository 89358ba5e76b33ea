"""Calls of these tests stay on loopback."""

from __future__ import annotations

import pytest

from warp.compat.aiortc import call


@pytest.fixture(autouse=True)
def on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "expand_host", lambda host, loopback: ["127.0.0.1"])
