"""Every kind of start costs the round trips that the protocols allow, and no more.

{1.2, 1.3} x {SPED} x {SNAP} x {passive, active} x {lite, full} x {X25519, hybrid}, nothing lost,
both ends start when the descriptions are exchanged. `derive` follows the datagrams; the literal
rows below it are the ones that people ask about, so that a slip in the derivation shows.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.scenarios.start import PLAIN, WARP, Outcome, Start, run
from tests.sim.pair import Step
from warp.dtls import DtlsVersion
from warp.stun import Attribute, MessageClass, parse_message

DTLS12, DTLS13 = DtlsVersion.DTLS12, DtlsVersion.DTLS13
STARTS = [
    Start(version=v, sped=sped, snap=snap, passive=passive, lite=lite, hybrid=hybrid)
    for v, sped, snap, passive, lite, hybrid in itertools.product(
        (DTLS12, DTLS13), (False, True), (False, True), (True, False), (True, False), (False, True)
    )
]
DATA = Attribute.META_DTLS_IN_STUN
ACKNOWLEDGEMENT = Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT
TOLERANCE = 0.02


def name(start: Start) -> str:
    return "-".join(
        [
            "1.3" if start.version is DTLS13 else "1.2",
            "sped" if start.sped else "direct",
            "snap" if start.snap else "classic",
            "passive" if start.passive else "active",
            "lite" if start.lite else "full",
            "hybrid" if start.hybrid else "x25519",
        ]
    )


def hello_arrives(start: Start, *, padded: bool = False) -> float:
    """When the DTLS server has the whole ClientHello."""
    if start.sped:
        # passive: it rides in the client's first checks, the hybrid's in two at once
        # active: a full server's own first checks carry it; a lite one sends no checks and
        #         answers with it, by response or directly
        return 1.0 if start.lite and not start.passive else 0.5
    # without SPED it needs a path first: the client's is valid at 1.0, or usable at 0.5 when a
    # full server's own check has reached it; the server's is usable at 0.5
    path = 1.0 if start.passive and start.lite else 0.5
    if (padded or (start.hybrid and start.version is DTLS13)) and not start.lite:
        # a check of 92 bytes does not entitle its address to a hello of 300, let alone 1463: the
        # sender waits for the answer to its own check (a lite active server leaves both out)
        path = 1.0
    return path + 0.5


def derive(start: Start, *, padded: bool = False) -> dict[str, float]:
    """Round trips, from the flights of RFC 9147 figure 6, RFC 6347 figure 1 and RFC 9260."""
    hello = hello_arrives(start, padded=padded)
    thirteen = start.version is DTLS13
    # 1.3: hello ▶ server's flight ▶ client done; its flight ▶ server done
    # 1.2: hello ▶ flight ▶ flight ▶ server done; its Finished ▶ client done
    dtls_client = hello + (0.5 if thirteen else 1.5)
    dtls_server = hello + 1.0
    # a 1.3 server may send what is not personal right behind its own Finished
    early = hello if thirteen and start.passive and start.early_data else dtls_server
    if start.snap:
        open_client, open_server = dtls_client, dtls_server
    else:
        # INIT ▶ INIT ACK ▶ COOKIE ECHO ▶ up; COOKIE ACK ▶ up. Both ends send INIT; that of the
        # end which may write first arrives first. Without it the DTLS client's counts.
        writes = min(dtls_server, early) if start.passive else dtls_server
        first = min(dtls_client, writes) if start.simultaneous_open else dtls_client
        starter_is_client = first == dtls_client
        starter, other = first + 2.0, first + 1.5
        open_client, open_server = (starter, other) if starter_is_client else (other, starter)
    ours_is_client = start.passive
    return {
        "server_media": early if ours_is_client else dtls_client,
        "client_media": dtls_client if ours_is_client else dtls_server,
        "channel_client": open_client if ours_is_client else open_server,
        "channel_server": open_server if ours_is_client else open_client,
    }


def close_to(figures: dict[str, float]) -> object:
    """Compare round trips."""
    return pytest.approx(figures, abs=TOLERANCE)


@pytest.mark.parametrize("start", STARTS, ids=name)
def test_round_trips(start: Start) -> None:
    assert run(start).figures == close_to(derive(start))


@pytest.mark.parametrize(
    ("start", "figures"),
    [
        (WARP, (0.5, 1.0, 1.0, 1.5)),
        (replace(WARP, hybrid=True), (0.5, 1.0, 1.0, 1.5)),
        (replace(WARP, early_data=False), (1.5, 1.0, 1.0, 1.5)),
        (replace(WARP, snap=False), (0.5, 1.0, 2.0, 2.5)),
        (replace(WARP, snap=False, early_data=False), (1.5, 1.0, 3.0, 2.5)),
        (replace(WARP, snap=False, simultaneous_open=False), (0.5, 1.0, 3.0, 2.5)),
        (replace(WARP, sped=False, snap=False), (1.5, 2.0, 3.0, 3.5)),
        (replace(WARP, sped=False), (1.5, 2.0, 2.0, 2.5)),
        (replace(WARP, passive=False), (1.5, 2.0, 2.0, 1.5)),
        (replace(WARP, lite=False), (0.5, 1.0, 1.0, 1.5)),
        (replace(WARP, lite=False, passive=False), (1.0, 1.5, 1.5, 1.0)),
        (replace(WARP, version=DTLS12), (1.5, 2.0, 2.0, 1.5)),
        (PLAIN, (2.5, 3.0, 5.0, 4.5)),
    ],
    ids=[
        "WARP", "WARP-hybrid", "no-early-data", "SPED-only", "SPED-no-early-data", "SPED-one-init",
        "1.3", "SNAP-only", "active", "full", "full-active", "1.2", "plain",
    ],
)  # fmt: skip
def test_the_rows_people_ask_about(start: Start, figures: tuple[float, ...]) -> None:
    wanted = dict(
        zip(
            ("server_media", "client_media", "channel_client", "channel_server"),
            figures,
            strict=True,
        )
    )
    assert run(start).figures == close_to(wanted)
    assert derive(start) == wanted


@pytest.mark.parametrize("rtt_s", [0.01, 0.03, 0.25, 0.6])
@pytest.mark.parametrize("hybrid", [False, True], ids=["x25519", "hybrid"])
def test_any_distance(rtt_s: float, hybrid: bool) -> None:
    """Nothing in a start waits for a timer: neither for the pace of checks nor for DTLS."""
    start = replace(WARP, hybrid=hybrid, rtt_s=rtt_s)
    assert run(start).figures == close_to(derive(start))


@pytest.mark.parametrize("start", [WARP, PLAIN], ids=["WARP", "plain"])
def test_an_announced_channel_opens_when_a_negotiated_one_does(start: Start) -> None:
    """The side that announces opens it with SCTP; the other when it hears of it."""
    figures = run(replace(start, negotiated=False)).figures
    expected = derive(start)
    expected["channel_server"] = expected["channel_client"] + 0.5
    assert figures == close_to(expected)


# what one datagram can do ---------------------------------------------------------------------


def datagrams(outcome: Outcome) -> list[Step]:
    return outcome.pair.ladder


def until(outcome: Outcome, moment: float, sender: str) -> list[Step]:
    """What one end sent in the first `moment` round trips, media aside."""
    end = outcome.first_check + moment * outcome.pair.rtt_s + 1e-6
    return [step for step in outcome.pair.sent(sender) if step.time <= end and step.kind != "rtp"]


def test_one_datagram_there_and_one_back() -> None:
    outcome = run(replace(WARP, rtt_s=0.04))  # less than the pace of checks
    [request] = until(outcome, 0.99, "client")
    check = parse_message(request.data)
    assert check.message_class is MessageClass.REQUEST
    assert check.get(ACKNOWLEDGEMENT) == b""
    hello = check.get(DATA)
    assert hello is not None
    assert hello[0] == 22 and hello[13] == 1  # a handshake record with a ClientHello
    assert 13 + int.from_bytes(hello[11:13], "big") == len(hello)  # all of it
    [answer] = until(outcome, 0.99, "server")
    response = parse_message(answer.data)
    assert response.message_class is MessageClass.SUCCESS
    flight = response.get(DATA)
    assert flight is not None
    # nothing more of the server is needed: the client is done when this datagram arrives
    assert outcome.client_media == pytest.approx(1.0, abs=TOLERANCE)
    assert outcome.pair.server.endpoint.stats()["amplification_blocked"] == 0


def test_the_hybrid_takes_two_requests_at_once() -> None:
    outcome = run(replace(WARP, hybrid=True, rtt_s=0.04))
    requests = until(outcome, 0.0, "client")
    assert len(requests) == 2
    parts = [parse_message(step.data).get(DATA) or b"" for step in requests]
    assert all(parts) and parts[0] != parts[1]
    assert all(len(step.data) <= 1220 for step in requests)
    answers = until(outcome, 0.5, "server")
    responses = [parse_message(step.data) for step in answers if step.kind == "stun"]
    direct = [step.data for step in answers if step.kind == "dtls"]
    assert len(responses) == 2
    assert len(direct) == 2
    # one response had only half a hello to answer; the other carries a part of the flight, and
    # the part that it could not carry is the first to go directly
    assert [message.get(DATA) for message in responses] == [None, direct[1]]
    assert len(responses[1].get(ACKNOWLEDGEMENT) or b"") == 8


# one side without a part --------------------------------------------------------------------


MIXES = [
    start
    for start in STARTS
    if (start.sped or start.snap) and not (start.hybrid and start.version is DTLS12)
]


def lacking(start: Start, *, at_server: bool) -> tuple[Start, Start]:
    """The start where one side lacks SPED and SNAP, and the start without them at all."""
    if at_server:
        mixed = replace(start, server_sped=False, server_snap=False)
    else:
        mixed = replace(
            start, sped=False, snap=False, server_sped=start.sped, server_snap=start.snap
        )
    return mixed, replace(start, sped=False, snap=False)


@pytest.mark.parametrize("at_server", [True, False], ids=["server-lacks", "client-lacks"])
@pytest.mark.parametrize("start", MIXES, ids=name)
def test_a_peer_without_it_costs_nothing(start: Start, at_server: bool) -> None:
    mixed, without = lacking(start, at_server=at_server)
    assert run(mixed).figures == close_to(derive(without))


def silent_about_sped(start: Start) -> Outcome:
    """The server answers with the option and then sends no attribute: found out in-band."""
    return run(replace(start, server_sped=False), answer=with_sped)


def with_sped(answer: str) -> str:
    line = "a=ice-options:trickle"
    assert line in answer
    return answer.replace(line, f"{line} sped googspedv1")


@pytest.mark.parametrize("start", [s for s in MIXES if s.sped], ids=name)
def test_an_empty_promise_costs_nothing(start: Start) -> None:
    """Off by the first message without attributes: the same bytes leave directly, at once.

    Only the padding of a hello that was made for a check may then be more than a full server's
    check has paid for.
    """
    expected = derive(replace(start, sped=False), padded=start.passive)
    assert silent_about_sped(start).figures == close_to(expected)


@pytest.mark.parametrize("start", [WARP, replace(WARP, lite=False, passive=False)], ids=name)
def test_a_peer_that_speaks_it_and_does_not_say_so_gains_it(start: Start) -> None:
    """libwebrtc before M155 does not know the option that we offer, and embeds all the same."""
    assert run(start, answer=without_sped).figures == close_to(derive(start))


def without_sped(answer: str) -> str:
    option = " sped googspedv1"
    assert option in answer
    return answer.replace(option, "")


def test_the_flight_that_nobody_answered_leaves_unchanged() -> None:
    outcome = silent_about_sped(WARP)
    [first, *_] = outcome.pair.sent("client", "stun")
    [direct, *_] = outcome.pair.sent("client", "dtls")
    assert direct.data == parse_message(first.data).get(DATA)
    assert direct.time - outcome.first_check == pytest.approx(outcome.pair.rtt_s, abs=0.005)
    later = [s for s in outcome.pair.sent("client", "stun") if s.time >= direct.time]
    assert all(parse_message(step.data).get(ACKNOWLEDGEMENT) is None for step in later)
