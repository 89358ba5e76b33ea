from __future__ import annotations

import numpy as np
import pytest

from voice_backend.audio import OpusMissing, opus
from warp_tools import main as entry
from warp_tools.opus import encoded, frames_of


def test_sound_is_cut_into_whole_frames() -> None:
    frames = frames_of(np.ones(1000, np.int16))
    assert [len(f) for f in frames] == [960, 960]
    assert frames[1][:40].all() and not frames[1][40:].any()
    assert frames_of(np.zeros(0, np.int16)) == []


def test_a_payload_for_each_frame() -> None:
    assert len(encoded(np.zeros(4800, np.int16))) == 5


def test_without_a_codec_the_command_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise OpusMissing(f"no Opus codec found: {opus.FIX}")

    monkeypatch.setattr("warp_tools.cli.app", fails)
    with pytest.raises(SystemExit) as ended:
        entry.main(["demo"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"warp: no Opus codec found: {opus.FIX}\n"
