from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.io.support import HOST, LOOPBACKS, OPUS, open_call, play, turns
from warp.contract import Address
from warp.entropy import SystemEntropy
from warp.errors import InvalidState, UsageError
from warp.ice import Candidate, IceCredentials, parse_candidate
from warp.io import (
    AddressInUse,
    Client,
    ClientConfig,
    Server,
    ServerConfig,
    Session,
    connect,
    listen,
    server,
)
from warp.io.interfaces import host_addresses
from warp.io.session import SessionOwner
from warp.peer import FlowAuthenticated, PeerConnection
from warp.rtp import AudioFrame
from warp.sdp import SdpError

WILDCARDS = ["0.0.0.0", "", *(["::"] if "::1" in LOOPBACKS else [])]


def candidates(sdp: str) -> list[Candidate]:
    lines = [line for line in sdp.splitlines() if line.startswith("a=candidate:")]
    return [parse_candidate(line) for line in dict.fromkeys(lines)]


async def answer_of(open_server: Server) -> str:
    """Return the answer to an offer, whose session is closed again."""
    offers: list[str] = []

    async def keep(offer: str) -> str:
        offers.append(offer)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await connect(keep, config=ClientConfig(host=HOST))
    session = open_server.accept_offer(offers[0])
    await session.close()
    return session.answer


# -- addresses ---------------------------------------------------------------------------------


def test_an_answer_names_the_address_and_the_port() -> None:
    async def story() -> None:
        async with await listen(HOST) as made:
            [candidate] = candidates(await answer_of(made))
            assert candidate.address == (HOST, made.port)
            assert made.addresses == (HOST,)

    play(story)


@pytest.mark.parametrize("host", WILDCARDS)
def test_a_wildcard_names_addresses_that_can_be_reached(host: str) -> None:
    async def story() -> None:
        async with await listen(host) as made:
            found = candidates(await answer_of(made))
            hosts = [candidate.host for candidate in found]
            assert hosts == list(made.addresses)
            assert set(hosts) <= set(host_addresses())
            assert not {"0.0.0.0", "::", ""} & set(hosts)
            assert {candidate.port for candidate in found} == {made.port}
            priorities = [candidate.priority for candidate in found]
            assert priorities == sorted(set(priorities), reverse=True)
            if host != "":
                assert {":" in address for address in hosts} == {host == "::"}

    play(story)


@pytest.mark.parametrize("host", WILDCARDS)
def test_a_wildcard_answers_from_the_address_that_was_asked(host: str) -> None:
    """Else the client's check fails (RFC 8445 section 7.2.5.2.1)."""

    async def story() -> None:
        async with await listen(host) as made, Client(ClientConfig(loopback=True)) as client:
            remote: list[Session] = []

            async def signal(offer: str) -> str:
                remote.append(made.accept_offer(offer))
                return remote[0].answer

            session = await client.connect(signal)
            await session.connected(5)
            await remote[0].connected(5)
            assert remote[0].stats()["flow"].local in made._driver.ports
            session.audio_out.send(OPUS)
            assert (await anext(remote[0].audio_in)).payload == OPUS

    play(story)


@pytest.mark.parametrize(("lite", "kind"), [(True, "host"), (False, "srflx")])
def test_advertised_addresses_stand_in_the_answer(lite: bool, kind: str) -> None:
    async def story() -> None:
        config = ServerConfig(advertise=("203.0.113.5", "2001:db8::5"), lite=lite)
        async with await listen(HOST, config=config) as made:
            first, second = candidates(await answer_of(made))
            assert first.address == ("203.0.113.5", made.port)
            assert second.address == ("2001:db8::5", made.port)
            assert first.type.value == kind
            # a full agent has to know where its checks leave
            assert first.related_address == (None if lite else (HOST, made.port))
            assert made.addresses == config.advertise

    play(story)


def test_an_advertised_port_stands_in_the_answer() -> None:
    async def story() -> None:
        config = ServerConfig(advertise=("203.0.113.5",), advertise_port=443)
        async with await listen(HOST, config=config) as made:
            [candidate] = candidates(await answer_of(made))
            assert candidate.address == ("203.0.113.5", 443)
            assert made.port != 443

    play(story)


@pytest.mark.parametrize("lite", [True, False])
def test_a_call_through_an_advertised_address(lite: bool) -> None:
    """127.0.0.2 stands before the server as a NAT would."""

    async def story() -> None:
        config = ServerConfig(advertise=("127.0.0.2",), lite=lite)
        async with await listen(HOST, config=config) as made, nat("127.0.0.2", made.port):

            async def signal(offer: str) -> str:
                return made.accept_offer(offer).answer

            session = await connect(signal, config=ClientConfig(host=HOST))
            await session.connected(5)
            await made.sessions[0].connected(5)
            await session.close()
            await turns()

    play(story)


class Nat(asyncio.DatagramProtocol):
    """Passes datagrams between one client outside and the server inside, on the same port."""

    def __init__(self, inside: Address) -> None:
        self.inside, self.client = inside, inside
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Address) -> None:
        if address == self.inside:
            self.transport.sendto(data, self.client)
        else:
            self.client = address
            self.transport.sendto(data, self.inside)


class nat:
    def __init__(self, host: str, port: int) -> None:
        self.outside, self.inside = (host, port), (HOST, port)

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(
            lambda: Nat(self.inside), local_addr=self.outside
        )

    async def __aexit__(self, *_: object) -> None:
        self.transport.close()


def test_a_port_in_use_is_said_plainly_and_nothing_stays_open() -> None:
    async def story() -> None:
        async with await listen(HOST) as made:
            for host in (HOST, "0.0.0.0"):
                with pytest.raises(AddressInUse, match=f"UDP port {made.port} on {HOST} is in use"):
                    await listen(host, made.port)
        async with await listen("0.0.0.0", made.port) as again:
            assert again.port == made.port

    play(story)


def test_an_address_that_is_not_ours_is_said_plainly() -> None:
    async def story() -> None:
        with pytest.raises(UsageError, match=r"203\.0\.113\.200"):
            await listen("203.0.113.200")

    play(story)


def test_workers_may_share_a_port() -> None:
    async def story() -> None:
        async with (
            await listen(HOST, reuse_port=True) as one,
            await listen(HOST, one.port, reuse_port=True) as two,
        ):
            assert one.port == two.port

    play(story)


# -- sessions ----------------------------------------------------------------------------------


def test_a_full_server_refuses_and_takes_the_next_when_one_has_ended() -> None:
    async def story() -> None:
        config = ServerConfig(max_sessions=1)
        made = await open_call(server=config)
        offers: list[str] = []

        async def signal(offer: str) -> str:
            offers.append(offer)
            return made.server.accept_offer(offer).answer

        with pytest.raises(InvalidState, match="already serves 1"):
            await made.client.connect(signal)
        await made.local.close()
        await made.remote.closed
        session = await made.client.connect(signal)
        await session.connected(5)
        await made.close()

    play(story)


@pytest.mark.parametrize("offer", ["", "hello", "v=0\r\n", "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\n"])
def test_an_offer_that_is_none_leaves_nothing_behind(offer: str) -> None:
    async def story() -> None:
        async with await listen(HOST) as made:
            with pytest.raises(SdpError):
                made.accept_offer(offer)
            assert made.sessions == [] and dict(made._by_ufrag) == {}
            assert made._driver._heap == []

    play(story)


def test_a_closed_server_takes_no_offers() -> None:
    async def story() -> None:
        made = await listen(HOST)
        await made.close()
        with pytest.raises(InvalidState, match="closed"):
            made.accept_offer("")

    play(story)


def test_a_server_that_is_closing_takes_no_offers() -> None:
    """Such a session would never end: its port is gone with the others'."""

    async def story() -> None:
        made = await open_call()
        closing = asyncio.ensure_future(made.server.close())
        await asyncio.sleep(0)
        with pytest.raises(InvalidState, match="closed"):
            made.server.accept_offer("")
        await closing
        assert made.server.sessions == []
        await made.close()

    play(story)


def test_credentials_may_be_given_but_not_twice() -> None:
    async def story() -> None:
        own = IceCredentials("our1", "apasswordofmorethantwentytwo")
        made = await open_call()
        offers: list[str] = []

        async def signal(offer: str) -> str:
            offers.append(offer)
            return made.server.accept_offer(offer, credentials=own).answer

        session = await made.client.connect(signal)
        assert "a=ice-ufrag:our1" in session.answer
        await session.connected(5)
        with pytest.raises(InvalidState, match="credentials"):
            made.server.accept_offer(offers[0], credentials=own)
        await made.close()

    play(story)


def test_an_address_that_another_session_had_goes_to_the_new_one() -> None:
    """A client's port number comes back, and its NAT gives the same address twice."""

    async def story() -> None:
        async with await listen(HOST) as made:

            async def signal(offer: str) -> str:
                return made.accept_offer(offer).answer

            async with Client(ClientConfig(host=HOST)) as first:
                await (await first.connect(signal)).connected(5)
                [address] = first._driver.ports
                [old] = made.sessions
                await old.connected(5)
                vanish(first)
            async with Client(ClientConfig(host=HOST)) as second:
                session = await reuse(second, address, signal)
                await session.connected(5)
                [_, new] = made.sessions
                await new.connected(5)
                assert new.stats()["flow"].remote == old.stats()["flow"].remote == address
                session.audio_out.send(OPUS)
                assert (await anext(new.audio_in)).payload == OPUS
                # the end of the old one takes nothing from the new one
                await old.close()
                session.audio_out.send(OPUS + b"2")
                assert (await anext(new.audio_in)).payload == OPUS + b"2"

    play(story)


def test_a_recorded_check_takes_no_address_from_who_speaks_there() -> None:
    """Anybody can send it again with another client's address in front."""

    async def story() -> None:
        async with await listen(HOST) as made, Client(ClientConfig(host=HOST)) as client:
            [port] = made._driver.ports.values()
            recorded: list[tuple[bytes, Any]] = []
            heard = port.receive

            def record(data: bytes, address: Any) -> None:
                recorded.append((data, address))
                heard(data, address)

            port.sock._receive = record

            async def signal(offer: str) -> str:
                return made.accept_offer(offer).answer

            calls = [await client.connect(signal) for _ in range(2)]
            for call in (*calls, *made.sessions):
                await call.connected(5)
            first, second = made.sessions
            address = first.stats()["flow"].remote
            theirs = second.stats()["flow"].remote
            checks = [data for data, at in recorded if at == theirs and data[:2] == b"\0\1"]
            assert checks
            for check in checks:
                heard(check, address)
                heard(check[:-8] + b"\xff\xff\0\4" + bytes(4), address)
            made._driver.flush_touched()
            async with asyncio.timeout(10):
                for call, served in zip(calls, (first, second), strict=True):
                    call.audio_out.send(OPUS)
                    assert (await anext(served.audio_in)).payload == OPUS
                await calls[0].close()
                await first.closed

    play(story)


def vanish(client: Client) -> None:
    for port in list(client._driver.ports.values()):
        client._driver.remove_port(port)


async def reuse(client: Client, address: Address, signal: Any) -> Session:
    """Place a call from this very port."""
    with pytest.MonkeyPatch.context() as patch:
        bind = server.bind_each
        patch.setattr("warp.io.client.bind_udp", lambda host, _: bind([host], address[1])[0])
        return await client.connect(signal)


@pytest.mark.parametrize("lite", [True, False])
def test_many_sessions_share_the_port(lite: bool) -> None:
    async def story() -> None:
        config = ServerConfig(lite=lite)
        async with await listen(HOST, config=config) as made, Client(ClientConfig(host=HOST)) as c:

            async def signal(offer: str) -> str:
                return made.accept_offer(offer).answer

            calls = await asyncio.gather(*(c.connect(signal) for _ in range(5)))
            await asyncio.gather(*(one.connected(5) for one in (*calls, *made.sessions)))
            for number, session in enumerate(calls):
                session.audio_out.send(OPUS + bytes([number]))
            heard = [(await anext(one.audio_in)).payload for one in made.sessions]
            assert sorted(heard) == [OPUS + bytes([number]) for number in range(5)]
            assert len(c._driver.ports) == 5 and len(made._driver.ports) == 1

    play(story)


def test_media_ticks_come_until_they_are_stopped() -> None:
    async def story() -> None:
        async with await listen(HOST) as made:
            ticked = asyncio.Event()
            stop = made.add_media_tick(lambda now: ticked.set())
            await asyncio.wait_for(ticked.wait(), 1)
            stop()

    play(story)


def test_the_wall_clock_is_read_again_when_it_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with await listen(HOST) as made:
            before = made.present_config()
            assert made.present_config() is before
            monkeypatch.setattr("warp.io.server.wall_offset", lambda loop: 12345.0)
            assert made.present_config().wall_offset_s == 12345.0

    play(story)


# -- connections that were made elsewhere ----------------------------------------------------------


def test_a_connection_made_elsewhere_is_served_like_any_other() -> None:
    class Owner(SessionOwner):
        def __init__(self, made: Server) -> None:
            self.made = made
            self.heard: list[str] = []

        def route(self, session: Session, event: FlowAuthenticated) -> None:
            self.heard.append("route")
            self.made.route(session, event)

        def connected(self, session: Session) -> None:
            self.heard.append("connected")

        def release(self, session: Session) -> None:
            self.heard.append("release")
            self.made.release(session)

    async def story() -> None:
        async with await listen(HOST) as made, Client(ClientConfig(host=HOST)) as client:
            owner = Owner(made)
            adopted: list[Session] = []

            async def signal(offer: str) -> str:
                now = asyncio.get_running_loop().time()
                peer = PeerConnection(
                    made.present_config(),
                    certificate=made.certificate,
                    entropy=SystemEntropy(),
                )
                for candidate in made.candidates:
                    peer.add_local_candidate(candidate, now)
                peer.set_remote_description("offer", offer, now)
                peer.set_local_description("answer", peer.create_answer(now), now)
                adopted.append(made.adopt(peer, owner))
                with pytest.raises(InvalidState, match="these ICE credentials"):
                    made.adopt(peer)
                return adopted[0].answer

            session = await client.connect(signal)
            await asyncio.wait_for(session.connected(), 5)
            await asyncio.wait_for(adopted[0].connected(), 5)
            assert made.sessions == adopted
            await session.close()
            await asyncio.wait_for(adopted[0].closed, 5)
            assert made.sessions == []
            assert owner.heard[0] == "route"
            assert owner.heard[-2:] == ["connected", "release"]
            assert owner.heard.count("connected") == 1

    play(story)


def test_a_full_server_adopts_none() -> None:
    async def story() -> None:
        async with await listen(HOST, config=ServerConfig(max_sessions=1)) as made:
            peer = PeerConnection(
                made.present_config(), certificate=made.certificate, entropy=SystemEntropy()
            )
            first = made.adopt(peer)
            other = PeerConnection(
                made.present_config(), certificate=made.certificate, entropy=SystemEntropy()
            )
            with pytest.raises(InvalidState, match="already serves"):
                made.adopt(other)
            await first.close()
        with pytest.raises(InvalidState, match="closed"):
            made.adopt(other)

    play(story)


def test_a_bridge_reads_by_a_function_which_may_send_and_hang_up() -> None:
    async def story() -> None:
        async with await listen(HOST) as made, Client(ClientConfig(host=HOST)) as client:
            endings: list[asyncio.Task[None]] = []

            async def signal(offer: str) -> str:
                session = made.accept_offer(offer)

                def read(frames: list[AudioFrame]) -> None:
                    for frame in frames:
                        if frame.payload == OPUS + b"bye":
                            endings.append(asyncio.ensure_future(session.close()))
                        elif frame.payload is not None:
                            session.audio_out.send(frame.payload)

                session.audio_in.set_reader(read)
                return session.answer

            call = await client.connect(signal)
            async with asyncio.timeout(10):
                await call.connected()
                said = [OPUS + bytes([number]) for number in range(10)]
                for payload in (*said, OPUS + b"bye"):
                    call.audio_out.send(payload)
                heard = [frame.payload async for frame in call.audio_in if frame.payload]
                assert heard == said
                assert await call.closed is None
                await asyncio.gather(*endings)
            assert len(endings) == 1

    play(story)
