"""The real peers that are installed.

aiortc is kept to loopback, which aioice leaves out of its candidates by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def aiortc_on_loopback(
    require_peer: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends the test when aiortc is absent; else it gathers 127.0.0.1 and nothing else."""
    require_peer("aiortc")
    import aioice.ice

    monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])


@pytest.fixture
def libwebrtc(require_peer: Callable[[str], None]) -> None:
    """Ends the test when the package `wrtc`, libwebrtc for Python, is absent."""
    require_peer("wrtc")
