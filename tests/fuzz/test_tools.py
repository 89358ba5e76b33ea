"""What the command line reads: captured datagrams for its ladder, WAV files, bodies of requests."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.captures.pcap import read_pcap
from tests.fuzz.mutation import Script, mutate
from warp_tools.audio.wav import read_wav, write_wav
from warp_tools.dissect import describe
from warp_tools.failure import ToolFailure

REAL = [packet.payload for packet in read_pcap("stun/chromium156_warp.pcap")]


def fuzz_describe(data: bytes) -> None:
    """A few words about anything."""
    assert len(describe(data).text) < 4096
    script = Script(data)
    assert describe(mutate(REAL[script.below(len(REAL))], script, REAL)).kind


def _sound() -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        write_wav(Path(file.name), numpy.arange(480, dtype=numpy.int16))
        return Path(file.name).read_bytes()


SOUND = _sound()


def fuzz_wav(data: bytes) -> None:
    """A damaged WAV file: sound, or `ToolFailure` in one line."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        path = Path(file.name)
        path.write_bytes(mutate(SOUND, Script(data)) if data[:1] != b"\0" else data[1:])
        try:
            samples = read_wav(path)
        except ToolFailure as error:
            assert "\n" not in str(error)
            return
        assert len(samples) > 0


@given(st.binary(max_size=200))
def test_descriptions(data: bytes) -> None:
    fuzz_describe(data)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.binary(max_size=100))
@example(b"\x01\x00B\xb8\x01\x00")  # a chunk that reaches beyond the file
@example(bytes.fromhex("dabe74680d0b2bdf82501ce1042eed6c"))  # samples of 136 bits
def test_wav(data: bytes) -> None:
    fuzz_wav(data)
