"""Code of a package runs when it is the catalogue's, and not otherwise."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from pathlib import Path

import pytest

from tests.unit.voice_backend.models import wheels
from voice_backend.models.catalogue import File, Package
from voice_backend.models.inference import ModelUnusable
from voice_backend.models.private_code import PREFIX, PrivateCode
from voice_backend.models.store import ModelsMissing, Store

CODE = {
    "spoken/rules/__init__.py": b"from .words import WORD\n",
    "spoken/rules/words.py": b"WORD = 'rule'\n",
    "spoken/other.py": b"from . import secret\n",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.fixture
def package(store: Store, monkeypatch: pytest.MonkeyPatch) -> Package:
    made = dataclasses.replace(
        wheels.make(store.root),
        files=tuple(
            File(member, len(code), hashlib.sha256(code).hexdigest())
            for member, code in CODE.items()
        ),
    )
    for member, code in {**CODE, "spoken/secret.py": b"", "spoken/__init__.py": b"1/0"}.items():
        path = store.root / made.folder / member
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(code)
    for name in [name for name in sys.modules if name.startswith(f"{PREFIX}spoken")]:
        monkeypatch.delitem(sys.modules, name)
    return made


def test_it_runs_under_a_name_of_its_own(store: Store, package: Package) -> None:
    before = list(sys.path)
    rules = PrivateCode.load(store, package, "spoken", "rules")
    assert rules.WORD == "rule"
    assert "spoken" not in sys.modules
    assert sys.path == before
    assert not list(store.root.rglob("*.pyc"))


def test_changed_code_does_not_run(
    store: Store, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.root / package.folder / "spoken/rules/words.py"
    path.write_bytes(b"WORD = 'evil'\n")
    with pytest.raises(ModelsMissing, match="is damaged"):
        PrivateCode.load(store, package, "spoken", "rules")
    # and where it is changed behind the back of whoever looked
    monkeypatch.setattr(store, "path", lambda package: store.root / package.folder)
    with pytest.raises(ModelUnusable, match="was changed and is not run"):
        PrivateCode.load(store, package, "spoken", "rules")


def test_what_the_catalogue_does_not_name_is_not_found(store: Store, package: Package) -> None:
    with pytest.raises(ModelUnusable, match="secret"):
        PrivateCode.load(store, package, "spoken", "other")
