"""What the page's module writes is what the server's code writes, in the browsers that run it.

Vectors in both directions: JavaScript composes and Python opens, Python composes the same.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from instant_connect.attempt import Attempt
from instant_connect.bundle import Bundle, SealedTicket
from instant_connect.client import InstantCall
from instant_connect.profile import compose_answer, make_terms, offered_opus, offered_sctp
from instant_connect.ufrag import attach_proof, compose_ufrag, open_ufrag, server_sctp
from interop.browser import Browser, Page, PageFailed
from interop.firefox import FirefoxProcess
from interop.instant import instant_site
from tests.interop.chromium import DEFAULT, WARP, Chromiums
from tests.interop.loops import run
from tests.unit.instant_connect.door import NOW, RING, WALL, make_host
from tests.unit.sdp.build import capture
from tests.vectors.instant_connect import (
    CLIENT_SCTP,
    FINGERPRINT,
    NONCE,
    PASSWORD,
    SERVER_SCTP,
    TICKET,
    UFRAG,
)
from warp.peer import PeerConfig
from warp.sctp import parse_init
from warp.sdp import parse_description

pytestmark = [pytest.mark.interop, pytest.mark.slow]

NAMES = ("default", "snap_only", "sped_only", "warp", "warp_nopqc")
OFFERS = [capture(f"chromium156_{name}_offer") for name in NAMES]
ADDRESSES = (("203.0.113.1", 3478), ("2001:db8::1", 3478))
OWN_OFFER = """(async () => {
  const pc = new RTCPeerConnection({ bundlePolicy: 'max-bundle' });
  pc.addTransceiver('audio');
  pc.createDataChannel('oai-events', { negotiated: true, id: 4 });
  const { sdp } = await pc.createOffer();
  pc.close();
  return sdp;
})()"""


def bundle(*, snap: bool = True, sped: bool = True) -> Bundle:
    made = make_host().bundle(NOW)
    terms = make_terms(ADDRESSES, PeerConfig().sctp(), snap=snap, sped=sped)
    return replace(made, terms=terms)


def fingerprint_of(offer: str) -> bytes:
    found = re.search(r"^a=fingerprint:sha-256 (\S+)", offer, re.MULTILINE | re.IGNORECASE)
    assert found is not None
    return bytes.fromhex(found[1].replace(":", ""))


def by_python(made: Bundle, offer: str) -> InstantCall:
    """Compose what `compose_call` does, for a certificate of which only the digest is known."""
    [ticket, *_] = made.tickets
    description = parse_description(offer)
    opus = offered_opus(description)
    assert opus is not None
    sctp = offered_sctp(description) if made.terms.snap else None
    attempt = Attempt(fingerprint_of(offer), opus, NONCE, sctp)
    ufrag = compose_ufrag(ticket.raw, attempt)
    answer = compose_answer(
        description,
        made.terms,
        ufrag=ufrag,
        password=ticket.password,
        fingerprint=made.fingerprint,
        attempt=attempt,
        sctp=None if sctp is None else server_sctp(ticket.password, ufrag),
    )
    return InstantCall(str(answer), ufrag, attach_proof(ticket.password, ufrag))


async def by_page(page: Page, made: Bundle, offer: str) -> dict[str, Any]:
    value = json.loads(made.to_json())
    value["candidates"].append("tcp 203.0.113.1 443")  # which no browser of ours uses
    found: dict[str, Any] = await page.call(
        "attempt", value, value["tickets"][0], offer, list(NONCE)
    )
    return found


def without_foundations(answer: str) -> list[str]:
    """Lines of a description; foundations are whatever their author likes."""
    return re.sub(r"(a=candidate:)\S+", r"\1*", answer).splitlines()


async def both_write_the_same(browser: Browser) -> None:
    async with instant_site() as site:
        page = await browser.open(site.page)
        offers = [*OFFERS, await page.evaluate(OWN_OFFER)]
        for made in (bundle(), bundle(snap=False), bundle(sped=False)):
            for offer in offers:
                theirs = await by_page(page, made, offer)
                ours = by_python(made, offer)
                assert theirs["headers"] == ours.headers()
                assert without_foundations(theirs["answer"]) == without_foundations(ours.answer)
                opened = open_ufrag(theirs["ufrag"], RING, WALL)
                assert opened.attempt.fingerprint == fingerprint_of(offer)
                snap = made.terms.snap and "a=sctp-init:" in offer
                assert (opened.attempt.sctp is not None) == snap
                assert theirs["headers"]["Instant-Proof"] == attach_proof(
                    opened.password, theirs["ufrag"]
                )
                parse_description(theirs["answer"])
        assert page.errors == []


def test_chromium_writes_what_the_server_writes(chromium: Chromiums) -> None:
    async def test() -> None:
        async with chromium(DEFAULT).attach() as browser:
            await both_write_the_same(browser)

    run(test())


def test_chromium_with_warp_too(chromium: Chromiums) -> None:
    async def test() -> None:
        async with chromium(WARP).attach() as browser:
            await both_write_the_same(browser)

    run(test())


def test_firefox_writes_what_the_server_writes(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with firefox.attach() as browser:
            await both_write_the_same(browser)

    run(test())


def test_the_vector_of_the_ticket(chromium: Chromiums) -> None:
    """As it stands in our draft: ufrag, tag and TSN of the server."""
    tag, tsn = (number.to_bytes(4, "big") for number in CLIENT_SCTP)
    offer = re.sub(
        r"(a=fingerprint:sha-256 )\S+", rf"\g<1>{FINGERPRINT.hex(':').upper()}", OFFERS[3]
    )
    init = bytearray(32)
    init[4:8], init[16:20] = tag, tsn
    text = b64encode(init).decode()
    offer = re.sub(r"(a=sctp-init:)\S+", rf"\g<1>{text}", offer)
    made = replace(bundle(), tickets=(SealedTicket(TICKET, PASSWORD),))

    async def test() -> None:
        async with instant_site() as site, chromium(DEFAULT).attach() as browser:
            found = await by_page(await browser.open(site.page), made, offer)
            assert found["ufrag"] == UFRAG
            assert f"a=ice-pwd:{PASSWORD}\r\n" in found["answer"]
            section = parse_description(found["answer"]).data_section()
            assert section is not None and section.sctp is not None
            assert section.sctp.init is not None
            said = parse_init(section.sctp.init)
            assert (said.initiate_tag, said.initial_tsn) == SERVER_SCTP

    run(test())
    assert server_sctp(PASSWORD, UFRAG) == SERVER_SCTP


@pytest.mark.parametrize(
    "spoil",
    [
        lambda offer: offer.replace("opus/48000", "pcmu/8000"),
        lambda offer: offer.replace("a=rtpmap:111 opus", "a=rtpmap:35 opus"),
        lambda offer: offer[: offer.index("m=application")],
        lambda offer: offer + "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:2\r\n",
        lambda offer: re.sub(r"a=fingerprint:.*\r?\n", "", offer),
    ],
    ids=["no Opus", "static type", "no data", "video", "no certificate"],
)
def test_an_offer_that_the_profile_does_not_fit(
    chromium: Chromiums, spoil: Callable[[str], str]
) -> None:
    async def test() -> None:
        async with instant_site() as site, chromium(DEFAULT).attach() as browser:
            page = await browser.open(site.page)
            with pytest.raises(PageFailed):
                await by_page(page, bundle(), spoil(OFFERS[0]))

    run(test())
