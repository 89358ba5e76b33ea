"""Whoever reads only the docstrings of `warp.io` knows what it takes, returns and raises."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import warp.io
from warp.errors import WarpError

UNITS = re.compile(r"_(s|ms|bytes|hz|kib)$")
TIMES = re.compile(r"(timeout|interval|deadline|duration|lifetime|delay|played|queued)")
UNIT_WORDS = re.compile(r"\b(ms|s|seconds|milliseconds|samples|bytes)\b")
# the driver's side of a session: no application calls them
INTERNAL = {"receive_events", "receive_answer", "make_trickle", "fail", "handle_tick"}
OWNERS = {"register", "route", "release", "resolves_names"}


def public_things() -> Iterator[tuple[str, Any]]:
    for name in warp.io.__all__:
        thing = getattr(warp.io, name)
        yield name, thing
        if not inspect.isclass(thing) or issubclass(thing, WarpError | enum.Enum):
            continue
        for member, value in vars(thing).items():
            if member.startswith("_") or member in INTERNAL | OWNERS:
                continue
            if isinstance(value, property):
                yield f"{name}.{member}", value.fget
            elif inspect.isfunction(value):
                yield f"{name}.{member}", value


THINGS = dict(public_things())
FUNCTIONS = {name: thing for name, thing in THINGS.items() if inspect.isfunction(thing)}


@pytest.mark.parametrize("name", THINGS)
def test_everything_public_says_what_it_is(name: str) -> None:
    text = inspect.getdoc(THINGS[name])
    assert text, f"{name} has no docstring"
    first = text.split("\n\n")[0]
    assert first[0].isupper() and first.endswith((".", ":")) and len(first) < 220, first


def raised(function: Callable[..., Any]) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {
        ast.unparse(node.exc.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_raised_is_said(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    assert [error for error in raised(FUNCTIONS[name]) if error not in text] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_times_and_sizes_have_units(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    names = [*inspect.signature(FUNCTIONS[name]).parameters, name.rpartition(".")[2]]
    for one in names:
        if TIMES.search(one) and not UNITS.search(one):
            assert UNIT_WORDS.search(text), f"{name}: the unit of {one!r} is nowhere"


@pytest.mark.parametrize(
    "config", [thing for thing in THINGS.values() if inspect.isclass(thing) and is_dataclass(thing)]
)
def test_every_setting_is_explained_beside_it(config: type) -> None:
    lines = inspect.getsource(config).splitlines()
    for setting in fields(config):
        if TIMES.search(setting.name):
            assert UNITS.search(setting.name), setting.name
        at = next(n for n, line in enumerate(lines) if line.strip().startswith(setting.name + ":"))
        explained = "#" in lines[at] or lines[at - 1].strip().startswith("#")
        # a name with a unit, and a plain switch, speak for themselves
        plain = UNITS.search(setting.name) or setting.name in ("warp", "audio", "versions")
        assert explained or plain or setting.name == "max_sessions", setting.name
