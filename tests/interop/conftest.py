"""The real peers that are installed.

aiortc is kept to loopback, which aioice leaves out of its candidates by itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from interop import firefox as firefoxes
from interop.firefox import FirefoxProcess
from tests.interop.chromium import Chromiums


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


@pytest.fixture(scope="session")
def chromiums() -> Iterator[Chromiums]:
    """Running browsers that tests share; gone when the last test is over."""
    running = Chromiums()
    yield running
    running.close()


@pytest.fixture
def chromium(require_peer: Callable[[str], None], chromiums: Chromiums) -> Chromiums:
    """Ends the test when Chromium is absent; else a call with a configuration returns one."""
    require_peer("chromium")
    return chromiums


@pytest.fixture(scope="session")
def running_firefox() -> Iterator[FirefoxProcess]:
    """A Firefox that tests share; gone when the last test is over."""
    with firefoxes.start() as process:
        yield process


@pytest.fixture
def firefox(require_peer: Callable[[str], None], request: pytest.FixtureRequest) -> FirefoxProcess:
    """Ends the test when Firefox is absent; else the one that runs."""
    require_peer(next(filter(shutil.which, firefoxes.BINARIES), firefoxes.BINARIES[0]))
    process: FirefoxProcess = request.getfixturevalue("running_firefox")
    return process
