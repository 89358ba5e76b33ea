"""What our own page shows of a conversation, in a real Chromium."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interop.voice_page import VoicePage
from interop.voice_site import voice_site
from tests.interop.chromium import DEFAULT, Chromiums
from tests.interop.loops import run

pytestmark = [pytest.mark.interop, pytest.mark.slow]
FEED = """import('/transcript.js').then(({ Transcript }) => {
  const parts = ['conversation', 'transcript-final', 'transcript-draft', 'draft-none'];
  const view = new Transcript(...parts.map((id) => document.getElementById(id)));
  for (const event of %s) view.add(typeof event === 'string' ? event : JSON.stringify(event));
  const lines = (id) => [...document.getElementById(id).children].map((row) =>
    [...row.children].map((cell) => cell.textContent));
  return [lines('transcript-final'), lines('transcript-draft')];
})"""


def item(name: str, speaker: str, text: str, start_ms: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "rev": 1, "speaker": speaker, "text": text, "start_ms": start_ms, **more}


def draft(*given: Any, **more: Any) -> dict[str, Any]:
    return {"type": "transcript.draft", "item": item(*given, **more)}


def final(*given: Any, **more: Any) -> dict[str, Any]:
    return {"type": "transcript.final", "item": item(*given, **more)}


def test_drafts_change_and_what_is_final_stays(chromium: Chromiums) -> None:
    async def test() -> None:
        async with voice_site() as site, chromium(DEFAULT).attach() as browser:
            page = await VoicePage.open(browser, site.url)
            hidden = "document.getElementById('conversation').hidden"
            assert await page.tab.evaluate(hidden) is True
            note = {"speaker": "assistant", "text": "mm-hm", "start_ms": 1500}
            told: list[Any] = [
                "no JSON",
                {"type": "session.started"},
                draft("a", "user", "What is", 1000),
                draft("b", "assistant", "Fifty", 62_000, ahead="six <b>"),
                draft("a", "user", "What is seven", 1000),
                draft("c", "user", "Hm", 63_000),
                {"type": "transcript.draft", "removed": "c"},
                final("a", "user", "What is seven times eight?", 1000, overlaps=[note]),
                final("a", "user", "What is seven times nine?", 1000),
                draft("a", "user", "too late", 1000),
            ]
            shown = await page.tab.evaluate(FEED % json.dumps(told))
            assert await page.tab.evaluate(hidden) is False
            said = "What is seven times eight?Voice, meanwhile: mm-hm"
            assert shown == [[["0:01", "You", said]], [["1:02", "Voice", "Fifty six <b>"]]]
            many = [final(f"m{n}", "user", "x", n) for n in range(300)]
            lines, drafts = await page.tab.evaluate(FEED % json.dumps(many))
            assert (len(lines), lines[-1][2], drafts) == (200, "x", [])
            assert page.tab.errors == []
            assert await page.violations() == []

    run(test())
