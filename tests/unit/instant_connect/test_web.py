"""The page as files: it parses, says what each control is, keeps to our origin, and can be read."""

from __future__ import annotations

import gzip
import re
from html.parser import HTMLParser
from importlib import resources

import pytest

WEB = resources.files("instant_connect.web")
FILES = {entry.name: entry.read_text() for entry in WEB.iterdir() if entry.is_file()}
MODULE = "instant-connect.js"
SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))
VOID = {"meta", "link", "img", "input", "br", "hr", "source"}
SELF_CLOSED = {"rect", "path"}

Attributes = dict[str, str | None]


class Element:
    """A node of the page: its attributes, its ancestors, and the text inside."""

    def __init__(self, tag: str, attributes: Attributes, ancestors: list[Element]) -> None:
        self.tag, self.attributes, self.ancestors = tag, attributes, ancestors
        self.text = ""

    def get(self, name: str) -> str:
        return self.attributes.get(name) or ""


class Page(HTMLParser):
    """Reads the page strictly: whatever is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.faults: list[str] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{element.tag}> is never closed" for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.faults.append(f"<{tag}> has an attribute twice")
        element = Element(tag, dict(attrs), list(self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in SELF_CLOSED:
            self.faults.append(f"<{tag}/> closes itself only in SVG")
        self.elements.append(Element(tag, dict(attrs), list(self._open)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            self.faults.append(f"</{tag}> at {self.getpos()} closes nothing")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, *tags: str) -> list[Element]:
        return [element for element in self.elements if element.tag in tags]

    def by_id(self, wanted: str) -> Element | None:
        return next((e for e in self.elements if e.get("id") == wanted), None)


PAGE = Page(FILES["index.html"])


def test_the_page_parses() -> None:
    assert FILES["index.html"].startswith("<!doctype html>\n")
    assert PAGE.faults == []
    assert PAGE.all("html")[0].get("lang") == "en"
    assert PAGE.all("title")[0].text.strip()
    assert len(PAGE.all("h1")) == 1
    assert len(PAGE.all("main")) == 1


def test_ids_are_unique_and_whatever_is_referred_to_exists() -> None:
    ids = [element.get("id") for element in PAGE.elements if element.get("id")]
    assert len(ids) == len(set(ids))
    missing = []
    for element in PAGE.elements:
        for name in ("aria-labelledby", "aria-describedby", "aria-controls", "for"):
            missing += [wanted for wanted in element.get(name).split() if wanted not in ids]
    assert missing == []


def test_every_control_and_every_landmark_has_a_name() -> None:
    labelled = {label.get("for") for label in PAGE.all("label")}
    nameless = []
    for element in PAGE.elements:
        interactive = element.tag in ("button", "input", "select", "textarea", "summary", "a")
        if not interactive and not element.get("role") and element.tag != "section":
            continue
        if element.get("role") in ("status", "alert"):
            continue  # live regions are named by what they say
        inner = "" if element.get("role") == "meter" else element.text.strip()
        label = element.get("aria-label") or element.get("aria-labelledby")
        if not (label or (interactive and inner) or element.get("id") in labelled):
            nameless.append(element.tag)
    assert nameless == []


def test_pictures_are_described_or_hidden() -> None:
    assert [image for image in PAGE.all("img") if image.attributes.get("alt") is None] == []
    drawn = PAGE.all("svg", "canvas")
    assert drawn
    assert [element for element in drawn if element.get("aria-hidden") != "true"] == []


def test_the_state_is_told_to_those_who_do_not_see_it() -> None:
    state = PAGE.by_id("state")
    assert state is not None
    assert (state.get("role"), state.get("aria-live")) == ("status", "polite")
    failure = PAGE.by_id("failure")
    assert failure is not None
    assert failure.get("role") == "alert"


def test_nothing_in_the_page_needs_a_looser_policy() -> None:
    scripts = PAGE.all("script")
    assert [(s.get("type"), s.get("src"), s.text) for s in scripts] == [("module", "app.js", "")]
    assert PAGE.all("style", "iframe", "object", "embed", "base") == []
    loose = [
        (element.tag, name)
        for element in PAGE.elements
        for name in element.attributes
        if name == "style" or name.startswith("on")
    ]
    assert loose == []


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_is_fetched_from_elsewhere(name: str) -> None:
    text = FILES[name].replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"(?:https?|wss?):/{2}\w|url\(|@import|[\"'(]//\w", text) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_or_code_of_text(name: str) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
        r"|localStorage|sessionStorage|indexedDB|document\.cookie|console\.|debugger"
        r"|setAttribute\(\"style\""
    )
    assert re.findall(forbidden, FILES[name]) == []


def test_every_file_is_used_and_every_import_exists() -> None:
    imports = {
        name: re.findall(r'(?:from|import\() ?"\./([\w.-]+)"', FILES[name]) for name in SCRIPTS
    }
    assert [w for wanted in imports.values() for w in wanted if w not in FILES] == []
    reached = {"index.html", "README.md", "instant-connect.d.ts"}
    reached |= {e.get("href") or e.get("src") for e in PAGE.all("link", "script", "img")}
    waiting = [name for name in reached if name in imports]
    while waiting:
        for wanted in imports[waiting.pop()]:
            if wanted not in reached:
                reached.add(wanted)
                waiting.append(wanted)
    assert reached == set(FILES)


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_stay_small(name: str) -> None:
    # a page elsewhere imports one file, so that one is whole
    assert FILES[name].count("\n") <= (550 if name == MODULE else 400)
    assert [line for line in FILES[name].splitlines() if line != line.rstrip()] == []


def test_the_module_for_other_pages_is_small_and_stands_alone() -> None:
    text = FILES[MODULE]
    assert re.findall(r"^import|\bimport\(", text, re.MULTILINE) == []
    # what a minifier leaves out at least: comments and indentation
    code = re.sub(r"/\*\*.*?\*/|^\s*//.*$|\s// .*$|^\s+", "", text, flags=re.DOTALL | re.MULTILINE)
    assert len(gzip.compress(code.encode(), 9)) <= 6_000


def test_its_types_name_what_it_exports() -> None:
    exported = set(re.findall(r"^export (?:async )?(?:class|function) (\w+)", FILES[MODULE], re.M))
    typed = set(
        re.findall(r"^export (?:class|function) (\w+)", FILES["instant-connect.d.ts"], re.M)
    )
    assert exported == typed
    marks = set(re.findall(r'#mark\("(\w+)"', FILES[MODULE]))
    table = FILES["instant-connect.d.ts"].partition("export type Mark =")[2].partition(";")[0]
    assert marks == set(re.findall(r'\| "(\w+)"', table))
    kinds = set(re.findall(r'InstantError\("([\w-]+)"', FILES[MODULE]))
    line = re.search(r"readonly kind: (.*);", FILES["instant-connect.d.ts"])
    assert line is not None
    assert kinds == set(re.findall(r'"([\w-]+)"', line[1]))
    # and the page has words for each of them
    words = FILES["failure.js"].partition("export function connectFailure")[2].partition("\n}")[0]
    assert kinds == set(re.findall(r'case "([\w-]+)"', words))


def test_the_script_finds_every_element_that_it_asks_for() -> None:
    asked = set(re.findall(r'\$\("([\w-]+)"\)', FILES["app.js"]))
    assert asked
    assert {name for name in asked if PAGE.by_id(name) is None} == set()


def test_every_failure_has_words() -> None:
    table = FILES["failure.js"].partition("const WORDS = {")[2].partition("\n};")[0]
    known = set(re.findall(r'^ {2}"?([\w-]+)"?: \[$', table, re.MULTILINE))
    thrown: set[str] = set()
    for name in SCRIPTS:
        thrown |= set(re.findall(r'CallFailure\(\s*"([\w-]+)"', FILES[name]))
        for choice in re.findall(r"(?:#fail|CallFailure)\(([^)]*\?[^)]*)\)", FILES[name]):
            thrown |= set(re.findall(r'[?:] "([\w-]+)"', choice))
    thrown |= set(re.findall(r'#fail\("([\w-]+)"\)', FILES["call.js"]))
    assert thrown == known


# -- colours ----------------------------------------------------------------------------------

CSS = FILES["style.css"]
NORMAL, LARGE = 4.5, 3.0  # WCAG 2.2, success criteria 1.4.3 and 1.4.11
TEXT = [
    *[(ink, paper) for ink in ("text", "muted") for paper in ("page", "surface", "raised")],
    ("on-accent", "accent"),
    ("on-accent", "accent-strong"),
    ("on-danger", "danger"),
    ("on-danger", "danger-strong"),
    ("text", "danger-soft"),
    ("muted", "danger-soft"),
    ("surface", "text"),
    ("surface", "muted"),
    ("good", "good-soft"),
    ("accent", "info-soft"),
    ("warn", "warn-soft"),
]
SHAPES = [
    *[(f"stage-{s}", "surface") for s in ("device", "signalling", "connection", "sound")],
    *[(ink, paper) for ink in ("accent", "stage-sound") for paper in ("raised", "page")],
    ("accent", "surface"),
    ("server", "surface"),
    ("edge", "surface"),
    ("danger", "danger-soft"),
]


def palette(dark: bool) -> dict[str, str]:
    """Return the colours of a scheme by name."""
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    assert len(blocks) == 2
    found: dict[str, str] = {}
    for block in blocks[: 2 if dark else 1]:
        found.update(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    return found


def luminance(colour: str) -> float:
    """Return the relative luminance of #rrggbb (WCAG 2.2)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_defined() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_and_shapes_stand_out(dark: bool) -> None:
    colours = palette(dark)
    weak = [
        (ink, paper, round(ratio, 2))
        for pairs, least in ((TEXT, NORMAL), (SHAPES, LARGE))
        for ink, paper in pairs
        if (ratio := contrast(colours[ink], colours[paper])) < least
    ]
    assert weak == []


def test_both_schemes_have_the_same_colours_and_all_are_used() -> None:
    assert "@media (prefers-color-scheme: dark)" in CSS
    dark_block = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[1]
    dark_names = set(re.findall(r"--([\w-]+): #", dark_block))
    light = set(palette(False))
    assert dark_names == light
    assert {name for name in light if f"var(--{name})" not in CSS} == set()
    assert set(re.findall(r"var\(--([\w-]+)\)", CSS)) <= light | {"shadow", "radius", "font"}


def test_whoever_wants_no_motion_gets_none() -> None:
    assert "@media (prefers-reduced-motion: reduce)" in CSS
    assert "prefers-reduced-motion" in FILES["meters.js"]
