"""Chromium on the wire: with the flags it comes with and with each part of WARP, whoever offers and
whoever is the DTLS client, by the datagrams that were exchanged and by what both ends say about it.
"""

from __future__ import annotations

import asyncio

import pytest

from interop.chromium import ChromiumConfig
from interop.wire import Rung
from tests.interop.browsers import (
    PATIENCE_S,
    PageCall,
    page_calls,
    prepared,
    talk,
    we_call_page,
)
from tests.interop.chromium import (
    DEFAULT,
    NO_PQC,
    SNAP,
    SPED,
    WARP,
    WARP_NO_PQC,
    Chromiums,
)
from tests.interop.loops import run
from tests.interop.on_the_wire import check_attributes, dtls_in, first
from tests.interop.test_start import forge_fingerprints
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.errors import FingerprintMismatch, HandshakeTimedOut
from warp.io import ServerConfig, WarpOptions
from warp.sped import PiggybackState

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LARGE = bytes(range(256)) * 64
KINDS = {
    "default": DEFAULT,
    "no-pqc": NO_PQC,
    "sped": SPED,
    "snap": SNAP,
    "warp": WARP,
    "warp-no-pqc": WARP_NO_PQC,
}
# far enough for checks to come before what could go bare: a response carries nothing to who
# already has it
APART_S = 0.04
TRIES = 4


def kinds(of: dict[str, ChromiumConfig]) -> pytest.MarkDecorator:
    """Run a test with these Chromiums."""
    return pytest.mark.parametrize("config", of.values(), ids=of.keys())


async def check_dtls(call: PageCall, group: NamedGroup, *, we_are_client: bool) -> None:
    """Both ends agree on what was negotiated, and nothing was received in vain."""
    ours, theirs = call.session.stats(), await call.peer.transport()
    assert ours["dtls_version"] is DtlsVersion.DTLS13
    assert theirs["tlsVersion"] == "FEFC"
    assert ours["dtls_group"] is group
    assert theirs["dtlsRole"] == ("server" if we_are_client else "client")
    assert theirs["dtlsState"] == "connected"
    assert ours["unknown_datagrams"] == 0
    reasons = {data["reason"] for _, data in call.trace.named("dtls:discarded")}
    assert reasons <= {"replay", "plaintext"}
    assert call.page.errors == []


def check_sped(call: PageCall, config: ChromiumConfig, *, we_are_client: bool) -> None:
    """DTLS travelled inside STUN both ways, with the client's hello in its first message."""
    wire, state = call.wire, call.session.stats()["sped"]
    ours, theirs = wire.riders(ours=True), wire.riders(ours=False)
    assert check_attributes(wire) > 0
    offered = "a=ice-options:trickle sped googspedv1\r\n"
    if not config.sped:
        assert state == PiggybackState.OFF.value
        assert theirs == []
        return
    assert state in (PiggybackState.PENDING.value, PiggybackState.COMPLETE.value)
    assert offered in call.offer
    assert "sped" in call.answer
    client = [r for r in list(wire.rungs) if r.ours is we_are_client and r.message is not None]
    # a lite agent that is the client has only responses to put its hello into
    checks = [r for r in client if r.is_check]
    assert "ClientHello" in dtls_in((checks or client)[0])
    assert "ServerHello" in dtls_in(first(wire, ours=not we_are_client, contents="ServerHello"))
    assert ours
    assert theirs


def check_snap(call: PageCall, used: bool) -> None:
    """With SNAP the association was up as soon as DTLS was; else it took cookies."""
    states = [data["new"] for _, data in call.trace.named("sctp:state_changed")]
    assert (states == ["established"]) is used
    if used:
        assert call.offer.count("a=sctp-init:") == 1
        assert call.answer.count("a=sctp-init:") == 1
    else:
        assert states[0] == "cookie-wait"
        assert states[-1] == "established"


@kinds(KINDS)
def test_chromium_offers(chromium: Chromiums, config: ChromiumConfig) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            page_calls(browser, delay_s=APART_S, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "short", LARGE)
            group = NamedGroup.X25519MLKEM768 if config.pqc else NamedGroup.X25519
            await check_dtls(call, group, we_are_client=False)
            check_sped(call, config, we_are_client=False)
            check_snap(call, config.snap)

    run(test())


@pytest.mark.parametrize(
    ("config", "lite", "passive"),
    [
        (DEFAULT, True, False),
        (WARP_NO_PQC, True, False),
        (DEFAULT, False, True),
        (WARP, False, True),
        (WARP, False, False),
        (WARP_NO_PQC, False, False),
    ],
    ids=[
        "default-lite-active",
        "warp-no-pqc-lite-active",
        "default-full-passive",
        "warp-full-passive",
        "warp-full-active",
        "warp-no-pqc-full-active",
    ],
)
def test_chromium_offers_to_other_kinds_of_servers(
    chromium: Chromiums, config: ChromiumConfig, lite: bool, passive: bool
) -> None:
    async def test() -> None:
        server = ServerConfig(lite=lite, passive=passive)
        async with (
            chromium(config).attach() as browser,
            page_calls(
                browser, server, delay_s=APART_S, prepare=prepared, audio="microphone"
            ) as call,
        ):
            await talk(call, "short", LARGE)
            # a lite agent that is the DTLS client leaves the hybrid out of its hello
            hybrid = config.pqc and not (lite and not passive)
            group = NamedGroup.X25519MLKEM768 if hybrid else NamedGroup.X25519
            await check_dtls(call, group, we_are_client=not passive)
            check_sped(call, config, we_are_client=not passive)
            check_snap(call, config.snap)
            assert ("a=ice-lite" in call.answer) == lite
            assert f"a=setup:{'passive' if passive else 'active'}\r\n" in call.answer

    run(test())


@pytest.mark.parametrize(
    ("config", "setup"),
    [(DEFAULT, "active"), (DEFAULT, "passive"), (WARP, "passive"), (WARP_NO_PQC, "active")],
    ids=["default-active", "default-passive", "warp-passive", "warp-no-pqc-active"],
)
def test_we_offer(chromium: Chromiums, config: ChromiumConfig, setup: str) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            we_call_page(
                browser, setup=setup, delay_s=APART_S, prepare=prepared, audio="microphone"
            ) as call,
        ):
            await talk(call, "short", LARGE)
            group = NamedGroup.X25519MLKEM768 if config.pqc else NamedGroup.X25519
            await check_dtls(call, group, we_are_client=setup == "passive")
            check_sped(call, config, we_are_client=setup == "passive")
            check_snap(call, config.snap)
            assert f"a=setup:{setup}\r\n" in call.answer

    run(test())


async def check_one_answer(call: PageCall) -> None:
    """A hello in the check, our whole flight in the response, then it is the client's turn."""
    await talk(call, "short")
    wire = call.wire
    answer = next(r for r in wire.rungs if r.ours)
    assert answer.message is not None
    [check] = [
        r
        for r in wire.rungs
        if r.is_check
        and r.message is not None
        and r.message.transaction_id == answer.message.transaction_id
    ]
    assert dtls_in(check) == "ClientHello"
    assert dtls_in(answer).startswith("ServerHello + encrypted")
    # their last flight is the answer to it, and nothing of ours went bare before
    flight = next(
        r for r in wire.rungs if not r.ours and dtls_in(r) and "ClientHello" not in dtls_in(r)
    )
    assert flight.time > answer.time + APART_S
    before = [r for r in wire.rungs if r.ours and r.time < flight.time]
    assert not any(r.is_dtls for r in before)
    assert len({r.rider for r in before}) == 1


def test_the_first_check_is_answered_by_one_datagram(chromium: Chromiums) -> None:
    """All of WARP. On a machine that is busy with other things timers add datagrams: one of few."""

    async def test() -> None:
        async with chromium(WARP_NO_PQC).attach() as browser:
            for attempt in range(TRIES):
                async with page_calls(browser, prepare=prepared, delay_s=APART_S) as call:
                    try:
                        await check_one_answer(call)
                    except AssertionError:
                        if attempt + 1 == TRIES:
                            raise
                    else:
                        return

    run(test(), seconds=40)


@pytest.mark.parametrize("hello", ["ClientHello", "ServerHello"])
@kinds({"default": DEFAULT, "warp": WARP})
def test_halves_of_a_hello_in_the_wrong_order(
    chromium: Chromiums, config: ChromiumConfig, hello: str
) -> None:
    """The hybrid takes two datagrams each way; the second one comes first."""
    # a hello that rides: the check with its other half leaves some 50 ms later
    held_s = 0.12 if config.sped and hello == "ClientHello" else 0.03
    held: list[Rung] = []

    def rule(rung: Rung) -> float | None:
        late = f"{hello}[0.." in dtls_in(rung)
        if late:
            held.append(rung)
        return held_s if late and len(held) == 1 else 0.0

    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            page_calls(browser, prepare=prepared, rule=rule) as call,
        ):
            await talk(call, "short")
            await check_dtls(call, NamedGroup.X25519MLKEM768, we_are_client=False)
            assert held
            check_attributes(call.wire)

    run(test())


@pytest.mark.parametrize(
    ("config", "lite"), [(WARP, True), (DEFAULT, False)], ids=["warp-lite", "default-full"]
)
def test_an_answer_that_lies_around(
    chromium: Chromiums, config: ChromiumConfig, lite: bool
) -> None:
    """The page applies it most of a second late: our own checks may long be there."""

    async def test() -> None:
        async with chromium(config).attach() as browser:
            server = ServerConfig(lite=lite)
            async with page_calls(browser, server, prepare=prepared, lateMs=700) as call:
                await talk(call, "short")
                accepted = await call.peer.happened("accepting")
                opened = await call.peer.happened("open:talk")
                assert opened.at - accepted.at < 1.0

    run(test())


@pytest.mark.parametrize(("theirs", "ours"), [("active", "passive"), ("passive", "active")])
def test_an_offer_that_insists_on_its_role(chromium: Chromiums, theirs: str, ours: str) -> None:
    """Chromium itself offers actpass only; a page can change what it posts."""

    def insist(sdp: str) -> str:
        return sdp.replace("a=setup:actpass", f"a=setup:{theirs}")

    async def test() -> None:
        # our own wish is the contrary
        server = ServerConfig(passive=ours != "passive")
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, server, prepare=prepared, edit_offer=insist) as call,
        ):
            await talk(call, "short")
            assert f"a=setup:{ours}\r\n" in call.answer
            assert (await call.peer.transport())["dtlsRole"] == (
                "server" if theirs == "passive" else "client"
            )

    run(test())


def test_an_answer_whose_role_was_forged_ends_in_time(chromium: Chromiums) -> None:
    """Two DTLS servers have nothing to say to each other; ours gives up and says so."""

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
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


@pytest.mark.parametrize(
    "options",
    [WarpOptions(sped=False, snap=False), WarpOptions(sped=False), WarpOptions(snap=False)],
    ids=["plain", "no-sped", "no-snap"],
)
def test_chromium_with_all_of_warp_calls_who_lacks_a_part(
    chromium: Chromiums, options: WarpOptions
) -> None:
    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, ServerConfig(warp=options), prepare=prepared) as call,
        ):
            await talk(call, "short", LARGE)
            if not options.sped:
                assert call.wire.riders(ours=True) == []
            check_snap(call, options.snap)

    run(test())


@pytest.mark.parametrize(
    ("config", "group"),
    [(DEFAULT, NamedGroup.SECP256R1), (WARP, NamedGroup.SECP384R1)],
    ids=["default-p256", "warp-p384"],
)
def test_our_hello_retry_request(
    chromium: Chromiums, config: ChromiumConfig, group: NamedGroup
) -> None:
    async def test() -> None:
        server = ServerConfig(warp=WarpOptions(groups=(group,)))
        async with (
            chromium(config).attach() as browser,
            page_calls(browser, server, prepare=prepared) as call,
        ):
            await talk(call, "short")
            await check_dtls(call, group, we_are_client=False)

    run(test())


def test_a_server_of_dtls_1_2_only(chromium: Chromiums) -> None:
    async def test() -> None:
        options = WarpOptions(versions=(DtlsVersion.DTLS12,))
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, ServerConfig(warp=options), prepare=prepared) as call,
        ):
            await talk(call, "short", LARGE)
            assert call.session.stats()["dtls_version"] is DtlsVersion.DTLS12
            assert (await call.peer.transport())["tlsVersion"] == "FEFD"

    run(test())


def test_we_refuse_another_certificate_than_the_offers(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, prepare=prepared, edit_offer=forge_fingerprints) as call,
        ):
            with pytest.raises(FingerprintMismatch):
                await call.session.connected()
            await call.peer.happened("connection:failed")

    run(test())


def test_chromium_refuses_another_certificate_than_our_answers(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, prepare=prepared, edit_answer=forge_fingerprints) as call,
        ):
            await call.peer.happened("connection:failed")
            assert "open:talk" not in await call.peer.marks()

    run(test())


@pytest.mark.parametrize("setup", ["active", "passive"])
def test_chromium_with_an_rsa_certificate(chromium: Chromiums, setup: str) -> None:
    certificate = {
        "name": "RSASSA-PKCS1-v1_5",
        "modulusLength": 2048,
        "publicExponent": [1, 0, 1],
        "hash": "SHA-256",
    }

    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            we_call_page(browser, setup=setup, prepare=prepared, certificate=certificate) as call,
        ):
            await talk(call, "short")
            assert call.page.errors == []

    run(test())
