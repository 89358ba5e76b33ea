"""Firefox on the wire, as it comes: whoever offers and whoever is the DTLS client.

It speaks DTLS 1.3 with X25519MLKEM768 by itself, in a hello of two datagrams; of WARP it knows
nothing, and is not slowed by ours.
"""

from __future__ import annotations

import asyncio

import pytest

from interop.firefox import FirefoxConfig, FirefoxProcess, launch
from interop.wire import Rung
from tests.interop.browsers import (
    PATIENCE_S,
    PageCall,
    page_calls,
    prepared,
    talk,
    we_call_page,
)
from tests.interop.loops import run
from tests.interop.on_the_wire import check_attributes, dtls_in
from tests.interop.test_start import forge_fingerprints
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.errors import FingerprintMismatch, HandshakeTimedOut
from warp.io import ServerConfig, WarpOptions
from warp.sped import PiggybackState

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LARGE = bytes(range(256)) * 64
HYBRID = NamedGroup.X25519MLKEM768


async def check_dtls(call: PageCall, group: NamedGroup, *, we_are_client: bool) -> None:
    """What was negotiated is what both ends want most, and nothing was received in vain."""
    stats = call.session.stats()
    assert stats["dtls_version"] is DtlsVersion.DTLS13
    assert stats["dtls_group"] is group
    assert stats["dtls_role"] == ("client" if we_are_client else "server")
    assert stats["unknown_datagrams"] == 0
    reasons = {data["reason"] for _, data in call.trace.named("dtls:discarded")}
    assert reasons <= {"replay", "plaintext"}
    assert call.page.errors == []


def check_nothing_of_warp(call: PageCall) -> None:
    """Neither end put DTLS into STUN once ours had seen a check; SCTP took its cookies."""
    assert call.wire.riders(ours=False) == []
    assert check_attributes(call.wire) > 0
    assert call.session.stats()["sped"] == PiggybackState.OFF.value
    for description in (call.offer, call.answer):
        if "mozilla" in description:
            assert "sped" not in description
            assert "a=sctp-init" not in description
    states = [data["new"] for _, data in call.trace.named("sctp:state_changed")]
    assert states[0] == "cookie-wait"
    assert states[-1] == "established"


def hellos(call: PageCall, *, ours: bool) -> list[Rung]:
    """Return the datagrams of one side with a part of a ClientHello, as they came."""
    return [r for r in list(call.wire.rungs) if r.ours is ours and "ClientHello" in dtls_in(r)]


def test_firefox_offers(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "short", LARGE)
            await check_dtls(call, HYBRID, we_are_client=False)
            check_nothing_of_warp(call)
            first, second = hellos(call, ours=False)[:2]
            assert len(first.data) > len(second.data)
            assert dtls_in(first).startswith("ClientHello[0..")
            # it nominates with its first check, though we are lite
            check = next(r for r in call.wire.rungs if r.is_check)
            assert check.message is not None

    run(test())
