"""Real libwebrtc on the wire: every part of WARP alone and together, whoever offers and whoever is
the DTLS client, by the datagrams that were exchanged and by what both ends say about it.
"""

from __future__ import annotations

import pytest

from tests.interop.libwebrtc import (
    PQC,
    SNAP,
    SPED,
    WARP,
    Call,
    libwebrtc_calls,
    prepared,
    talk,
    we_call,
)
from tests.interop.loops import run
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.io import ClientConfig, ServerConfig, WarpOptions
from warp.sped import PiggybackState
from warp_tools.dissect import dtls_contents

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("libwebrtc")]

TRIALS = {"default": "", "sped": SPED, "snap": SNAP, "warp": WARP, "warp-pqc": WARP + PQC}
trials_of = pytest.mark.parametrize("trials", TRIALS.values(), ids=TRIALS.keys())
LARGE = bytes(range(256)) * 1024
# far enough for checks to come before what could go bare: a response carries nothing to who
# already has it
APART_S = 0.04
# both ends sent INIT, and each has the other's cookie (RFC 9260 section 5.2.1)
CROSSED = "chunk does not fit the state: COOKIE ACK received in established"


async def converse(call: Call) -> None:
    """Messages each way on the negotiated channel and on one that either side announces."""
    session, peer = call.session, call.peer
    await talk(call, "short", LARGE)
    ours = session.channel("ours", protocol="p")
    peer.tell("create_channel", label="theirs")
    theirs = await anext(session.channels())
    announced = await peer.wait("announced", label="ours")
    assert theirs.label == "theirs"
    assert announced["protocol"] == "p"
    await ours.opened()
    for channel in (ours, theirs):
        await peer.opened_at(channel.label)
        channel.send(f"to {channel.label}")
        peer.send(channel.label, b"\0")
        assert await peer.message(channel.label) == f"to {channel.label}"
        assert await anext(channel) == b"\0"


async def check_dtls(call: Call, group: NamedGroup, *, we_are_client: bool) -> None:
    """Both ends agree on what was negotiated."""
    ours, theirs = call.session.stats(), await call.peer.stats("transport")
    assert ours["dtls_version"] is DtlsVersion.DTLS13
    assert theirs["tls_version"] == "FEFC"
    assert ours["dtls_group"] is group
    assert theirs["dtls_role"] == ("server" if we_are_client else "client")
    assert theirs["dtls_state"] == "connected"
    assert ours["unknown_datagrams"] == 0
    reasons = {data["reason"] for _, data in call.trace.named("dtls:discarded")}
    assert reasons <= {"replay", "plaintext"}
    assert {data["reason"] for _, data in call.trace.named("sctp:discarded")} <= {CROSSED}


def check_sped(call: Call, used: bool, *, we_are_client: bool) -> None:
    """DTLS travelled inside STUN both ways, with the client's hello in its first message."""
    wire, state = call.wire, call.session.stats()["sped"]
    ours, theirs = wire.riders(ours=True), wire.riders(ours=False)
    if not used:
        assert state == PiggybackState.OFF.value
        assert theirs == []
        return
    assert state in (PiggybackState.PENDING.value, PiggybackState.COMPLETE.value)
    hello, flight = (ours, theirs) if we_are_client else (theirs, ours)
    assert "ClientHello" in dtls_contents(hello[0])
    assert "ServerHello" in dtls_contents(flight[0])
    # whoever has the other's flight needs nothing bare to go on: no hello before a path works
    first = next(r for r in wire.rungs if r.rider)
    bare = [r for r in wire.rungs if r.is_dtls and "ClientHello" in dtls_contents(r.data)]
    assert all(r.time > first.time for r in bare)


def check_snap(call: Call, used: bool) -> None:
    """With SNAP the association was up as soon as DTLS was; else it took cookies."""
    states = [data["new"] for _, data in call.trace.named("sctp:state_changed")]
    assert (states == ["established"]) is used
    milestones = call.session.stats()["milestones"]
    if used:
        assert milestones["channel_open"] == milestones["dtls_connected"]
    else:
        assert states[0] == "cookie-wait"
        assert states[-1] == "established"


@trials_of
@pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])
@pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
def test_libwebrtc_offers(trials: str, lite: bool, passive: bool) -> None:
    # a lite agent that is the DTLS client leaves the hybrid out of its hello
    hybrid = PQC in trials and not (lite and not passive)
    group = NamedGroup.X25519MLKEM768 if hybrid else NamedGroup.X25519

    async def test() -> None:
        config = ServerConfig(lite=lite, passive=passive)
        async with libwebrtc_calls(trials, config, prepare=prepared, delay_s=APART_S) as call:
            await converse(call)
            await check_dtls(call, group, we_are_client=not passive)
            check_sped(call, SPED in trials, we_are_client=not passive)
            check_snap(call, SNAP in trials)
            assert ("a=ice-lite" in call.answer) == lite
            assert f"a=setup:{'passive' if passive else 'active'}\r\n" in call.answer

    run(test())


@trials_of
@pytest.mark.parametrize("setup", ["active", "passive"])
def test_we_offer(trials: str, setup: str) -> None:
    group = NamedGroup.X25519MLKEM768 if PQC in trials else NamedGroup.X25519
    we_are_client = setup == "passive"

    async def test() -> None:
        async with we_call(trials, setup=setup, prepare=prepared, delay_s=APART_S) as call:
            await converse(call)
            await check_dtls(call, group, we_are_client=we_are_client)
            check_sped(call, SPED in trials, we_are_client=we_are_client)
            check_snap(call, SNAP in trials)
            assert f"a=setup:{setup}\r\n" in call.answer

    run(test())


@pytest.mark.parametrize(
    "options",
    [
        WarpOptions(sped=False, snap=False),
        WarpOptions(sped=False),
        WarpOptions(snap=False),
        WarpOptions(snap=False, simultaneous_open=False),
    ],
    ids=["plain", "no-sped", "no-snap", "client-sends-init"],
)
@pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
def test_libwebrtc_with_all_of_warp_calls_who_lacks_a_part(
    options: WarpOptions, passive: bool
) -> None:
    async def test() -> None:
        config = ServerConfig(warp=options, passive=passive)
        async with libwebrtc_calls(WARP, config, prepare=prepared) as call:
            await talk(call, "short", LARGE)
            if not options.sped:
                assert call.wire.riders(ours=True) == []
            check_snap(call, options.snap)

    run(test())


@pytest.mark.parametrize("group", [NamedGroup.SECP256R1, NamedGroup.SECP384R1])
@pytest.mark.parametrize("sped", [True, False], ids=["sped", "direct"])
def test_our_hello_retry_request(group: NamedGroup, sped: bool) -> None:
    """libwebrtc sends a share of X25519 only and is asked for another group."""

    async def test() -> None:
        config = ServerConfig(warp=WarpOptions(groups=(group,)))
        async with libwebrtc_calls(WARP if sped else "", config, prepare=prepared) as call:
            await talk(call, "short")
            await check_dtls(call, group, we_are_client=False)

    run(test())


@pytest.mark.parametrize("sped", [True, False], ids=["sped", "direct"])
def test_libwebrtcs_hello_retry_request(sped: bool) -> None:
    """We send a share of the hybrid only, which libwebrtc does not know without its trial."""
    groups = (NamedGroup.X25519MLKEM768, NamedGroup.SECP256R1)

    async def test() -> None:
        config = ClientConfig(host="127.0.0.1", warp=WarpOptions(groups=groups))
        trials = WARP if sped else ""
        async with we_call(trials, config, setup="passive", prepare=prepared) as call:
            await talk(call, "short")
            await check_dtls(call, NamedGroup.SECP256R1, we_are_client=True)

    run(test())


@pytest.mark.parametrize("setup", ["active", "passive"])
def test_libwebrtc_with_an_rsa_certificate(setup: str) -> None:
    async def test() -> None:
        async with we_call(WARP, setup=setup, prepare=prepared, options=("rsa",)) as call:
            await talk(call, "short")
            await check_dtls(call, NamedGroup.X25519, we_are_client=setup == "passive")

    run(test())


def test_what_libwebrtc_offers_and_we_answer() -> None:
    """The lines that WARP is made of, in the spelling of libwebrtc M152."""

    async def test() -> None:
        async with libwebrtc_calls(WARP, prepare=prepared, audio=True) as call:
            await talk(call, "short")
            assert "a=ice-options:trickle goog-sped-v1\r\n" in call.offer
            assert "a=ice-options:trickle goog-sped-v1\r\n" in call.answer
            assert call.answer.count("a=sctp-init:") == 1

    run(test())


@pytest.mark.parametrize(("passive", "fewest"), [(True, 4), (False, 5)], ids=["passive", "active"])
def test_the_fewest_datagrams(passive: bool, fewest: int) -> None:
    """A hello in the check, a flight in the response, a last flight: the channel is open."""

    async def test() -> None:
        config = ServerConfig(passive=passive)
        async with libwebrtc_calls(WARP, config, prepare=prepared) as call:
            await call.channel.opened()
            opened = await call.peer.opened_at()
            used = [rung for rung in call.wire.rungs if rung.time < opened]
            assert len(used) <= fewest + 2

    run(test())
