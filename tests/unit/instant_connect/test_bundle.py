"""Bundles: what a server writes a client reads, and everything else is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from instant_connect.bundle import MAX_TEXT_BYTES, Bundle, parse_bundle
from instant_connect.host import HostConfig
from instant_connect.ticket import open_ticket
from tests.unit.instant_connect.door import CELL, NOW, RING, WALL, make_host
from warp.errors import InvalidConfig

OFFERS = "https://example.org/v1/realtime/calls"
CONFIG = HostConfig(server=6, fallback=OFFERS, dcid=7)


def bundle(**options: Any) -> Bundle:
    return make_host(config=CONFIG).bundle(NOW, **options)


def test_what_is_written_is_read() -> None:
    made = bundle(policy=5)
    assert parse_bundle(made.to_json()) == made
    assert made.expires_at - made.issued_at == 600
    assert made.refresh_after_s == 300
    assert (made.fallback, made.dcid) == (OFFERS, 7)


def test_its_tickets_open_and_have_their_passwords() -> None:
    made = bundle(policy=5, tickets=4)
    assert len(made.tickets) == 4
    for raw, password in made.tickets:
        ticket = open_ticket(raw, RING, WALL)
        assert ticket.epoch.password(raw) == password
        assert (ticket.grant.policy, ticket.grant.max_uses) == (5, 1)
        assert (ticket.route.cell, ticket.route.hint) == (CELL, 6)
    assert len({open_ticket(raw, RING, WALL).id for raw, _ in made.tickets}) == 4


def test_the_members_that_a_page_reads() -> None:
    value = json.loads(bundle().to_json())
    assert value["v"] == 1
    assert value["candidates"] == ["udp 203.0.113.1 443"]
    assert value["fingerprint"] == f"sha-256 {RING.current.certificate.fingerprint()}"
    assert (value["setup"], value["snap"]) == ("passive", True)
    assert value["ice_options"] == ["sped"]
    assert value["max_message_size"] == 262_144
    assert set(value["tickets"][0]) == {"t", "pwd"}


def test_a_printed_bundle_shows_no_secret() -> None:
    made = bundle()
    for shown in (repr(made), str(made), repr(made.tickets), repr(made.tickets[0])):
        for raw, password in made.tickets:
            assert password not in shown
            assert raw.hex() not in shown
            assert str(raw) not in shown


def damaged(**changes: Any) -> str:
    value = json.loads(bundle().to_json())
    for name, new in changes.items():
        if new is None:
            del value[name]
        else:
            value[name] = new
    return json.dumps(value)


TICKET = {"t": "A" * 84, "pwd": "p" * 32}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "JSON"),
        ("[" * 60_000, "JSON"),
        (" " * (MAX_TEXT_BYTES + 1), "at most"),
        ("[]", '"v": 1'),
        (damaged(v=2), '"v": 1'),
        (damaged(setup="active"), "setup"),
        (damaged(expires_at=None), "expires_at"),
        (damaged(expires_at=-1), "expires_at"),
        (damaged(expires_at="soon"), "expires_at"),
        (damaged(expires_at=True), "expires_at"),
        (damaged(issued_at=2**32), "issued_at"),
        (damaged(tickets=None), "tickets"),
        (damaged(tickets=[TICKET] * 17), "tickets: at most 16"),
        (damaged(tickets=[5]), "pwd"),
        (damaged(tickets=[{"t": "A" * 84}]), "pwd"),
        (damaged(tickets=[{"t": "?", "pwd": "p" * 32}]), "base64"),
        (damaged(tickets=[{"t": "A" * 80, "pwd": "p" * 32}]), "63 bytes"),
        (damaged(tickets=[{"t": "A" * 84, "pwd": "p" * 5}]), "ICE password"),
        (damaged(fingerprint="sha-1 AA"), "fingerprint"),
        (damaged(fingerprint="sha-256 " + "AA" * 32), "fingerprint"),
        (damaged(fingerprint="sha-256 zz"), "fingerprint"),
        (damaged(candidates=[]), "candidates"),
        (damaged(candidates=["tcp 203.0.113.1 443"]), "candidates"),
        (damaged(candidates=["udp host.example 443"]), "candidates"),
        (damaged(candidates=["udp 203.0.113.1 0"]), "candidates"),
        (damaged(candidates=["udp 203.0.113.1 65536"]), "candidates"),
        (damaged(candidates=["udp 203.0.113.1 " + "9" * 5000]), "candidates"),
        (damaged(candidates=[5]), "candidates"),
        (damaged(sctp_init="?"), "sctp_init"),
        (damaged(sctp_init="AAAA"), "sctp_init"),
        (damaged(dcid=65_535), "dcid"),
        (damaged(max_message_size=-1), "max_message_size"),
        (damaged(fallback=5), "fallback"),
    ],
)
def test_a_text_that_is_no_bundle_is_refused_by_name(text: str, names: str) -> None:
    with pytest.raises(InvalidConfig, match=names) as caught:
        parse_bundle(text)
    assert len(str(caught.value)) < 200


def test_what_is_unknown_is_passed_over() -> None:
    more = ["tcp 203.0.113.1 443", "udp [2001:db8::10] 3478", "quic 203.0.113.1 1"]
    read = parse_bundle(damaged(candidates=more, future={"a": 1}, fallback=None, dcid=None))
    assert [(c.host, c.port) for c in read.terms.candidates] == [("2001:db8::10", 3478)]
    assert (read.fallback, read.dcid) == ("", 4)


@pytest.mark.parametrize(
    "options",
    [{"server": 65_536}, {"tickets": 0}, {"tickets": 17}, {"ticket_lifetime_s": 0}],
)
def test_a_host_that_cannot_be_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig):
        HostConfig(**options)
