"""Modules, functions and classes stay small enough to read (ARCHITECTURE section 8)."""

from __future__ import annotations

import ast

from tests.architecture.test_ranks import PACKAGES, ROOT, sources

MODULE_LINES = 500
FUNCTION_LINES = 50
ATTRIBUTES = 15
CODE_TABLES: set[str] = set()


def test_modules() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for package in PACKAGES
        for path in sources(package)
        if (count := len(path.read_text().splitlines())) > MODULE_LINES
    }
    assert {k: v for k, v in long.items() if k not in CODE_TABLES} == {}


def test_functions() -> None:
    long = {}
    for package in PACKAGES:
        for path in sources(package):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    length = (node.end_lineno or node.lineno) - node.lineno + 1
                    if length > FUNCTION_LINES:
                        long[f"{path.relative_to(ROOT)}:{node.name}"] = length
    assert long == {}


def _attributes(node: ast.ClassDef) -> int:
    for item in node.body:
        if isinstance(item, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__slots__" for t in item.targets
        ):
            return len(item.value.elts) if isinstance(item.value, ast.Tuple) else 1
    names = {
        target.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for stmt in ast.walk(method)
        if isinstance(stmt, ast.Assign | ast.AnnAssign)
        for target in (stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target])
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }
    return len(names)


def test_machines_own_few_things() -> None:
    """A class that wants a sixteenth attribute misses an organ."""
    fat = {
        f"{path.relative_to(ROOT)}:{node.name}": count
        for package in PACKAGES
        for path in sources(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and (count := _attributes(node)) > ATTRIBUTES
    }
    assert fat == {}


def test_transport_is_only_the_meeting_place() -> None:
    path = ROOT / "warp/peer/transport.py"
    if path.exists():
        assert len(path.read_text().splitlines()) <= 250
