"""What is expected of each test: to pass, to end in a certain other way, or not to be run.

Read from expectations.toml, whose patterns are the runner's own. Called by the command.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("expectations.toml")


class BadExpectations(Exception):
    """The file does not say what it should; the text names the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tests with one reason; `error` is how they have to end, None for those that are not run."""

    reason: str
    patterns: tuple[str, ...]
    error: str | None = None

    def __contains__(self, name: str) -> bool:
        return matches(name, self.patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """All of the file; `resumption` ends any test that wants a session resumed.

    `errors` has what we say by what the runner looks for.
    """

    patterns: tuple[str, ...]
    slow: tuple[str, ...]
    fast: tuple[str, ...]
    errors: dict[str, str]
    resumption: Group
    instead: tuple[Group, ...]
    disabled: tuple[Group, ...]

    def ours(self, names: Iterable[str]) -> list[str]:
        """Return the tests that are about DTLS."""
        return [name for name in names if matches(name, self.patterns)]

    def disabled_by(self, name: str) -> Group | None:
        """Return why a test is not run, or None."""
        return next((group for group in self.disabled if name in group), None)

    def instead_of_passing(self, name: str) -> Group | None:
        """Return how a test has to end instead of passing, or None."""
        return next((group for group in self.instead if name in group), None)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether one of the patterns fits."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def read_expectations(file: Path = FILE) -> Expectations:
    """Return what the file says. Raises BadExpectations."""
    try:
        data = tomllib.loads(file.read_text())
        return Expectations(
            patterns=tuple(data["tests"]),
            slow=tuple(data["slow"]),
            fast=tuple(data["fast"]),
            errors=dict(data["errors"]),
            resumption=_group({"tests": ["*"], **data["resumption"]}, needs_error=True),
            instead=tuple(_group(entry, needs_error=True) for entry in data["instead"]),
            disabled=tuple(_group(entry, needs_error=False) for entry in data["disabled"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadExpectations(f"{file}: {error}") from error


def _group(entry: dict[str, Any], *, needs_error: bool) -> Group:
    if ("error" in entry) is not needs_error:
        raise ValueError(f"{entry}: `error` is {'missing' if needs_error else 'out of place'}")
    return Group(reason=entry["reason"], patterns=tuple(entry["tests"]), error=entry.get("error"))
