"""Packages made up for the tests of the store: a wheel is a ZIP file with a name."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from voice_backend.models.catalogue import File, Package

CONTENT = {
    "made_up_model/weights.onnx": b"weights" * 1000,
    "made_up_model-1.0.dist-info/licenses/LICENSE": b"do as you like",
}
UNWANTED = {
    "made_up_model/__init__.py": b"raise SystemExit('code of a package ran')",
    "made_up_model-1.0.dist-info/METADATA": (
        b"Metadata-Version: 2.1\nName: made_up_model\nVersion: 1.0\n"
    ),
    "made_up_model-1.0.dist-info/WHEEL": (
        b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "made_up_model-1.0.dist-info/RECORD": b"",
}
NAME = "made_up_model-1.0-py3-none-any.whl"


def make(folder: Path) -> Package:
    """Write the wheel into a folder and return its entry of a catalogue."""
    wheel = folder / NAME
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, data in (CONTENT | UNWANTED).items():
            archive.writestr(zipfile.ZipInfo(member), data)
    return Package(
        key="made-up",
        name="made_up_model",
        version="1.0",
        wheel=NAME,
        wheel_bytes=wheel.stat().st_size,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        platform="any",
        licence="none",
        summary="nothing that exists",
        files=tuple(
            File(member, len(data), hashlib.sha256(data).hexdigest())
            for member, data in CONTENT.items()
        ),
    )
