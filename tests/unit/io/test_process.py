"""What keeps the garbage collector out of a call, and memory on few pages."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from warp.io import prepare_process, process
from warp.io.process import Region, regions, use_huge_pages

MIB = 1 << 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="it is Linux that is asked")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def test_what_lives_on_is_not_looked_through_as_calls_come() -> None:
    """As many objects as two thousand sessions have, kept; by default several full collections."""
    prepare_process()
    before = full_collections()
    kept = [[number] for number in range(400_000)]
    assert full_collections() == before
    assert gc.get_freeze_count() > 0 and len(kept) == 400_000


def test_garbage_in_cycles_does_not_grow_without_bound() -> None:
    prepare_process()
    before = full_collections()
    kept: list[list[int]] = []
    while full_collections() == before and len(kept) < 4_000_000:
        kept.extend([number] for number in range(100_000))
    assert full_collections() > before


def described(memory: mmap.mmap) -> tuple[Region, int]:
    """The region that holds this memory, and how much of it is on huge pages (bytes)."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    text = Path("/proc/self/smaps").read_text()
    [region] = [r for r in regions(text) if r.start <= address < r.end]
    begin = text.index(f"{region.start:x}-{region.end:x} ")
    huge = next(line for line in text[begin:].splitlines() if line.startswith("AnonHugePages:"))
    return region, int(huge.split()[1]) << 10


def collapses() -> bool:
    """Whether the kernel does it at all, asked without any of what is tested."""
    with mmap.mmap(-1, 4 * MIB, flags=mmap.MAP_PRIVATE) as memory:
        memory[:] = bytes(4 * MIB)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        start = ctypes.c_void_p(-(-address // (2 * MIB)) * 2 * MIB)
        return ctypes.CDLL(None).madvise(start, ctypes.c_size_t(2 * MIB), 25) == 0


@linux
def test_memory_that_is_in_use_moves_to_huge_pages_and_says_the_same() -> None:
    with mmap.mmap(-1, 16 * MIB, flags=mmap.MAP_PRIVATE) as memory:
        memory[:] = bytes(range(256)) * (16 * MIB // 256)
        if not collapses():
            pytest.skip("this kernel knows no MADV_COLLAPSE, or refuses it")
        assert use_huge_pages() >= 14 * MIB
        assert described(memory)[1] >= 14 * MIB
        assert memory[:] == bytes(range(256)) * (16 * MIB // 256)


@linux
def test_memory_that_is_not_there_is_not_made_to_be() -> None:
    """A thread's stack: eight megabytes, of which a few pages are used."""
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE) as memory:
        for page in range(0, 64 * MIB, 2 * MIB):
            memory[page] = 1
        before = described(memory)[0]
        assert before.end - before.start >= 64 * MIB
        use_huge_pages()
        assert described(memory)[0].resident < before.resident + MIB


@linux
def test_a_process_with_much_memory_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight gigabytes of weights would take from four seconds to a minute."""
    moments = itertools.count(0.0, 0.4)
    clock = SimpleNamespace(perf_counter=lambda: next(moments))
    monkeypatch.setattr(process, "time", clock)
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE) as memory:
        memory[:] = bytes(64 * MIB)
        assert use_huge_pages() <= 16 * MIB


SMAPS = """\
55c8a4763000-55c8a501d000 rw-p 00000000 00:00 0                          [heap]
Size:               8936 kB
Rss:                8860 kB
VmFlags: rd wr mr mw me ac sd
7fa2d5ceb000-7fa2d60d6000 rw-p 00000000 00:00 0
Rss:                3876 kB
Anonymous:          3876 kB
7fa2d6a00000-7fa2d6c00000 rw-p 00003000 fe:00 1053                       /usr/lib/with space.so
Rss:                1000 kB
7fa2d6c00000-7fa2d6e00000 r--p 00000000 00:00 0
Rss:                2048 kB
7ffc3c9d6000-7ffc3c9f7000 rw-p 00000000 00:00 0                          [stack]
Rss:                  60 kB
"""


def test_regions() -> None:
    assert list(regions(SMAPS)) == [
        Region(0x55C8A4763000, 0x55C8A501D000, 8860 * 1024),
        Region(0x7FA2D5CEB000, 0x7FA2D60D6000, 3876 * 1024),
    ]
    assert list(regions("")) == []


@linux
@pytest.mark.parametrize("name", [b"lib\xe9.so", b"lib\x0bvertical.so", "lib\u2028.so".encode()])
def test_what_is_mapped_may_have_any_name(tmp_path: Path, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    with open(path, "wb+") as file:
        file.truncate(mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), mmap.PAGESIZE):
            assert name.strip() in Path("/proc/self/smaps").read_bytes()
            use_huge_pages()
