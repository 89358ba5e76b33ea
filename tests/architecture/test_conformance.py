"""Every item of the protocols' checklists is covered by a test that exists, or says why not."""

from __future__ import annotations

import ast
import functools
import os
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.test_ranks import ROOT

TABLES = ROOT / "drafts" / "conformance"
PENDING = "scenario pending"


def numbered(prefix: str, *ranges: tuple[int, int]) -> set[str]:
    return {f"{prefix}-{n}" for first, last in ranges for n in range(first, last + 1)}


EXPECTED = {
    "SPED": numbered("SPED", (1, 62)),
    "DTLS": numbered(
        "DTLS",
        (1, 28), (30, 45), (50, 61), (70, 87), (90, 97), (100, 106), (110, 116), (120, 127),
    ),
    "SNAP": numbered("SNAP", (1, 38)),
    "SCTP": numbered("SCTP", (1, 32)),
    "DC": numbered("DC", (1, 20)),
    "ICE": numbered("ICE", (1, 73)),
    "RTP": numbered("RTP", (1, 55)),
    "SDP": numbered("SDP", (1, 48)),
    "WHIP": numbered("WHIP", (1, 23)),
    "IC": numbered("IC", (1, 72), (80, 106)),
}  # fmt: skip


@functools.cache
def items() -> tuple[tuple[str, dict[str, Any]], ...]:
    found = []
    for path in sorted(TABLES.glob("*.toml")):
        table = tomllib.loads(path.read_text())
        found += [(path.name, item) for item in table.get("item", [])]
    return tuple(found)


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    """Names of test functions, `Class::name` for those in classes."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}::{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            # a Hypothesis state machine is run through `Name = Machine.TestCase`
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return frozenset(names)


def exists(reference: str) -> bool:
    file, _, name = reference.partition("::")
    name = re.sub(r"\[.*\]$", "", name)
    path = ROOT / file
    return path.is_file() and file.startswith("tests/") and name in names_in(path)


def test_ids_are_unique() -> None:
    counts = Counter(item["id"] for _, item in items())
    assert {name: n for name, n in counts.items() if n > 1} == {}


def test_every_item_is_covered_or_says_why_not() -> None:
    wrong = []
    for file, item in items():
        covered, excused = bool(item.get("tests")), bool(item.get("not_covered"))
        if not item.get("text") or covered == excused:
            wrong.append(f"{file}: {item['id']}")
    assert wrong == []


def test_the_named_tests_exist() -> None:
    wrong = [
        f"{item['id']}: {reference}"
        for _, item in items()
        for reference in item.get("tests", [])
        if not exists(reference)
    ]
    assert wrong == []


@pytest.mark.parametrize("prefix", sorted(EXPECTED))
def test_no_item_is_missing(prefix: str) -> None:
    present = {item["id"] for _, item in items() if item["id"].startswith(f"{prefix}-")}
    assert sorted(EXPECTED[prefix] - present) == []


def test_nothing_is_left_pending() -> None:
    pending = [item["id"] for _, item in items() if PENDING in item.get("not_covered", "")]
    if os.environ.get("WARP_STRICT_CONFORMANCE"):
        assert pending == []
