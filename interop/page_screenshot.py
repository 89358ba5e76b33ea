"""Pictures of our page in a call: `python -m interop.page_screenshot --out FOLDER [--rtt 100]`.

Starts `warp serve` (or, for a distance or another way than with a ticket, the same on a path with a
delay), opens the page in a Chromium whose microphone hears real speech, presses the button by
keyboard, and waits until the start is complete. Writes one PNG a look: light, dark, narrow, and the
page before and after a call.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

try:
    import numpy as np

    import warp_tools.data
    from interop.browser import BrowserError
    from interop.chromium import Chromium, ChromiumConfig, launch
    from interop.instant.modes import spoil
    from interop.voice_page import Look, VoicePage
    from interop.voice_site import voice_site
    from warp_tools.audio import packaged_sound, write_wav
    from warp_tools.failure import ToolFailure
    from warp_tools.opus import SAMPLE_RATE
except ModuleNotFoundError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"page_screenshot: {missing.name} is not installed: pip install -e '.[dev]'")

SPEECH = Path(warp_tools.data.__path__[0]) / "speech.wav"
LOOKS = {
    "light": Look(),
    "dark": Look(dark=True),
    "narrow": Look(width_px=360, height_px=800),
    "narrow-dark": Look(width_px=360, height_px=800, dark=True),
    "calm": Look(calm=True),
}
WAYS = ("instant", "attached", "signalled", "stale")
_LISTEN_S = 3.5
"""How long a call goes on before its picture, so that both meters have something to show."""
_END_S = 5.0
_ANSWER_S = 4.5
_LONGEST_RTT_MS = 2_000.0
_IN_MID_CONVERSATION = """document.querySelectorAll('#transcript-final li').length >= 2 &&
  document.querySelectorAll('#transcript-draft li').length >= 1"""


@asynccontextmanager
async def warp_serve(backend: str) -> AsyncIterator[str]:
    """Run `warp serve` on free ports and yield the address of its page."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "warp_tools.main",
        "serve",
        "--backend",
        backend,
        "--port",
        "0",
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        line = (await process.stdout.readline()).decode() if process.stdout else ""
        found = re.search(r"http://\S+", line)
        if found is None:
            raise BrowserError(f"`warp serve` did not start: {line.strip()}")
        yield f"{found[0]}/"
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.communicate(), _END_S)


@asynccontextmanager
async def _served(rtt_ms: float, way: str) -> AsyncIterator[str]:
    if not rtt_ms and way == "attached":
        async with warp_serve("echo") as url:
            yield url
        return
    async with voice_site(
        rtt_s=rtt_ms / 1000,
        far=True,
        instant=way != "signalled",
        edit_bundle=spoil if way == "stale" else None,
    ) as site:
        if way == "instant":
            site.hold_offers()
        yield site.url


async def take(browser: Chromium, url: str, folder: Path, *, figures: bool) -> list[Path]:
    """Make a call a look and write what it looks like; returns the files."""
    written = []

    async def write(page: VoicePage, name: str) -> None:
        path = folder / f"page-{name}.png"
        path.write_bytes(await page.picture())
        written.append(path)

    for name, look in LOOKS.items():
        page = await VoicePage.open(browser, url, look)
        if name == "light":
            await write(page, "ready")
        await page.press_button()
        await page.wait_for_start()
        await asyncio.sleep(_LISTEN_S)
        if figures:
            await page.tab.evaluate("void (document.getElementById('exact').open = true)")
        await write(page, name)
        await page.press_button()
        await page.wait_for_state("ended")
        if name == "light":
            await write(page, "ended")
        if page.tab.errors:
            raise BrowserError(f"the page reports errors: {page.tab.errors}")
        await page.tab.close()
    return written


async def talk(folder: Path) -> Path:
    """Talk with the embedded voice; returns the picture of the middle of the conversation."""
    folder.mkdir(parents=True, exist_ok=True)
    question = packaged_sound("question")
    with tempfile.TemporaryDirectory() as scratch:
        microphone = Path(scratch) / "question.wav"
        # the browser says it again and again: the pause is for the answer
        pause = np.zeros(round(_ANSWER_S * SAMPLE_RATE), np.int16)
        write_wav(microphone, np.concatenate([question, pause]))
        config = ChromiumConfig(microphone=microphone)
        async with launch(config) as browser, warp_serve("duplex-cpu") as url:
            page = await VoicePage.open(browser, url)
            await page.press_button()
            await page.wait_for_start()
            await page.wait_until(_IN_MID_CONVERSATION)
            path = folder / "page-talk.png"
            path.write_bytes(await page.picture())
            await page.press_button()
            await page.wait_for_state("ended")
            if page.tab.errors:
                raise BrowserError(f"the page reports errors: {page.tab.errors}")
    return path


async def run(arguments: argparse.Namespace) -> None:
    """Do what the command line says."""
    if arguments.talk:
        print(await talk(arguments.out))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    config = ChromiumConfig(microphone=SPEECH, sped=arguments.warp, snap=arguments.warp)
    async with launch(config) as browser, _served(arguments.rtt, arguments.way) as url:
        written = await take(browser, url, arguments.out, figures=arguments.figures)
    for path in written:
        print(path)


def read_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends with a usage error where options do not go together."""
    parser = argparse.ArgumentParser(
        prog="python -m interop.page_screenshot", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--rtt", type=float, default=0.0, help="round-trip time in ms; 0: none")
    parser.add_argument("--way", choices=WAYS, default="attached", help="which way calls go")
    parser.add_argument("--warp", action="store_true", help="switch SPED and SNAP on")
    parser.add_argument(
        "--talk", action="store_true", help="talk with the embedded voice instead, without distance"
    )
    parser.add_argument("--figures", action="store_true", help="open the table of exact figures")
    arguments = parser.parse_args(given)
    if not 0 <= arguments.rtt <= _LONGEST_RTT_MS:
        parser.error(f"--rtt is 0 to {_LONGEST_RTT_MS:g} ms, not {arguments.rtt:g}")
    if arguments.talk:
        # warp serve answers there, straight and as the browser comes
        others = {
            "--rtt": arguments.rtt,
            "--way": arguments.way != parser.get_default("way"),
            "--warp": arguments.warp,
            "--figures": arguments.figures,
        }
        for option, is_given in others.items():
            if is_given:
                parser.error(f"--talk takes no {option}")
    return arguments


def main() -> None:
    """Do what the command line says; what a person can mend is one line."""
    try:
        asyncio.run(run(read_arguments()))
    except (BrowserError, ToolFailure, OSError) as error:
        sys.exit(f"page_screenshot: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
