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
from warp.srtp import SrtpProfile
from warp.stun import Attribute

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LARGE = bytes(range(256)) * 64
HYBRID = NamedGroup.X25519MLKEM768
NEXT_CHECK_S = 0.1
"""How long Firefox waits before it repeats its first check."""


async def check_dtls(call: PageCall, group: NamedGroup, *, we_are_client: bool) -> None:
    """Both ends agree on what was negotiated, and nothing was received in vain."""
    ours, theirs = call.session.stats(), await call.peer.transport()
    assert ours["dtls_version"] is DtlsVersion.DTLS13
    assert theirs["tlsVersion"] == "FEFC"
    assert ours["dtls_group"] is group
    assert theirs["dtlsRole"] == ("server" if we_are_client else "client")
    assert theirs["dtlsState"] == "connected"
    # both like AES-GCM best
    assert ours["srtp_profile"] == SrtpProfile.AEAD_AES_128_GCM
    assert ours["unknown_datagrams"] == 0
    reasons = {data["reason"] for _, data in call.trace.named("dtls:discarded")}
    assert reasons <= {"replay", "plaintext"}
    assert call.page.errors == []


def check_nothing_of_warp(call: PageCall, theirs: str) -> None:
    """No DTLS came inside STUN, SCTP took its cookies; our attributes did no harm."""
    assert call.wire.riders(ours=False) == []
    assert check_attributes(call.wire) > 0
    assert call.session.stats()["sped"] == PiggybackState.OFF.value
    assert "mozilla" in theirs
    assert "sped" not in theirs
    assert "a=sctp-init" not in theirs
    states = [data["new"] for _, data in call.trace.named("sctp:state_changed")]
    assert states[0] == "cookie-wait"
    assert states[-1] == "established"


def hellos(call: PageCall, *, ours: bool) -> list[Rung]:
    """Return the datagrams of one side with a part of a ClientHello, as they came."""
    return [r for r in list(call.wire.rungs) if r.ours is ours and "ClientHello" in dtls_in(r)]


@pytest.mark.parametrize(
    ("lite", "passive"),
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["lite-passive", "lite-active", "full-passive", "full-active"],
)
def test_firefox_offers(firefox: FirefoxProcess, lite: bool, passive: bool) -> None:
    async def test() -> None:
        server = ServerConfig(lite=lite, passive=passive)
        async with (
            firefox.attach() as browser,
            page_calls(browser, server, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "short", LARGE)
            # a lite agent that is the DTLS client leaves the hybrid out of its hello
            group = NamedGroup.X25519 if lite and not passive else HYBRID
            await check_dtls(call, group, we_are_client=not passive)
            check_nothing_of_warp(call, call.offer)
            assert ("a=ice-lite" in call.answer) == lite
            assert f"a=setup:{'passive' if passive else 'active'}\r\n" in call.answer

    run(test())


@pytest.mark.parametrize("setup", ["active", "passive"])
def test_we_offer(firefox: FirefoxProcess, setup: str) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            we_call_page(browser, setup=setup, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "short", LARGE)
            await check_dtls(call, HYBRID, we_are_client=setup == "passive")
            check_nothing_of_warp(call, call.answer)
            assert f"a=setup:{setup}\r\n" in call.answer

    run(test())


def test_what_it_says_first(firefox: FirefoxProcess) -> None:
    """It nominates with its first check, although we are lite, and its hello has two datagrams."""

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, prepare=prepared, delay_s=0.02) as call,
        ):
            await talk(call, "short")
            theirs = [r for r in call.wire.rungs if not r.ours]
            assert theirs[0].message is not None
            assert theirs[0].message.get(Attribute.USE_CANDIDATE) is not None
            first, second = hellos(call, ours=False)[:2]
            assert dtls_in(first).startswith("ClientHello[0..")
            begins = dtls_in(first).removeprefix("ClientHello[0..").split()[0]
            assert dtls_in(second).startswith(f"ClientHello[{begins}..")
            assert len(first.data) > len(second.data)
            answered = [r for r in call.wire.rungs if r.ours and r.is_dtls]
            assert all(len(r.data) <= 1200 for r in answered)

    run(test())


@pytest.mark.parametrize("hello", ["ClientHello", "ServerHello"])
def test_halves_of_a_hello_in_the_wrong_order(firefox: FirefoxProcess, hello: str) -> None:
    held: list[Rung] = []

    def rule(rung: Rung) -> float | None:
        late = f"{hello}[0.." in dtls_in(rung)
        if late:
            held.append(rung)
        return 0.03 if late and len(held) == 1 else 0.0

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, prepare=prepared, rule=rule) as call,
        ):
            await talk(call, "short")
            await check_dtls(call, HYBRID, we_are_client=False)
            assert held

    run(test())


@pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])
def test_an_answer_that_lies_around(firefox: FirefoxProcess, lite: bool) -> None:
    """The page applies it most of a second late: our own checks may long be there."""

    async def test() -> None:
        server = ServerConfig(lite=lite)
        async with (
            firefox.attach() as browser,
            page_calls(browser, server, prepare=prepared, lateMs=700) as call,
        ):
            await talk(call, "short")
            accepted = await call.peer.happened("accepting")
            opened = await call.peer.happened("open:talk")
            assert opened.at - accepted.at < 1.5

    run(test())


@pytest.mark.parametrize(("theirs", "ours"), [("active", "passive"), ("passive", "active")])
def test_an_offer_that_insists_on_its_role(firefox: FirefoxProcess, theirs: str, ours: str) -> None:
    """Firefox itself offers actpass only; a page can change what it posts."""

    async def test() -> None:
        # our own wish is the contrary
        server = ServerConfig(passive=ours != "passive")
        async with (
            firefox.attach() as browser,
            page_calls(
                browser,
                server,
                prepare=prepared,
                edit_offer=lambda sdp: sdp.replace("a=setup:actpass", f"a=setup:{theirs}"),
            ) as call,
        ):
            await talk(call, "short")
            assert f"a=setup:{ours}\r\n" in call.answer
            role = (await call.peer.transport())["dtlsRole"]
            assert role == ("server" if theirs == "passive" else "client")

    run(test())


def test_an_answer_whose_role_was_forged_ends_in_time(firefox: FirefoxProcess) -> None:
    """Two DTLS servers have nothing to say to each other; ours gives up and says so."""

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(
                browser,
                ServerConfig(connect_timeout_s=1.0),
                prepare=prepared,
                edit_answer=lambda sdp: sdp.replace("a=setup:passive", "a=setup:active"),
            ) as call,
        ):
            error = await asyncio.wait_for(call.session.closed, PATIENCE_S)
            assert isinstance(error, HandshakeTimedOut)
            assert "open:talk" not in await call.peer.marks()

    run(test())


@pytest.mark.parametrize("group", [NamedGroup.SECP256R1, NamedGroup.SECP384R1])
def test_our_hello_retry_request(firefox: FirefoxProcess, group: NamedGroup) -> None:
    async def test() -> None:
        server = ServerConfig(warp=WarpOptions(groups=(group,)))
        async with (
            firefox.attach() as browser,
            page_calls(browser, server, prepare=prepared) as call,
        ):
            await talk(call, "short")
            assert call.session.stats()["dtls_group"] is group
            assert (await call.peer.transport())["tlsVersion"] == "FEFC"

    run(test())


def test_a_server_of_dtls_1_2_only(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        server = ServerConfig(warp=WarpOptions(versions=(DtlsVersion.DTLS12,)))
        async with (
            firefox.attach() as browser,
            page_calls(browser, server, prepare=prepared) as call,
        ):
            await talk(call, "short", LARGE)
            assert call.session.stats()["dtls_version"] is DtlsVersion.DTLS12
            assert (await call.peer.transport())["tlsVersion"] == "FEFD"

    run(test())


def test_a_firefox_of_dtls_1_2_only(firefox: FirefoxProcess) -> None:
    """As an administrator may have set it."""
    old = FirefoxConfig(preferences={"media.peerconnection.dtls.version.max": 771})

    async def test() -> None:
        async with launch(old) as browser:
            for passive in (True, False):
                server = ServerConfig(passive=passive)
                async with page_calls(browser, server, prepare=prepared) as call:
                    await talk(call, "short", LARGE)
                    assert call.session.stats()["dtls_version"] is DtlsVersion.DTLS12

    run(test(), seconds=30)


def test_we_refuse_another_certificate_than_the_offers(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, prepare=prepared, edit_offer=forge_fingerprints) as call,
        ):
            with pytest.raises(FingerprintMismatch):
                await call.session.connected()
            await call.peer.happened("connection:failed")
            assert "open:talk" not in await call.peer.marks()

    run(test())


def test_firefox_refuses_another_certificate_than_our_answers(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, prepare=prepared, edit_answer=forge_fingerprints) as call,
        ):
            await call.peer.happened("connection:failed")
            assert "open:talk" not in await call.peer.marks()

    run(test())


@pytest.mark.parametrize("setup", ["active", "passive"])
def test_firefox_with_an_rsa_certificate(firefox: FirefoxProcess, setup: str) -> None:
    certificate = {
        "name": "RSASSA-PKCS1-v1_5",
        "modulusLength": 2048,
        "publicExponent": [1, 0, 1],
        "hash": "SHA-256",
    }

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            we_call_page(browser, setup=setup, prepare=prepared, certificate=certificate) as call,
        ):
            await talk(call, "short")
            assert call.page.errors == []

    run(test())
