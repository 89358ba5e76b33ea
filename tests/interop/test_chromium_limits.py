"""What is at the limits of a description, or beyond: Chromium and we still find each other.

Or say why not, and the server serves the next one.
"""

from __future__ import annotations

import asyncio
import base64

import pytest

from interop.browser import PageFailed
from interop.chromium import ChromiumConfig
from interop.page_peer import PagePeer
from tests.interop.browsers import TALK, open_desk, page_calls, prepared, talk
from tests.interop.chromium import DEFAULT, WARP, WARP_NO_PQC, Chromiums
from tests.interop.loops import run
from tests.interop.on_the_wire import check_attributes, dtls_in
from warp.ice import IceCredentials
from warp.io import ServerConfig
from warp.stun import Attribute

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PWD = "p" * 22
LONGEST_WITH_A_RIDER = 220
"""Of our ufrag: Chromium's check then has 1220 bytes with 900 of a hybrid hello."""


@pytest.mark.parametrize(
    ("config", "lite", "ours", "theirs"),
    [
        (DEFAULT, True, 4, 4),
        (WARP, True, LONGEST_WITH_A_RIDER, 4),
        (WARP, True, 256, 4),
        (WARP, False, 256, 4),
        (WARP_NO_PQC, True, 256, 251),
        (DEFAULT, False, 251, 256),
    ],
    ids=[
        "shortest",
        "longest-with-a-rider",
        "too-long-for-a-rider",
        "too-long-for-a-rider-full",
        "long",
        "longest-full",
    ],
)
def test_ufrags(
    chromium: Chromiums, lite: bool, config: ChromiumConfig, ours: int, theirs: int
) -> None:
    """USERNAME holds 507 characters of both; what is too long for a rider goes without one."""
    own = "Zz9+" * (theirs // 4) + "/" * (theirs % 4)

    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            page_calls(
                browser,
                ServerConfig(lite=lite),
                prepare=prepared,
                credentials=IceCredentials("u" * ours, PWD),
                edits=[["/a=ice-ufrag:.*/", f"a=ice-ufrag:{own}"]],
            ) as call,
        ):
            await talk(call, "short", b"x" * 5000)
            assert f"a=ice-ufrag:{own}\r\n" in call.offer
            check = next(r for r in call.wire.rungs if r.is_check and not r.ours)
            assert check.message is not None
            name = check.message.get(Attribute.USERNAME)
            assert name == f"{'u' * ours}:{own}".encode()
            rides = config.sped and (not config.pqc or ours <= LONGEST_WITH_A_RIDER)
            if lite:
                assert ("ClientHello" in dtls_in(check)) is rides
            check_attributes(call.wire)

    run(test())


def test_names_that_do_not_fit_into_a_check(chromium: Chromiums) -> None:
    """256 and 252 characters: Chromium would send nothing at all, and say nothing of it."""
    own = "z" * 252

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            open_desk(prepare=prepared) as desk,
        ):
            page = await browser.open(desk.site.url)
            desk.credentials = IceCredentials("u" * 256, PWD)
            edits = [["/a=ice-ufrag:.*/", f"a=ice-ufrag:{own}"]]
            with pytest.raises(PageFailed, match="at most 507 characters"):
                await PagePeer.connect(page, "/offer", channels=[TALK], edits=edits)
            assert desk.server.sessions == []
            desk.credentials = None
            peer = await PagePeer.connect(page, "/offer", channels=[TALK])
            await peer.happened("open:talk")

    run(test())


NO_INIT = {
    "no-chunk": b"",
    "garbage": bytes(range(30)),
    "other-chunk": b"\3" + base64.b64decode("AQAAHmzTwjAAUAAA/////xUXXq3AAAAEgAgABoLA")[1:],
}


@pytest.mark.parametrize("init", [*NO_INIT.values(), None], ids=[*NO_INIT, "no-base64"])
def test_an_offer_whose_init_was_damaged_on_the_way(
    chromium: Chromiums, init: bytes | None
) -> None:
    """Without a usable one there is no SNAP, and Chromium is not told that there is."""
    text = "!not base64!" if init is None else base64.b64encode(init).decode()

    def damage(sdp: str) -> str:
        lines = [
            f"a=sctp-init:{text}" if line.startswith("a=sctp-init:") else line
            for line in sdp.splitlines()
        ]
        return "\r\n".join(lines) + "\r\n"

    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, prepare=prepared, edit_offer=damage) as call,
        ):
            assert "a=sctp-init:" in call.offer
            assert "a=sctp-init:" not in call.answer
            await talk(call, "short")
            states = [data["new"] for _, data in call.trace.named("sctp:state_changed")]
            assert states[-1] == "established"
            assert len(states) > 1

    run(test())


def test_candidates_that_never_answer(chromium: Chromiums) -> None:
    """A hundred of them, before and after the one that works."""
    dead = "".join(
        f"a=candidate:{n} 1 udp {2122260223 - n} 127.0.0.1 {40000 + n} typ host\r\n"
        for n in range(100)
    )

    def crowd(sdp: str) -> str:
        at = sdp.index("a=candidate:")
        return sdp[:at] + dead + sdp[at:]

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(
                browser, ServerConfig(lite=False), prepare=prepared, edit_offer=crowd
            ) as call,
        ):
            async with asyncio.timeout(4):
                await talk(call, "short")

    run(test())


def test_offers_that_are_refused_name_their_fault(chromium: Chromiums) -> None:
    """What a page gets to read is the rule that its offer breaks; the next offer is served."""
    faults = {
        "a=fingerprint": "fingerprint",
        "a=ice-pwd": "ice-pwd",
    }

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            open_desk(prepare=prepared) as desk,
        ):
            page = await browser.open(desk.site.url)
            for missing, named in faults.items():
                desk.edit_offer = lambda sdp, missing=missing: "".join(
                    line for line in sdp.splitlines(keepends=True) if not line.startswith(missing)
                )
                with pytest.raises(PageFailed, match=named):
                    await PagePeer.connect(page, "/offer", channels=[TALK])
            assert desk.server.sessions == []
            desk.edit_offer = str
            peer = await PagePeer.connect(page, "/offer", channels=[TALK])
            await peer.happened("open:talk")

    run(test())
