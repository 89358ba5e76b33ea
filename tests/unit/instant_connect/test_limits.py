"""Token buckets: bursts, the long run, and clients that are many."""

from __future__ import annotations

import pytest

from instant_connect.limits import RateLimit, address_key, token_key
from warp.errors import InvalidConfig

NOW = 100.0


def test_a_burst_passes_and_then_the_rate_counts() -> None:
    limit = RateLimit(2.0, 3)
    assert [limit.wait_s("a", NOW) for _ in range(3)] == [0.0] * 3
    assert limit.wait_s("a", NOW) == pytest.approx(0.5)
    assert limit.wait_s("b", NOW) == 0.0
    assert limit.wait_s("a", NOW + 0.4) == pytest.approx(0.1)
    assert limit.wait_s("a", NOW + 0.5) == 0.0
    assert limit.wait_s("a", NOW + 0.5) == pytest.approx(0.5)
    # a pause fills the bucket, and no more than that
    assert [limit.wait_s("a", NOW + 1e6) for _ in range(4)].count(0.0) == 3


def test_many_clients_are_not_remembered_for_ever() -> None:
    limit = RateLimit(1.0, 1, capacity=10)
    for number in range(1_000):
        assert limit.wait_s(str(number), NOW) == 0.0
    assert len(limit) == 10
    assert limit.wait_s("999", NOW) > 0


def test_a_host_of_ipv6_is_one_client_whatever_its_address() -> None:
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff:2")
    assert address_key("2001:db8::1") != address_key("2001:db8:0:1::1")
    assert address_key("192.0.2.1") == "192.0.2.1"
    assert address_key("") == ""
    assert address_key("testclient") == "testclient"


def test_a_token_is_not_kept() -> None:
    assert "secret" not in token_key("Bearer secret")
    assert token_key("Bearer secret") == token_key("Bearer secret") != token_key("Bearer other")


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (1.0, 0), (float("nan"), 1)])
def test_what_is_no_rate(rate: float, burst: int) -> None:
    with pytest.raises(InvalidConfig):
        RateLimit(rate, burst)
