"""Candidate lines (RFC 8839 section 5.1) and the numbers in them (RFC 8445 section 5.1)."""

from __future__ import annotations

import pytest

from warp.ice import (
    CandidateError,
    CandidateFault,
    CandidateType,
    candidate_priority,
    host_candidate,
    make_candidate,
    parse_candidate,
)
from warp.ice.candidate import canonical_host, is_link_local, peer_reflexive_priority

# what browsers write, line by line
CHROMIUM = (
    "candidate:2776184316 1 udp 2122260223 192.168.1.17 54321 typ host generation 0"
    " ufrag 8HcJ network-id 1 network-cost 10"
)
CHROMIUM_TCP = (
    "candidate:4077567720 1 tcp 1518280447 192.168.1.17 9 typ host tcptype active generation 0"
)
SRFLX = (
    "candidate:842163049 1 udp 1677729535 203.0.113.77 50000 typ srflx"
    " raddr 192.168.1.17 rport 54321"
)
FIREFOX = "candidate:0 1 UDP 2122252543 4f1c0a52-1d5f-44a8-9c1c-2f0b9c6f3a41.local 61234 typ host"
SAFARI_V6 = "a=candidate:1 1 udp 2122197247 2001:db8::0:1 60001 typ host\r\n"


def test_reads_a_host_candidate() -> None:
    candidate = parse_candidate(CHROMIUM)
    assert candidate.foundation == "2776184316"
    assert candidate.component == 1
    assert candidate.priority == 2122260223
    assert candidate.address == ("192.168.1.17", 54321)
    assert candidate.type is CandidateType.HOST
    assert candidate.extension("ufrag") == "8HcJ"
    assert candidate.extension("absent") is None
    assert candidate.is_usable


def test_reads_a_reflexive_candidate() -> None:
    candidate = parse_candidate(SRFLX)
    assert candidate.type is CandidateType.SERVER_REFLEXIVE
    assert candidate.related_address == ("192.168.1.17", 54321)


def test_writes_what_it_read() -> None:
    for line in (CHROMIUM, CHROMIUM_TCP, SRFLX):
        assert str(parse_candidate(line)) == line
        assert parse_candidate(str(parse_candidate(line))) == parse_candidate(line)


def test_ipv6_takes_its_canonical_form() -> None:
    candidate = parse_candidate(SAFARI_V6)
    assert candidate.address == ("2001:db8::1", 60001)
    assert canonical_host("FE80::1%eth0") == "fe80::1"
    assert is_link_local("fe80::1")
    assert not is_link_local("2001:db8::1")


@pytest.mark.parametrize(
    "line",
    [
        CHROMIUM_TCP,
        FIREFOX,
        "candidate:1 2 udp 2122197247 192.0.2.1 60001 typ host",
        "candidate:1 1 udp 2122197247 192.0.2.1 0 typ host",
    ],
    ids=["tcp", "mdns", "second component", "port 0"],
)
def test_parses_what_an_agent_passes_over(line: str) -> None:
    assert not parse_candidate(line).is_usable


@pytest.mark.parametrize(
    "host",
    ["224.0.0.251", "255.255.255.255", "0.0.0.0", "ff02::1", "::", "::ffff:224.0.0.1"],
)
def test_an_address_of_many_hosts_is_never_checked(host: str) -> None:
    line = f"candidate:1 1 udp 2122197247 {host} 5353 typ host"
    assert not parse_candidate(line).is_usable


def test_a_name_is_kept_for_resolving() -> None:
    assert parse_candidate(FIREFOX).host.endswith(".local")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", CandidateFault.TOO_FEW_FIELDS),
        ("candidate:1 1 udp 1 192.0.2.1 9 typ", CandidateFault.TOO_FEW_FIELDS),
        ("candidate:" + "1" * 33 + " 1 udp 1 192.0.2.1 9 typ host", CandidateFault.BAD_FOUNDATION),
        ("candidate:a-b 1 udp 1 192.0.2.1 9 typ host", CandidateFault.BAD_FOUNDATION),
        ("candidate:1 0 udp 1 192.0.2.1 9 typ host", CandidateFault.BAD_COMPONENT),
        ("candidate:1 257 udp 1 192.0.2.1 9 typ host", CandidateFault.BAD_COMPONENT),
        ("candidate:1 1 ü 1 192.0.2.1 9 typ host", CandidateFault.BAD_TRANSPORT),
        ("candidate:1 1 udp -1 192.0.2.1 9 typ host", CandidateFault.BAD_PRIORITY),
        ("candidate:1 1 udp 4294967296 192.0.2.1 9 typ host", CandidateFault.BAD_PRIORITY),
        ("candidate:1 1 udp 1_0 192.0.2.1 9 typ host", CandidateFault.BAD_PRIORITY),
        ("candidate:1 1 udp 1 192.0.2.1 65536 typ host", CandidateFault.BAD_PORT),
        ("candidate:1 1 udp 1 192.0.2.1 ٣ typ host", CandidateFault.BAD_PORT),
        ("candidate:1 1 udp 1 a{b 9 typ host", CandidateFault.BAD_ADDRESS),
        ("candidate:1 1 udp 1 192.0.2.1 9 typ moon", CandidateFault.BAD_TYPE),
        ("candidate:1 1 udp 1 192.0.2.1 9 type host", CandidateFault.BAD_TYPE),
        ("candidate:1 1 udp 1 192.0.2.1 9 typ host tail", CandidateFault.BAD_EXTENSION),
        (
            "candidate:1 1 udp 1 192.0.2.1 9 typ srflx raddr 10.0.0.1 rport x",
            CandidateFault.BAD_PORT,
        ),
        ("candidate:1 1 udp 1 192.0.2.1 9 typ host" + " a b" * 17, CandidateFault.TOO_LONG),
        ("candidate:1 1 udp 1 192.0.2.1 9 typ host " + "x" * 2000, CandidateFault.TOO_LONG),
    ],
)
def test_refuses_what_is_no_candidate(line: str, fault: CandidateFault) -> None:
    with pytest.raises(CandidateError) as refused:
        parse_candidate(line)
    assert refused.value.fault is fault


def test_priority_formula() -> None:
    # RFC 8445 section 5.1.2.1: 2^24 x type + 2^8 x local + (256 - component)
    assert candidate_priority(CandidateType.HOST) == 126 * 2**24 + 65535 * 2**8 + 255
    assert candidate_priority(CandidateType.RELAYED, local_preference=1, component=2) == 2**8 + 254
    order = [
        candidate_priority(kind)
        for kind in (
            CandidateType.HOST,
            CandidateType.PEER_REFLEXIVE,
            CandidateType.SERVER_REFLEXIVE,
            CandidateType.RELAYED,
        )
    ]
    assert order == sorted(order, reverse=True)


def test_priority_of_a_check_keeps_the_local_preference() -> None:
    # the value that Chromium sends for its host candidate of 2122260223
    assert peer_reflexive_priority(2122260223) == (110 << 24) | (2122260223 & 0xFFFFFF)


def test_foundation_is_shared_by_equal_kind_base_and_server() -> None:
    first = host_candidate(("192.0.2.1", 1))
    assert first.foundation == host_candidate(("192.0.2.1", 2)).foundation
    assert first.foundation != host_candidate(("192.0.2.2", 1)).foundation
    reflexive = [
        make_candidate(
            CandidateType.SERVER_REFLEXIVE, ("198.51.100.1", 9), base=("192.0.2.1", 1), server=s
        )
        for s in ("stun1", "stun2")
    ]
    assert reflexive[0].foundation != reflexive[1].foundation
    assert reflexive[0].related_address == ("192.0.2.1", 1)
