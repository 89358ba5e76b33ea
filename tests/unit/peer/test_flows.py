"""Known flows are few, and what strangers send is not kept."""

from __future__ import annotations

from warp.contract import Flow
from warp.peer.flows import MAX_EARLY, MAX_EARLY_BYTES, MAX_FLOWS, KnownFlows

LOCAL = ("192.0.2.1", 443)


def flow(port: int) -> Flow:
    return Flow(LOCAL, ("198.51.100.1", port))


def test_the_longest_unheard_of_goes_and_never_the_one_in_use() -> None:
    flows = KnownFlows(holds=True)
    for port in range(MAX_FLOWS):
        flows.remember(flow(port), flow(0))
    flows.remember(flow(1), flow(0))
    for port in range(100, 100 + MAX_FLOWS - 2):
        flows.remember(flow(port), flow(0))
    assert len(flows) == MAX_FLOWS
    assert flow(0) in flows and flow(1) in flows and flow(2) not in flows


def test_little_is_held_and_only_for_flows_that_become_known() -> None:
    flows = KnownFlows(holds=True)
    flows.hold(bytes(MAX_EARLY_BYTES + 1), flow(1))
    flows.hold(b"stranger", flow(2))
    for number in range(10):
        flows.hold(bytes([number]), flow(1))
    flows.remember(flow(1), None)
    kept = flows.take_early()
    assert [data for data, _ in kept] == [bytes([n]) for n in range(MAX_EARLY - 1)]
    assert flows.take_early() == []


def test_who_only_answers_holds_nothing() -> None:
    flows = KnownFlows(holds=False)
    flows.hold(b"early", flow(1))
    flows.remember(flow(1), None)
    assert flows.take_early() == []
