"""The public names: sorted, importable, described."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.architecture.test_ranks import ROOT

ASSIGNED = ("__all__", "__version__")
FRONT_DOORS = [
    "warp",
    *(
        f"warp.{path.name}"
        for path in sorted((ROOT / "warp").iterdir())
        if (path / "__init__.py").exists()
    ),
    "warp.compat.aiortc",
    "voice_backend",
    *(f"voice_backend.{name}" for name in ("audio", "io", "live", "turns")),
]


def public_names(door: str) -> list[str]:
    return list(getattr(importlib.import_module(door), "__all__", []))


@pytest.mark.parametrize("door", FRONT_DOORS)
def test_a_front_door_lists_what_it_offers(door: str) -> None:
    module = importlib.import_module(door)
    assert module.__doc__
    names = public_names(door)
    assert names, f"{door} has no __all__"
    assert len(set(names)) == len(names)
    # constants, then classes, then functions, each in order: what ruff's RUF022 keeps
    kinds = [(0 if n.isupper() else 1 if n[0].isupper() else 2, n) for n in names]
    assert kinds == sorted(kinds)


@pytest.mark.parametrize("door", FRONT_DOORS)
def test_every_public_name_exists_and_is_described(door: str) -> None:
    module = importlib.import_module(door)
    missing, undocumented = [], []
    for name in public_names(door):
        if not hasattr(module, name):
            missing.append(name)
            continue
        thing = getattr(module, name)
        ours = str(getattr(thing, "__module__", "")).startswith(
            ("warp", "instant_connect", "voice_backend")
        )
        if ours and callable(thing) and not getattr(thing, "__doc__", None):
            undocumented.append(name)
    assert (missing, undocumented) == ([], [])


@pytest.mark.parametrize("door", FRONT_DOORS)
def test_a_front_door_is_nothing_else(door: str) -> None:
    path = Path(importlib.import_module(door).__file__ or "")
    strays = [
        node
        for node in ast.parse(path.read_text()).body[1:]
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ASSIGNED)
    ]
    assert [ast.unparse(node) for node in strays] == []
