"""How onnxruntime is brought in."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from voice_backend.models.inference import NO_TELEMETRY, ModelUnusable, import_runtime


def test_it_is_told_to_keep_no_record_of_its_use(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    runtime = SimpleNamespace(
        disable_telemetry_events=lambda: told.append(os.environ[NO_TELEMETRY])
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setenv(NO_TELEMETRY, "0")
    assert import_runtime() is runtime
    assert told == ["1"]


def test_where_it_is_missing_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setenv(NO_TELEMETRY, "0")
    with pytest.raises(ModelUnusable, match="pip install"):
        import_runtime()
