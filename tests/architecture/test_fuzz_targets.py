"""Everything that reads a peer's bytes is fuzzed: by a target, and by a test that calls it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.test_ranks import ROOT, sources

FOLDER = ROOT / "tests" / "fuzz"
MODULES = sorted(FOLDER.glob("test_*.py"))
READERS = re.compile(r"(parse|decode|peek)_\w+")


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]


def names(node: ast.AST) -> set[str]:
    """Every name and attribute that is mentioned in a piece of code."""
    return {
        inner.id if isinstance(inner, ast.Name) else inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name | ast.Attribute)
    }


def test_every_reader_is_fuzzed() -> None:
    mentioned = set().union(*(names(ast.parse(path.read_text())) for path in MODULES))
    readers = {
        function.name: str(path.relative_to(ROOT))
        for package in ("warp", "instant_connect")
        for path in sources(package)
        for function in functions(path)
        if READERS.fullmatch(function.name)
    }
    assert len(readers) > 40
    assert {name: path for name, path in readers.items() if name not in mentioned} == {}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_target_runs_in_a_test(path: Path) -> None:
    targets = {f.name for f in functions(path) if f.name.startswith("fuzz_")}
    called = set().union(*(names(f) for f in functions(path) if f.name.startswith("test_")))
    assert targets
    assert targets - called == set()
