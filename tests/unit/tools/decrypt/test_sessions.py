"""Whose datagram it is: calls that are whole, begun too late, over relays, many in a capture."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.captures.pcap import CAPTURES
from tests.unit.tools.decrypt.support import CALLS, Opened, call, datagrams, keys, opened
from warp.datachannel import DcepOpen
from warp.dtls import DtlsRole, DtlsVersion
from warp.srtp import SrtpProfile
from warp_tools.capture import Datagram
from warp_tools.decrypt import sessions
from warp_tools.decrypt.connection import Budget
from warp_tools.decrypt.keylog import KeyLog, read_keylog
from warp_tools.decrypt.sessions import Sessions

LARGE = bytes(range(256)) * 24
C, S = DtlsRole.CLIENT, DtlsRole.SERVER
OPEN, ACK = "OPEN", "ACK"

# what the two programs that made the captures say to each other
SAID = {
    "libwebrtc152_warp": [
        (S, 0, None, "from us"),
        (C, 0, None, "from libwebrtc"),
        (S, 0, None, LARGE),
        (C, 0, None, LARGE[:3000]),
        (S, 1, "ours", OPEN),
        (C, 1, "ours", ACK),
        (C, 2, "theirs", OPEN),
        (S, 2, "theirs", ACK),
        (S, 2, "theirs", "on theirs"),
        (C, 1, "ours", b""),
    ],
    "aiortc116_dtls12": [
        (C, 2, "theirs", OPEN),
        (S, 0, None, "from us"),
        (C, 0, None, "from aiortc"),
        (S, 2, "theirs", ACK),
        (S, 0, None, LARGE),
        (C, 0, None, LARGE[:3000]),
        (S, 2, "theirs", "on theirs"),
    ],
}
SAID["libwebrtc152_plain"] = SAID["libwebrtc152_warp"]
# counted in the captures with tshark: datagrams by their first byte
COUNTS = {
    "libwebrtc152_warp": {"stun-udp": 8, "dtls": 9, "sctp": 32, "rtp": 163, "rtcp": 16},
    "libwebrtc152_plain": {"stun-udp": 8, "dtls": 7, "sctp": 38, "rtp": 161, "rtcp": 16},
    "aiortc116_dtls12": {"stun-udp": 4, "dtls": 16, "sctp": 35, "rtp": 161, "rtcp": 4},
}


def messages(result: Opened) -> list[tuple[DtlsRole, int, str | None, object]]:
    """Return what was said, OPEN and ACK by name."""
    found = []
    for said in result.said:
        content: object = said.message.content
        if isinstance(content, DcepOpen):
            content = OPEN
        elif content is None:
            content = ACK
        found.append((said.message.role, said.message.stream_id, said.message.label, content))
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_opened_to_the_last_datagram(name: str) -> None:
    result = opened(call(name), keys(name))
    assert Counter(one.dissector for one in result.plain) == COUNTS[name]
    assert messages(result) == SAID[name]
    connection = result.connection
    is_12 = "dtls12" in name
    assert connection.handshake.version is (DtlsVersion.DTLS12 if is_12 else DtlsVersion.DTLS13)
    assert connection.media is not None
    assert connection.media.profile is SrtpProfile.AEAD_AES_128_GCM
    assert (connection.media.shut, result.shut, connection.waiting) == (0, 0, 0)
    assert connection.data.broken == 0
    # the answer was `passive`: whoever offered is the client, and sent the first datagram
    first = call(name)[0]
    assert (connection.client, connection.server) == (first.source, first.destination)


@pytest.mark.parametrize("name", ["libwebrtc152_warp", "libwebrtc152_plain"])
@pytest.mark.parametrize("begins", [8, 20, 60, 150])
def test_a_capture_that_begins_in_mid_call(name: str, begins: int) -> None:
    """No hello, no profile, no roles: the secrets that fit are found by trying (DTLS 1.3)."""
    late = call(name)[begins:]
    result = opened(late, keys(name))
    whole = opened(call(name), keys(name))
    numbers = {item.number for item in late}
    for protocol in ("sctp", "rtp", "rtcp"):
        expected = [
            one.data
            for one in whole.plain
            if one.dissector == protocol and one.datagram.number in numbers
        ]
        assert [one.data for one in result.plain if one.dissector == protocol] == expected
    roles = {one.datagram.number: one.role for one in whole.plain}
    assert all(roles[one.datagram.number] is one.role for one in result.plain)
    assert result.shut == 0


def test_dtls12_begun_too_late_stays_shut_and_is_counted() -> None:
    """Its keys need the server's random, which is nowhere but in the ServerHello."""
    late = call("aiortc116_dtls12")[40:]
    result = opened(late, keys("aiortc116_dtls12"))
    assert {one.dissector for one in result.plain} <= {"stun-udp"}
    connection = result.connection
    assert connection.waiting + connection.lost_media + connection.strangers + sum(
        side.shut for side in connection.handshake.sides.values()
    ) == len(late)


@pytest.mark.parametrize("name", ["libwebrtc152_warp", "libwebrtc152_plain"])
def test_a_server_hello_that_is_missing(name: str) -> None:
    """The client's random leads to the secrets; which suite it was is found by trying."""
    items = [item for item in call(name) if b"\x16\xfe\xfd\0\0" not in item.payload[:40]]
    assert len(items) < len(call(name))
    result = opened(items, keys(name))
    assert messages(result) == SAID[name]
    assert result.count("rtp") == COUNTS[name]["rtp"]


def test_media_that_overtakes_the_handshake_waits() -> None:
    """As from a server that speaks before the client's Finished; nothing is lost or told twice."""
    items = call("libwebrtc152_warp")
    media = [item for item in items if 127 < item.payload[0] < 192]
    rest = [item for item in items if item not in media]
    result = opened(media + rest, keys("libwebrtc152_warp"))
    assert result.count("rtp") == COUNTS["libwebrtc152_warp"]["rtp"]
    assert result.connection.lost_media == 0


def moved(items: list[Datagram], by: int) -> list[Datagram]:
    """Return the same datagrams between other ports."""
    return [
        item._replace(
            source=(item.source[0], item.source[1] + by),
            destination=(item.destination[0], item.destination[1] + by),
        )
        for item in items
    ]


def test_both_legs_of_a_relay_are_one_connection() -> None:
    items = call("libwebrtc152_warp")
    both = [each for pair in zip(items, moved(items, 7), strict=True) for each in pair]
    result = opened(both, keys("libwebrtc152_warp"))
    assert messages(result) == SAID["libwebrtc152_warp"]
    assert result.count("rtp") == COUNTS["libwebrtc152_warp"]["rtp"]
    media = result.connection.media
    assert media is not None
    assert (media.repeated, media.shut) == (179, 0)


def test_a_call_that_moves_to_another_path_stays_one() -> None:
    items = call("libwebrtc152_plain")
    checks = [item for item in items if item.payload[0] < 4][:2]
    turned = [*items[:60], *moved(checks, 9), *moved(items[60:], 9)]
    result = opened(turned, keys("libwebrtc152_plain"))
    assert messages(result) == SAID["libwebrtc152_plain"]
    assert result.count("rtp") == COUNTS["libwebrtc152_plain"]["rtp"]


def test_one_path_after_another_carries_two_connections() -> None:
    """Ports are used again: another ClientHello on the same path is another connection."""
    first, second = (datagrams(CAPTURES / f"dtls/bssl_{kind}.pcap") for kind in ("basic", "pq"))
    ends = {item.source for item in second} | {item.destination for item in second}
    a, b = sorted(ends), sorted({item.source for item in first})
    swap = dict(zip(a, b, strict=True))
    moved_second = [
        item._replace(source=swap[item.source], destination=swap[item.destination])
        for item in second
    ]
    log = KeyLog()
    for kind in ("basic", "pq"):
        text = (CAPTURES / f"dtls/bssl_{kind}.keylog").read_text()
        for number, line in enumerate(text.splitlines()):
            log.add_line(line, number)
    result = opened(first + moved_second, log)
    assert [
        [(side.opened, side.shut) for side in one.handshake.sides.values()]
        for one in result.sessions.connections
    ] == [[(5, 0), (6, 0)], [(5, 0), (6, 0)]]


def test_captures_of_all_stacks_one_after_the_other() -> None:
    log, items, expected = KeyLog(), [], 0
    for path in sorted((CAPTURES / "dtls").glob("*.keylog")):
        if "loss" in path.stem:
            continue
        for number, line in enumerate(path.read_text().splitlines()):
            log.add_line(line, number)
        expected += 1
        items += moved(datagrams(path.with_suffix(".pcap")), 20 * expected)
    result = opened(items, log)
    assert len(result.sessions.connections) == expected
    for connection in result.sessions.connections:
        assert all(side.opened and not side.shut for side in connection.handshake.sides.values())


@pytest.mark.parametrize("stem", ["loss_bb_c2", "loss_bb_s1", "loss_bb_s2", "loss_bb_s3"])
def test_retransmissions_are_opened_once(stem: str) -> None:
    path = CAPTURES / f"dtls/{stem}.pcap"
    result = opened(datagrams(path), path.with_suffix(".keylog"))
    assert result.shut == 0
    assert result.count("data") == 6
    assert len({one.data for one in result.plain}) == len(result.plain)


# -- bounds and bad input -----------------------------------------------------------------------


def test_trials_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    log = KeyLog()
    for number in range(100):
        log.add_line(f"EXPORTER_SECRET {number:064x} {'ab' * 32}", number)
    monkeypatch.setattr(sessions, "MAX_TRIALS", 250)
    result = opened(call("libwebrtc152_warp")[30:], log)
    assert result.sessions.trials <= 250
    assert result.count("rtp") == 0
    # and those of one path before that
    monkeypatch.setattr(sessions, "MAX_TRIALS", 10**9)
    result = opened(call("libwebrtc152_warp")[30:], log)
    assert result.sessions.trials <= sessions.TRIALS_OF_PATH * 300


def test_paths_and_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_PATHS", 10)
    monkeypatch.setattr(sessions, "MAX_CONNECTIONS", 5)
    hello = datagrams(CAPTURES / "dtls/bssl_basic.pcap")[0]
    check = call("libwebrtc152_warp")[0]
    result = Sessions(KeyLog())
    for number in range(40):
        data = bytearray(hello.payload)
        data[27:59] = bytes((number,)) * 32
        (item,) = moved([hello._replace(payload=bytes(data))], number)
        result.receive(item)
        result.receive(moved([check], 100 + number)[0])
    assert len(result.connections) == 5
    assert result.overflow > 0
    assert len(result._by_path) <= 11
    assert len(result._by_ufrags) <= 11


def test_media_that_waits_for_ever_is_bounded() -> None:
    media = [item for item in call("libwebrtc152_warp") if 127 < item.payload[0] < 192]
    result = opened(media * 8, KeyLog())
    connection = result.connection
    assert connection.waiting == 512
    assert connection.lost_media == 8 * len(media) - 512


def test_all_media_that_waits_is_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    media = [item for item in call("libwebrtc152_warp") if 127 < item.payload[0] < 192]
    sizes = sum(len(item.payload) for item in media)
    many = [one for number in range(5) for one in moved(media, 10 * number)]
    budget = Budget(2 * sizes)
    monkeypatch.setattr(sessions, "Budget", lambda: budget)
    result = opened(many, KeyLog())
    assert 0 <= budget.left < 2000
    waiting = sum(one.waiting for one in result.sessions.connections)
    lost = sum(one.lost_media for one in result.sessions.connections)
    assert waiting + lost == len(many)
    assert waiting < 2 * len(media) + 20


def test_records_without_keys_are_not_kept() -> None:
    result = opened(call("libwebrtc152_plain"), KeyLog())
    assert result.shut > 30
    for side in result.connection.handshake.sides.values():
        assert side.intake._held == []


def test_cut_datagrams_are_counted_and_left_alone() -> None:
    items = [
        item._replace(payload=item.payload[:68], length=len(item.payload))
        for item in call("libwebrtc152_warp")
    ]
    result = opened(items, keys("libwebrtc152_warp"))
    cut = sum(item.cut for item in items)
    assert result.sessions.counts["cut"] == cut > 150


@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 32))
def test_damaged_reordered_and_repeated_datagrams_are_survived(name: str, seed: int) -> None:
    chance = random.Random(seed)
    items = call(name)[:90]
    for _ in range(20):
        at = chance.randrange(len(items))
        data = bytearray(items[at].payload)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        items[at] = items[at]._replace(payload=bytes(data[: chance.randrange(len(data)) + 1]))
    for _ in range(10):
        a, b = chance.randrange(len(items)), chance.randrange(len(items))
        items[a], items[b] = items[b], items[a]
    opened(items, read_keylog(keys(name)))


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_noise_is_survived(noise: list[bytes]) -> None:
    first = call("libwebrtc152_warp")[0]
    items = [first._replace(payload=data, length=len(data)) for data in noise]
    opened(items, keys("libwebrtc152_warp"))
