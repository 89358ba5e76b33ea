from __future__ import annotations

import socket
import subprocess
import sys
from multiprocessing.shared_memory import SharedMemory

import pytest

from warp_tools.bench.residue import Left, count, segments, slope


def test_what_is_opened_is_counted_and_gone_when_it_is_closed() -> None:
    SharedMemory(create=True, size=16).unlink()  # the tracker of such memory stays
    before = count()
    memory = SharedMemory(create=True, size=16)
    held = socket.socket()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    seen = count(slots=2, sessions=1).beyond(before)
    assert (seen.sockets, seen.segments, seen.children) == (1, 1, 1)
    assert (seen.slots, seen.sessions, seen.tasks, seen.threads) == (2, 1, 0, 0)
    assert seen.files >= 2
    assert any(memory.name in name for name in segments())
    held.close()
    child.communicate()
    memory.close()
    memory.unlink()
    assert count().beyond(before).is_nothing


def test_less_than_before_is_nothing_left() -> None:
    assert Left(files=1).beyond(Left(files=3, threads=1)).is_nothing
    assert not Left(files=4).beyond(Left(files=3)).is_nothing


def test_a_slope_comes_with_what_it_may_be_wrong_by() -> None:
    assert slope([(0, 5), (1, 7), (2, 9), (3, 11)]) == pytest.approx((2.0, 0.0))
    found, error = slope([(0, 0), (1, 1), (2, 0), (3, 1)])
    assert found == pytest.approx(0.2)
    assert error > 0.2
    assert slope([(0, 1), (1, 2)])[1] == float("inf")
    assert slope([(1, 1), (1, 2), (1, 3)]) == (0.0, float("inf"))
