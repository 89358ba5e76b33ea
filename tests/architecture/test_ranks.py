"""Imports point strictly down; siblings of a rank never meet (ARCHITECTURE section 2)."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RANKS = {
    "contract": 0, "errors": 0, "trace": 0, "redact": 0, "entropy": 0, "timers": 0, "serial": 0,
    "names": 0, "octets": 0,
    "crypto": 1, "stun": 1,
    "ice": 2, "dtls": 2, "rtp": 2, "sctp": 2, "sdp": 2,
    "srtp": 3, "sped": 3, "datachannel": 3,
    "peer": 4,
    "io": 5,
    "compat": 6,
}  # fmt: skip
PACKAGES = ("warp", "instant_connect", "voice_backend", "tools")
PACKAGE_ORDER = {"warp": 0, "instant_connect": 1, "voice_backend": 2, "warp_tools": 3, "tools": 3}


def imports(path: Path) -> list[str]:
    """Every module that a file names in an import, as an absolute dotted name."""
    package = path.relative_to(ROOT).parts[:-1]
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found.append(stem)
            found += [f"{stem}.{alias.name}" for alias in node.names]
    return found


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def house(name: str) -> str | None:
    """The first room under `warp` that a dotted name leads to, if it is a known one."""
    parts = name.split(".")
    return parts[1] if parts[0] == "warp" and len(parts) > 1 and parts[1] in RANKS else None


def test_every_room_has_a_rank() -> None:
    rooms = {p.stem if p.is_file() else p.name for p in (ROOT / "warp").iterdir()}
    assert rooms - {"__init__", "__pycache__", "py"} - {"py.typed"} <= set(RANKS)


def test_imports_point_strictly_down() -> None:
    wrong = []
    for path in sources("warp"):
        own = path.relative_to(ROOT / "warp").parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for name in imports(path):
            target = house(name)
            if target is not None and target != own and RANKS[target] >= RANKS[own]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    # rank 0 modules are leaves, except that they may share the error tree
    assert [w for w in wrong if not w.endswith(("warp.errors", "warp.contract"))] == []


def test_packages_point_down() -> None:
    wrong = []
    for package in PACKAGES:
        for path in sources(package):
            for name in imports(path):
                top = name.split(".")[0]
                if top in PACKAGE_ORDER and PACKAGE_ORDER[top] > PACKAGE_ORDER[package]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
                if top in ("tests", "interop", "drafts"):
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []
