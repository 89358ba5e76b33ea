"""Our Internet-Draft says what the code does: its vectors, tables and figures are read and tried.

The source is kramdown-rfc; nothing of that tool is needed here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import struct
import tomllib
from base64 import b64encode
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from instant_connect import attempt as attempt_module
from instant_connect import entrance, ticket, ufrag, waiting
from instant_connect.admission import AdmissionConfig
from instant_connect.answers import Status
from instant_connect.attempt import Attempt, encode_attempt
from instant_connect.bundle import MAX_TICKETS, Bundle, SealedTicket, parse_bundle
from instant_connect.client import MARGIN_S, RACE, InstantCall, RaceInput, RaceState
from instant_connect.decisions import Answered
from instant_connect.envelope import FIRST_BYTE, TAKING, Envelope, decode_envelope, seal_envelope
from instant_connect.host import HostConfig
from instant_connect.keyring import Epoch, Keyring
from instant_connect.profile import client_init, compose_answer, make_terms, stand_in_offer
from instant_connect.reasons import InstantDiscard
from instant_connect.router import MAX_HOPS, rendezvous
from instant_connect.ticket import Grant, Route, open_ticket, seal_ticket
from instant_connect.tiers import ALLOWANCES, Tier
from instant_connect.ufrag import attach_proof, compose_ufrag, server_sctp
from tests.architecture.test_ranks import ROOT
from tests.unit.instant_connect.door import make_host
from tests.vectors import instant_connect as vector
from warp.contract import Flow
from warp.crypto import HmacSha1, hkdf_expand
from warp.errors import InvalidConfig
from warp.peer import PeerConfig, SendPermission
from warp.sctp import parse_init
from warp.stun import Attribute, MessageClass, build_message, parse_message, peek_username

DRAFT: Path = ROOT / "drafts" / "instant-connect" / "draft-warp-rtc-instant-connect-00.md"
TEXT = DRAFT.read_text()
EPOCH = Epoch(vector.KEY_ID, vector.MASTER, vector.CERTIFICATE)
RING = Keyring(vector.CELL, EPOCH)
ROUTE = Route(vector.CELL, vector.HINT, vector.REGION)
GRANT = Grant(vector.EXPIRY, vector.POLICY)
ATTEMPT = Attempt(vector.FINGERPRINT, vector.PAYLOAD_TYPE, vector.NONCE, vector.CLIENT_SCTP)
SERVER, CLIENT = ("203.0.113.1", 3478), ("192.0.2.1", 50_000)
TERMS = make_terms((SERVER, ("2001:db8::1", 3478)), PeerConfig().sctp())
CELL_FINGERPRINT = hashlib.sha256(b"cell cert").digest().hex(":").upper()


def vectors() -> dict[str, str]:
    """Every `name = value` of the draft's vectors, unfolded."""
    found: dict[str, str] = {}
    for block in re.findall(r"^~~~ test-vectors\n(.*?)^~~~$", TEXT, re.M | re.S):
        name = ""
        for line in block.splitlines():
            head, equals, value = line.partition(" = ")
            if equals:
                name = head.strip()
                assert name not in found
                found[name] = value.strip()
            else:
                found[name] += line.strip()
    return found


VECTORS = vectors()


def octets(name: str) -> bytes:
    return bytes.fromhex(VECTORS[name])


def folded(heading: str) -> str:
    """The block below a heading, whose lines are folded as in RFC 8792."""
    block = re.search(rf"^## {heading}.*?^~~~[^\n]*\n====[^\n]*\n(.*?)^~~~$", TEXT, re.M | re.S)
    assert block is not None
    return re.sub(r"\\\n +", "", block[1])


def table(anchor: str) -> list[list[str]]:
    """The rows of a table, without its head."""
    above, found, _ = TEXT.partition(f"\n{{: #{anchor} ")
    assert found, anchor
    rows = []
    for line in reversed(above.splitlines()):
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows[::-1][2:]


def layout(anchor: str) -> list[tuple[int, int, str]]:
    """Offset, size and name of the fields with a fixed place; they leave no gap."""
    fields = [
        (int(offset), int(size), name)
        for offset, size, name, *_ in table(anchor)
        if offset.isdecimal()
    ]
    for (offset, size, _), (following, _, _) in pairwise(fields):
        assert offset + size == following
    return fields


def sizes(anchor: str) -> list[int]:
    return [size for _, size, _ in layout(anchor)]


# -- vectors ---------------------------------------------------------------------------------------


def test_the_drafts_vectors_are_those_of_the_tests() -> None:
    assert octets("master") == vector.MASTER
    assert octets("ticket") == vector.TICKET
    assert VECTORS["pwd"] == vector.PASSWORD
    assert VECTORS["ufrag"] == vector.UFRAG


def test_keys_follow_from_the_master_secret() -> None:
    labels = {key: info.strip("`").encode() for key, info, *_ in table("tab-keys")}
    lengths = {key: int(length) for key, _, length, _ in table("tab-keys")}
    for key, info in labels.items():
        assert octets(key) == hkdf_expand(vector.MASTER, info, lengths[key], "sha256")
    assert octets("K_route") == EPOCH.route_key


def test_the_ticket_and_its_parts() -> None:
    parts = [octets(name) for name in ("block", "nonce", "sealed", "tag")]
    assert octets("ticket") == bytes((0x13,)) + b"".join(parts)
    assert seal_ticket(EPOCH, ROUTE, GRANT, vector.VectorEntropy()) == octets("ticket")
    draws = [hashlib.sha256(f"vec{n}".encode()).digest() for n in (1, 2, 3)]
    route = struct.pack("!HHBB10s", vector.CELL, vector.HINT, vector.REGION, 0, draws[0][:10])
    grant = struct.pack("!I8sIBB", vector.EXPIRY, draws[2][:8], vector.POLICY, 1, 0)
    assert (octets("route"), octets("nonce"), octets("grant")) == (route, draws[1][:12], grant)
    assert EPOCH.route.decrypt(octets("block")) == route
    sealed = octets("sealed") + octets("tag")
    assert EPOCH.aead.open(octets("nonce"), sealed, octets("ticket")[:17]) == grant
    password = hmac.digest(octets("K_pwd"), octets("ticket"), "sha256")[:24]
    assert VECTORS["pwd"] == b64encode(password).decode() == EPOCH.password(vector.TICKET)


def test_the_ufrag_and_what_is_derived_from_it() -> None:
    assert octets("attempt") == encode_attempt(ATTEMPT)
    assert VECTORS["ufrag"] == compose_ufrag(octets("ticket"), ATTEMPT)
    key, name = VECTORS["pwd"].encode(), VECTORS["ufrag"].encode()
    assert octets("sctp") == hmac.digest(key, b"IC1 sctp" + name, "sha256")
    tag, tsn = server_sctp(VECTORS["pwd"], VECTORS["ufrag"])
    assert octets("sctp")[:8] == struct.pack("!II", tag, tsn)
    assert f"initiate tag is 0x{tag:08x}, its initial TSN 0x{tsn:08x}" in TEXT
    proof = b64encode(hmac.digest(key, b"IC1 attach" + name, "sha256")[:24]).decode()
    assert VECTORS["proof"] == proof == attach_proof(VECTORS["pwd"], VECTORS["ufrag"])


def test_a_server_of_the_cell_answers_the_first_datagram() -> None:
    host = make_host(ring=RING, config=HostConfig(server=vector.HINT))
    host.entrance.wall_offset_s = vector.EXPIRY - 300.0
    request = octets("request")
    assert peek_username(request) == (VECTORS["ufrag"], "abcd")
    decision = host.receive_unknown(request, Flow(SERVER, CLIENT), 100.0)
    assert isinstance(decision, Answered)
    assert decision.datagram == octets("response")
    # T0: smaller than what it answers, and nothing has begun
    assert len(decision.datagram) < len(request)
    assert (host.entrance.waiting, len(host.sessions)) == (1, 0)


def test_envelopes_between_relays_and_servers() -> None:
    keys, key_id = RING.relay_keys(), vector.KEY_ID
    assert octets("K_relay") == hkdf_expand(octets("K_route"), b"IC1 relay", 32, "sha256")
    for name, datagram, is_back in (("onward", "request", False), ("back", "response", True)):
        sealed = octets(name) + octets(datagram)
        assert seal_envelope(Envelope(CLIENT, octets(datagram), key_id, is_back), keys) == sealed
        head, tag = octets(name)[:8], octets(name)[8:]
        digest = hashlib.blake2b(
            head + octets(datagram), key=octets("K_relay"), digest_size=len(tag)
        )
        assert tag == digest.digest()
    asked = decode_envelope(octets("question"), keys)
    assert asked == Envelope(("0.0.0.0", 7), b"", key_id)
    answered = decode_envelope(octets("answer"), keys)
    assert answered == Envelope(("0.0.0.0", 7), TAKING, key_id, True)
    assert [octets("onward")[0], octets("onward")[1]] == [FIRST_BYTE, key_id]
    assert re.search(rf"^\| 0 \| 1 \| {FIRST_BYTE}, which", TEXT, re.M)


def test_the_sizes_that_amplification_is_reckoned_with() -> None:
    plain = compose_ufrag(vector.TICKET, ATTEMPT._replace(sctp=None))
    key = HmacSha1(vector.PASSWORD.encode())
    username = (int(Attribute.USERNAME), f"{plain}:abcd".encode())
    least = build_message(1, MessageClass.REQUEST, bytes(12), [username], integrity_key=key)
    refusal = entrance._refusal(parse_message(least), key)
    told = [len(least), len(octets("response")), len(octets("response")) + 12, len(refusal)]
    sentence = "at least {} octets, the response {} (IPv4) or {} (IPv6), a refusal {}."
    assert sentence.format(*told) in re.sub(r"\s+", " ", TEXT)


def test_rendezvous() -> None:
    scores = {int(name[6:-1]): octets(name) for name in VECTORS if name.startswith("score")}
    block = octets("block")
    for server, score in scores.items():
        digest = hashlib.blake2b(server.to_bytes(2, "big"), key=block, digest_size=8).digest()
        assert score == digest
    best = max(scores, key=lambda server: scores[server])
    assert rendezvous(block, scores) == best
    assert f"the ticket's owner is {best} if server {vector.HINT} is not alive" in TEXT


def bundle() -> Bundle:
    return Bundle(
        tickets=(SealedTicket(vector.TICKET, vector.PASSWORD),),
        fingerprint=CELL_FINGERPRINT,
        terms=TERMS,
        issued_at=vector.EXPIRY - 600,
        expires_at=vector.EXPIRY,
        fallback="/v1/realtime/calls",
    )


def test_the_bundle() -> None:
    text = folded("Bundle")
    assert json.loads(text) == json.loads(bundle().to_json())
    assert parse_bundle(text) == bundle()


def test_the_answer() -> None:
    answer = compose_answer(
        stand_in_offer(ATTEMPT, "abcd"),
        TERMS,
        ufrag=vector.UFRAG,
        password=vector.PASSWORD,
        fingerprint=CELL_FINGERPRINT,
        attempt=ATTEMPT,
        sctp=server_sctp(vector.PASSWORD, vector.UFRAG),
    )
    assert folded("Answer").splitlines() == str(answer).splitlines()


def test_the_clients_init_is_the_one_described() -> None:
    init = parse_init(client_init((1, 2)))
    assert f"receiver window of\n{init.a_rwnd}, " in TEXT
    assert (init.outbound_streams, init.inbound_streams) == (65_535, 65_535)
    assert init.capabilities == (True, True, False, False)


# -- tables ----------------------------------------------------------------------------------------


def test_fields_are_where_the_tables_say() -> None:
    assert layout("tab-ticket")[-1][0] + sizes("tab-ticket")[-1] == ticket.TICKET_BYTES
    assert sizes("tab-ticket") == [1, ticket._ROUTE.size, 12, ticket._SEALED.size, 16]
    assert [offset for offset, *_ in layout("tab-ticket")] == [0, 1, ticket._AAD, ticket._NONCE, 47]
    assert ticket._ROUTE.format == "!HHBB10s" and sizes("tab-route") == [2, 2, 1, 1, 10]
    assert ticket._SEALED.format == "!I8sIBB" and sizes("tab-grant") == [4, 8, 4, 1, 1]
    first, *_, last = layout("tab-attempt")
    assert first[0] == ticket.TICKET_BYTES
    assert last[0] + last[1] == ticket.TICKET_BYTES + attempt_module.FIXED_BYTES + 8
    assert sizes("tab-attempt") == [1, 1, 8, attempt_module.FINGERPRINT_BYTES, 4, 4]


def test_fields_are_where_the_vectors_have_them() -> None:
    raw = octets("ticket") + octets("attempt")
    parts = {name: raw[at : at + size] for at, size, name in layout("tab-attempt")}
    assert list(parts.values()) == [
        b"\x01",
        bytes((vector.PAYLOAD_TYPE,)),
        vector.NONCE,
        vector.FINGERPRINT,
        *(number.to_bytes(4, "big") for number in vector.CLIENT_SCTP),
    ]


def test_flags() -> None:
    rows = {int(bits, 16): meaning for bits, meaning in table("tab-flags")}
    assert rows[ticket.OFFER_HELD].startswith("OFFER_HELD")
    assert sum(rows) == 0xFF
    assert f"0x{attempt_module.SNAP:02x} (SNAP)" in TEXT
    assert f"0x{attempt_module.PASSWORD:02x} (PASSWORD)" in TEXT


def test_sizes_of_ufrags() -> None:
    rows = [(int(raw), int(characters)) for _, raw, characters in table("tab-sizes")]
    plain = ATTEMPT._replace(sctp=None)
    made = [
        plain,
        ATTEMPT,
        ATTEMPT._replace(password="p" * 24),
        ATTEMPT._replace(password="p" * 51),
    ]
    for (raw, characters), each in zip(rows, made, strict=True):
        assert len(vector.TICKET + encode_attempt(each)) == raw
        assert len(compose_ufrag(vector.TICKET, each)) == characters
    assert rows[0][1] == ufrag.MIN_CHARACTERS
    assert rows[-1][1] == ufrag.MAX_CHARACTERS
    # what the draft says of checks: 40 octets beside USERNAME, and 900 of a hello
    name = rows[-1][1] + 1 + 4
    assert 40 + (name + 3 & ~3) + 900 == 1168
    assert 1168 + 20 + 24 + 8 == 1220


def test_members_of_a_bundle() -> None:
    rows = {name.strip("`"): absent.strip("`") for name, _, _, absent in table("tab-bundle")}
    whole = json.loads(bundle().to_json())
    assert list(rows) and set(rows) == set(whole)
    read = parse_bundle(json.dumps(whole))
    for name, absent in rows.items():
        left = json.dumps({key: value for key, value in whole.items() if key != name})
        if absent == "refused":
            with pytest.raises(InvalidConfig, match='"v"' if name == "v" else name):
                parse_bundle(left)
        elif absent == "not read":
            assert parse_bundle(left) == read
        else:
            assert parse_bundle(left) == with_default(read, name, absent)
    assert {name.strip("`") for name, *_ in table("tab-ticket-members")} == {"t", "pwd"}


def with_default(read: Bundle, name: str, told: str) -> Bundle:
    """The bundle as it is read when a member is absent, by what the draft tells."""
    value: Any = int(told) if told.isdecimal() else {"empty": "", "false": False}.get(told)
    if name == "setup":
        assert told == "passive"
        return read
    if name == "ice_options":
        return replace(read, terms=read.terms._replace(sped=False))
    if name in ("snap", "max_message_size"):
        return replace(read, terms=read.terms._replace(**{name: value}))
    return replace(read, **{name: value})


def test_parameters() -> None:
    limits, host = AdmissionConfig(), HostConfig()
    expected = {
        "allowance for clocks *": ticket.CLOCK_SKEW_S,
        "shortest ufrag with a ticket *": ufrag.MIN_CHARACTERS,
        "longest ufrag with a ticket *": ufrag.MAX_CHARACTERS,
        "shortest ufrag with a route *": ufrag.MIN_ROUTED_CHARACTERS,
        "most hops *": MAX_HOPS,
        "most tickets in a bundle *": MAX_TICKETS,
        "lifetime of a ticket": host.ticket_lifetime_s,
        "tickets in a bundle": host.tickets,
        "uses of a ticket": host.max_uses,
        "tickets in the replay table": host.max_tickets,
        "sessions": limits.max_sessions,
        "sessions below T3": limits.max_half_open,
        "clients at T0": limits.max_waiting,
        "clients below T3 of one address prefix": limits.max_unproven_per_prefix,
        "clients below T3 on one ticket": limits.max_unproven_per_ticket,
        "time without a request at T0": limits.waiting_s,
        "time at T0 without a ClientHello": limits.hello_s,
        "time from T1 to T3": limits.half_open_s,
        "time from T3 to T4": limits.confirm_after_s,
        "flows of a client at T0": waiting.MAX_FLOWS,
        "amplification at T1": ALLOWANCES[Tier.SHAKING].amplification,
        "records kept of an unknown flow": waiting._MAX_EARLY,
        "time that they are kept": waiting._EARLY_S,
        "flows that records are kept of": waiting._MAX_EARLY_FLOWS,
        "offers held": limits.max_held_offers,
        "time that an offer is held": limits.hold_s,
        "threshold of a flood": limits.flood_per_s,
        "unknown datagrams looked at in a flood, in all": limits.ceiling_per_s,
        "the same, of one address prefix": limits.prefix_rate_per_s,
        "burst of one address prefix": limits.prefix_burst,
        "address prefixes known in a flood": limits.max_prefixes,
        "time that a flow is handed on": entrance.HANDED_IDLE_S,
        "ticket not worth using any more": MARGIN_S,
    }
    assert {name: float(value) for name, value, *_ in table("tab-parameters")} == expected


def test_what_tiers_allow() -> None:
    media = {
        SendPermission.NONE: "none",
        SendPermission.NON_PERSONAL: "non-personal",
        SendPermission.ALL: "all",
    }
    for tier, (name, _, factor, _, allowed, admits) in zip(Tier, table("tab-tiers"), strict=True):
        allowance = ALLOWANCES[tier]
        assert name == f"T{int(tier)}"
        assert factor == str(allowance.amplification or "no limit")
        assert allowed == media[allowance.media]
        assert (admits == "yes") == allowance.admits


def test_every_fault_is_told() -> None:
    assert {name for name, *_ in table("tab-errors")} == {reason.name for reason in InstantDiscard}


def test_the_race() -> None:
    words = {
        "connected": RaceInput.CONNECTED,
        "attached": RaceInput.ATTACHED,
        "answered anew": RaceInput.NEW,
        "signaling failed": RaceInput.NO_ANSWER,
        "attempt failed": RaceInput.ENDED,
    }
    figure = TEXT.partition("## The Race")[2].partition("{: #fig-race")[0]
    told = {}
    for before, why, after in re.findall(r"^(\w+) +-- (.*?) -+> (\w+)$", figure, re.M):
        for word in why.replace(", or ", ", ").split(", "):
            state = RaceState[before.replace("SIGNALED", "SIGNALLED")]
            told[state, words[word]] = RaceState[after.replace("SIGNALED", "SIGNALLED")]
    assert told == RACE


def test_header_fields() -> None:
    call = InstantCall("", vector.UFRAG, VECTORS["proof"])
    names = set(re.findall(r"^(Instant-[A-Za-z-]+) +=", TEXT, re.M))
    assert names == {*call.headers(), "Instant-Status"}
    assert {name for name, _ in table("tab-iana")} == names
    told = re.search(r"^Instant-Status +=(.*)$", TEXT, re.M)
    assert told is not None
    # the third is told among servers only
    assert {*re.findall(r'"(\w+)"', told[1])} == {Status.NEW.value, Status.ATTACHED.value}


# -- the text --------------------------------------------------------------------------------------


def conformance() -> set[str]:
    text = (ROOT / "drafts" / "conformance" / "instant_connect.toml").read_text()
    return {item["id"] for item in tomllib.loads(text)["item"]}


def test_labels_name_items_of_the_conformance_table() -> None:
    labels = set(re.findall(r"\bIC-\d+\b", TEXT))
    assert labels <= conformance()
    cases = [name for name, *_ in table("tab-failures")]
    assert cases == [f"IC-{n}" for n in range(1, 31)]


def test_labels_stand_in_brackets_behind_their_sentences() -> None:
    body = TEXT.partition("\n--- middle\n")[2].partition("\n# Failure Cases")[0]
    labels = re.findall(r"\bIC-\d+", body)
    marked = re.findall(r"\(IC-[^()]*\)", body)
    assert all(re.fullmatch(r"\(IC-\d+(,\sIC-\d+)*\)", mark) for mark in marked)
    assert sum(mark.count("IC-") for mark in marked) == len(labels)


def test_figures_fit_a_page() -> None:
    inside, wide = False, []
    for number, line in enumerate(TEXT.splitlines(), 1):
        if line.startswith("~~~"):
            inside = not inside
        elif inside and len(line) > 69:
            wide.append(number)
    assert wide == []
    assert not inside


def test_references_within_the_text_lead_somewhere() -> None:
    anchors = re.findall(r"\{(?:: )?#([a-z0-9-]+)", TEXT)
    assert len(anchors) == len(set(anchors))
    named = set(re.findall(r"\{\{([a-z][a-z0-9-]*)\}\}", TEXT))
    assert named <= set(anchors)


def test_the_ticket_opens_until_a_minute_after_its_expiry() -> None:
    assert f"`expiry + {ticket.CLOCK_SKEW_S} >= now`" in TEXT
    last = float(vector.EXPIRY + ticket.CLOCK_SKEW_S)
    assert open_ticket(octets("ticket"), RING, last).grant == GRANT
