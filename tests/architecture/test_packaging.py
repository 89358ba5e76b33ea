"""The wheel holds every package, and the README's commands are the ones that CI runs."""

from __future__ import annotations

import tomllib

from tests.architecture.test_ranks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_in_the_wheel() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    present = {"warp_tools.data", "instant_connect.web"}
    for folder, name in (
        ("warp", "warp"),
        ("tools", "warp_tools"),
        ("instant_connect", "instant_connect"),
        ("voice_backend", "voice_backend"),
    ):
        for marker in (ROOT / folder).rglob("__init__.py"):
            parts = marker.parent.relative_to(ROOT / folder).parts
            present.add(".".join([name, *parts]))
    assert listed == present


def test_the_license_of_what_is_carried_stands_beside_it() -> None:
    data = ROOT / "tools" / "data"
    notes = (data / "README.md").read_text()
    sounds = [path.name for path in data.iterdir() if path.suffix == ".wav"]
    assert sounds
    assert [name for name in sounds if f"**{name}**" not in notes] == []


def test_the_readme_has_the_two_commands() -> None:
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    commands = [line for line in lines if line.startswith("python3 -m venv .venv && ")]
    assert [command.rpartition(" && ")[2] for command in commands] == [
        ".venv/bin/warp demo --rtt 100",
        ".venv/bin/pytest",
    ]
    for extra in ("tools", "dev"):
        assert sum(f"pip install -e '.[{extra}]'" in command for command in commands) == 1
        assert extra in PROJECT["project"]["optional-dependencies"]


def test_ci_runs_the_readmes_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert 'grep -m1 -F ".venv/bin/pytest" README.md' in script
