from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from warp.ice import Candidate, parse_candidate
from warp.io.names import MdnsResolver

NAME = "3c1c2e42-6f0b-4e6b-9f2e-0123456789ab.local"


def candidate(host: str) -> Candidate:
    return parse_candidate(f"candidate:1 1 udp 2122260223 {host} 50000 typ host")


class Multicast:
    """Stands for aioice's mDNS socket."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.opened = 0
        self.closed = 0

    async def open(self) -> Any:
        self.opened += 1
        return self

    async def resolve(self, hostname: str, timeout: float) -> str | None:
        self.asked.append(hostname)
        return self.answers.pop(0) if self.answers else None

    async def close(self) -> None:
        self.closed += 1


def run(story: Callable[[MdnsResolver], Awaitable[None]], multicast: Multicast) -> None:
    async def play() -> None:
        resolver = MdnsResolver(multicast.open, attempts=2)
        await story(resolver)
        await resolver.close()

    asyncio.run(play())


def test_a_local_name_becomes_an_address() -> None:
    multicast = Multicast("192.168.1.5", "2001:db8::5")

    async def story(resolver: MdnsResolver) -> None:
        found = await resolver.resolve(candidate(NAME))
        assert found is not None
        assert found.address == ("192.168.1.5", 50000) and found.is_usable
        again = await resolver.resolve(candidate(NAME))
        assert again is not None and again.host == "2001:db8::5"

    run(story, multicast)
    assert (multicast.opened, multicast.closed) == (1, 1)


def test_a_lost_question_is_asked_again() -> None:
    multicast = Multicast(None, "192.168.1.5")

    async def story(resolver: MdnsResolver) -> None:
        assert await resolver.resolve(candidate(NAME)) is not None

    run(story, multicast)
    assert multicast.asked == [NAME, NAME]


def test_a_name_that_nobody_has_is_given_up() -> None:
    multicast = Multicast()

    async def story(resolver: MdnsResolver) -> None:
        assert await resolver.resolve(candidate(NAME)) is None
        assert resolver.failed == 1

    run(story, multicast)


@pytest.mark.parametrize("host", ["intranet.example.org", "a.b.local", "localhost"])
def test_other_names_are_not_looked_up(host: str) -> None:
    multicast = Multicast("192.168.1.5")

    async def story(resolver: MdnsResolver) -> None:
        assert await resolver.resolve(candidate(host)) is None

    run(story, multicast)
    assert multicast.opened == 0


def test_numbers_pass_through_without_a_socket() -> None:
    multicast = Multicast()

    async def story(resolver: MdnsResolver) -> None:
        number = candidate("192.0.2.1")
        assert await resolver.resolve(number) is number

    run(story, multicast)
    assert (multicast.opened, multicast.closed) == (0, 0)


def test_a_host_without_multicast_resolves_nothing() -> None:
    async def refuse() -> Any:
        raise OSError("no multicast")

    async def play() -> None:
        resolver = MdnsResolver(refuse)
        assert await resolver.resolve(candidate(NAME)) is None
        assert await resolver.resolve(candidate(NAME)) is None
        assert resolver.failed == 2
        await resolver.close()
        await resolver.close()

    asyncio.run(play())
