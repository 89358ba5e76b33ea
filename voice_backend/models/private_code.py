"""Code that came with a model, run from the store and from nowhere else.

The mouth's rules of pronunciation and its last step of synthesis are Python in its package. They
are loaded under a private name, file by file; a file whose SHA-256 is not the catalogue's is
refused before any of it runs. Nothing of it is put on `sys.path`, and nothing is compiled into the
store.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from voice_backend.models.catalogue import Package
from voice_backend.models.inference import ModelUnusable
from voice_backend.models.store import Store

PREFIX: Final = "_voice_model_"


class PrivateCode(importlib.abc.MetaPathFinder):
    """Finds the modules of one package of the store; `load` gives them out."""

    def __init__(self, package: Package, top: str, folder: Path) -> None:
        self._package = package
        self._name = f"{PREFIX}{top}"
        self._top = top
        self._folder = folder

    @classmethod
    def load(cls, store: Store, package: Package, top: str, module: str) -> ModuleType:
        """Return a module of the package's top-level package `top`.

        The `__init__` of `top` is not run: it would bring in what is not needed. Raises
        ModelsMissing, or ModelUnusable when the code is not the catalogue's.
        """
        finder = cls(package, top, store.path(package))
        root = ModuleType(finder._name)
        root.__path__ = [str(finder._folder / top)]
        sys.modules.setdefault(finder._name, root)
        sys.meta_path.insert(0, finder)
        try:
            return importlib.import_module(f"{finder._name}.{module}")
        finally:
            sys.meta_path.remove(finder)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where a module of the package is; None for modules of anybody else."""
        if not fullname.startswith(self._name + "."):
            return None
        inside = fullname.removeprefix(self._name + ".").replace(".", "/")
        for member in (f"{self._top}/{inside}.py", f"{self._top}/{inside}/__init__.py"):
            if any(file.member == member for file in self._package.files):
                location = self._folder / member
                return importlib.util.spec_from_file_location(
                    fullname,
                    location,
                    loader=_Checked(fullname, location, self._package.file(member).sha256),
                    submodule_search_locations=(
                        [str(location.parent)] if member.endswith("__init__.py") else None
                    ),
                )
        raise ModelUnusable(f"{self._package.name} asks for {inside}, which it is not trusted with")


class _Checked(importlib.abc.Loader):
    """Runs one file, if it is the file that is trusted."""

    def __init__(self, name: str, location: Path, sha256: str) -> None:
        self._name = name
        self._location = location
        self._sha256 = sha256

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """The usual kind of module does."""

    def exec_module(self, module: ModuleType) -> None:
        """Compile what was checked, and not what might lie there a moment later."""
        source = self._location.read_bytes()
        if hashlib.sha256(source).hexdigest() != self._sha256:
            raise ModelUnusable(
                f"{self._location} was changed and is not run: delete {self._location.parents[1]} "
                "and run `warp models fetch`"
            )
        exec(compile(source, str(self._location), "exec"), module.__dict__)
