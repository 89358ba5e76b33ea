"""One DTLS connection with its secrets: foreign stacks, every record, what a capture may lack."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.dtls_tap import Tap
from tests.captures.pcap import CAPTURES, read_pcap
from warp.dtls import DtlsRole, DtlsVersion
from warp_tools.decrypt.handshake import Handshake, Opened
from warp_tools.decrypt.keylog import KeyLog, read_keylog

KEYED = sorted(
    path.stem for path in (CAPTURES / "dtls").glob("*.keylog") if "loss" not in path.stem
)
SIDE = {"client": DtlsRole.CLIENT, "server": DtlsRole.SERVER}


@lru_cache(maxsize=4)
def spoken(stem: str) -> list[tuple[DtlsRole, bytes]]:
    packets = read_pcap(f"dtls/{stem}.pcap")
    client = packets[0].source
    return [
        (DtlsRole.CLIENT if p.source == client else DtlsRole.SERVER, p.payload) for p in packets
    ]


@lru_cache(maxsize=4)
def log_of(stem: str) -> KeyLog:
    return read_keylog(CAPTURES / "dtls" / f"{stem}.keylog")


def read(stem: str, datagrams: list[tuple[DtlsRole, bytes]]) -> tuple[Handshake, list[Opened]]:
    handshake = Handshake(log_of(stem).find)
    return handshake, [one for role, data in datagrams for one in handshake.receive(data, role)]


@pytest.mark.parametrize("stem", KEYED)
def test_every_record_is_opened_as_an_endpoint_would(stem: str) -> None:
    """The tap of tests/captures reads the same file as an endpoint: in order, KeyUpdates obeyed."""
    handshake, found = read(stem, spoken(stem))
    tap = Tap(f"dtls/{stem}.pcap", f"dtls/{stem}.keylog")
    assert sorted((one.role.value, *one[1:]) for one in found) == sorted(
        (SIDE[record.side].value, *record[1:]) for record in tap.records
    )
    assert handshake.version is DtlsVersion.DTLS13
    assert handshake.suite == tap.suite
    assert handshake.srtp_profile == 1
    assert [side.shut for side in handshake.sides.values()] == [0, 0]
    assert handshake.exporter is not None
    label = b"EXTRACTOR-dtls_srtp"
    assert handshake.exporter.export(label, 60) == tap.exporter().export(label, 60)


def test_secrets_published_without_a_capture_of_ours() -> None:
    packets = read_pcap("dtls/illustrated/capture.pcap")
    handshake = Handshake(read_keylog(CAPTURES / "dtls/illustrated/keylog.txt").find)
    client = packets[0].source
    found = []
    for packet in packets:
        role = DtlsRole.CLIENT if packet.source == client else DtlsRole.SERVER
        found += handshake.receive(packet.payload, role)
    assert [one.content for one in found if one.content_type == 23] == [b"ping", b"pong"]


@pytest.mark.parametrize("stem", ["nssff153_ku", "bssl_mtu300", "nssff153_hrr"])
@given(data=st.data())
def test_what_a_capture_lacks_costs_what_it_lacks(stem: str, data: st.DataObject) -> None:
    """Without some datagrams the rest still opens, unless a hello is among them.

    A KeyUpdate that is missing is no harm: the keys behind it are known beforehand.
    """
    whole = spoken(stem)
    hellos = [at for at, (_, one) in enumerate(whole) if one[0] == 22]
    lost = data.draw(st.sets(st.sampled_from(sorted(set(range(len(whole))) - set(hellos)))))
    rest = [one for at, one in enumerate(whole) if at not in lost]
    handshake, found = read(stem, rest)
    assert [side.shut for side in handshake.sides.values()] == [0, 0]
    assert len(found) >= len(rest) - len(hellos)


@given(order=st.permutations(range(9)))
def test_what_overtakes_its_keys_waits(order: list[int]) -> None:
    stem = "nssff153_aes256"
    whole = spoken(stem)
    assert len(whole) == 9
    handshake, found = read(stem, [whole[at] for at in order])
    _, in_order = read(stem, whole)
    assert set(found) == set(in_order)
    assert [side.shut for side in handshake.sides.values()] == [0, 0]


def test_a_datagram_that_comes_twice_is_opened_once() -> None:
    whole = spoken("bssl_basic")
    handshake, found = read("bssl_basic", whole + whole)
    assert len(found) == len(read("bssl_basic", whole)[1])
    assert sum(side.repeated for side in handshake.sides.values()) == len(found)


def test_without_secrets_records_are_counted() -> None:
    whole = spoken("bssl_basic")
    handshake = Handshake(lambda _: None)
    found = [one for role, data in whole for one in handshake.receive(data, role)]
    assert {one.epoch for one in found} == {0}
    assert sum(side.shut for side in handshake.sides.values()) == 11
    assert handshake.secrets is None


def test_wrong_secrets_open_nothing() -> None:
    other = next(secrets for _, secrets in log_of("bssl_pq").connections())
    handshake = Handshake(lambda _: other)
    found = [one for role, data in spoken("bssl_basic") for one in handshake.receive(data, role)]
    assert {one.epoch for one in found} == {0}
    assert sum(side.shut for side in handshake.sides.values()) == 11
    assert not any(side.opened for side in handshake.sides.values())


def test_more_records_than_can_wait_are_counted_as_well() -> None:
    whole = spoken("bssl_basic")
    data = next(one for _, one in reversed(whole) if one[0] >> 5 == 1)
    handshake = Handshake(lambda _: None)
    for number in range(100):
        handshake.receive(data[:-1] + bytes((number,)), DtlsRole.SERVER)
    assert handshake.sides[DtlsRole.SERVER].shut == 100


@given(st.lists(st.tuples(st.sampled_from(list(DtlsRole)), st.binary(max_size=80)), max_size=8))
def test_noise_is_survived(noise: list[tuple[DtlsRole, bytes]]) -> None:
    read("bssl_basic", noise)


@given(data=st.data())
def test_damaged_datagrams_are_survived(data: st.DataObject) -> None:
    handshake = Handshake(log_of("nssff153_nopq").find)
    for role, whole in spoken("nssff153_nopq"):
        at = data.draw(st.integers(0, len(whole) - 1))
        value = data.draw(st.integers(0, 255))
        handshake.receive(whole[:at] + bytes((value,)) + whole[at + 1 :], role)
    assert sum(side.opened + side.shut for side in handshake.sides.values()) <= 40


def test_the_keys_are_there_without_the_clients_hello(tmp_path: Path) -> None:
    """`adopt`: what a session does that has found the secrets by trying."""
    stem = "nssff153_ku"
    (client_random, secrets), *_ = log_of(stem).connections()
    handshake = Handshake(log_of(stem).find)
    handshake.adopt(client_random, secrets, 0x1301)
    late = [one for one in spoken(stem) if one[1][0] >> 5 == 1]
    for role, data in late:
        handshake.receive(data, role)
    assert [side.shut for side in handshake.sides.values()] == [0, 0]
    assert all(side.opened for side in handshake.sides.values())
