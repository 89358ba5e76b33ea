"""The rows of the matrix, as one table.

Names say who offers: `peer-` and `we-`. Unless a row says otherwise, all of WARP is on at our end,
and the peer is as it comes: whatever both know is used.
"""

from __future__ import annotations

from functools import partial

from interop.matrix.scenario import MEASURED_RTT_S, Scenario, Used
from interop.peers.peer import Capability, Wants
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.io import WarpOptions

_C = Capability
_DTLS12 = (DtlsVersion.DTLS12,)
_CLASSICAL = (NamedGroup.X25519, NamedGroup.SECP256R1)
_PLAIN = WarpOptions(sped=False, snap=False, versions=_DTLS12, groups=_CLASSICAL)
_ONLY_DTLS13 = WarpOptions(sped=False, snap=False, groups=_CLASSICAL)
_ONLY_SPED = WarpOptions(snap=False, groups=_CLASSICAL)
_ONLY_SNAP = WarpOptions(sped=False, groups=_CLASSICAL)
_WARP = WarpOptions(groups=_CLASSICAL)
_TO_ALL = Wants(sped=True, snap=True, pq=False)


_start = partial(Scenario, group="starts", play="start")

STARTS = (
    _start(name="peer-offers, lite, passive", core=True),
    _start(name="peer-offers, lite, active", passive=False),
    _start(name="peer-offers, full, passive", lite=False),
    _start(name="peer-offers, full, active", lite=False, passive=False),
    _start(name="we-offer, peer active", peer_offers=False, setup="active", core=True),
    _start(
        name="we-offer, peer passive",
        peer_offers=False,
        setup="passive",
        needs=(_C.SETUP_PASSIVE,),
    ),
    _start(name="PQ on", wants=Wants(pq=True), needs=(_C.DTLS13, _C.PQ), used=(Used.HYBRID,)),
    _start(
        name="PQ off",
        wants=Wants(pq=False),
        ours=WarpOptions(groups=_CLASSICAL),
        used=(Used.CLASSICAL,),
    ),
    _start(name="DTLS 1.3", needs=(_C.DTLS13,), used=(Used.DTLS13,)),
    _start(
        name="DTLS 1.2 only, peer-offers",
        ours=WarpOptions(versions=_DTLS12),
        needs=(_C.DTLS12,),
        used=(Used.DTLS12,),
    ),
    _start(
        name="DTLS 1.2 only, we-offer",
        peer_offers=False,
        ours=WarpOptions(versions=_DTLS12),
        needs=(_C.DTLS12,),
        used=(Used.DTLS12,),
    ),
)


_measured = partial(
    Scenario, group="WARP", play="start", rtt_s=MEASURED_RTT_S, tries=2, limit_s=180.0
)

PLAIN_PEER = "plain, peer-offers"
PLAIN_US = "plain, we-offer"

WARP = (
    _measured(name=PLAIN_PEER, ours=_PLAIN, needs=(_C.DTLS12,), used=(Used.NO_SPED, Used.NO_SNAP)),
    _measured(
        name=PLAIN_US,
        peer_offers=False,
        ours=_PLAIN,
        needs=(_C.DTLS12,),
        used=(Used.NO_SPED, Used.NO_SNAP),
    ),
    _measured(
        name="only DTLS 1.3",
        ours=_ONLY_DTLS13,
        wants=_TO_ALL,
        needs=(_C.DTLS13,),
        used=(Used.DTLS13, Used.NO_SPED, Used.NO_SNAP),
    ),
    _measured(
        name="only SPED",
        ours=_ONLY_SPED,
        wants=Wants(sped=True, pq=False),
        needs=(_C.SPED,),
        used=(Used.SPED, Used.NO_SNAP),
    ),
    _measured(
        name="only SNAP",
        ours=_ONLY_SNAP,
        wants=Wants(snap=True, pq=False),
        needs=(_C.SNAP,),
        used=(Used.NO_SPED, Used.SNAP),
        not_above=PLAIN_PEER,
    ),
    _measured(
        name="DTLS 1.3 and SNAP",
        ours=_ONLY_SNAP,
        wants=Wants(snap=True, pq=False),
        needs=(_C.DTLS13, _C.SNAP),
        used=(Used.DTLS13, Used.NO_SPED, Used.SNAP),
        not_above=PLAIN_PEER,
    ),
    _measured(
        name="all of WARP, peer-offers",
        ours=_WARP,
        wants=_TO_ALL,
        needs=(_C.DTLS13, _C.SPED, _C.SNAP),
        used=(Used.DTLS13, Used.SPED, Used.SNAP),
        as_reference=True,
        core=True,
    ),
    _measured(
        name="all of WARP, we-offer",
        peer_offers=False,
        setup="active",
        ours=_WARP,
        wants=_TO_ALL,
        needs=(_C.DTLS13, _C.SPED, _C.SNAP),
        used=(Used.DTLS13, Used.SPED, Used.SNAP),
        as_reference=True,
    ),
    _measured(
        name="WARP offered to a plain peer, peer-offers",
        wants=Wants(pq=False),
        used=(Used.NO_SPED, Used.NO_SNAP),
        not_above=PLAIN_PEER,
        core=True,
    ),
    _measured(
        name="WARP offered to a plain peer, we-offer",
        peer_offers=False,
        needs=(_C.NO_SNAP,),
        wants=Wants(pq=False),
        used=(Used.NO_SPED, Used.NO_SNAP),
        not_above=PLAIN_US,
    ),
)

AUDIO = (
    Scenario(
        name="speech both ways, peer-offers",
        group="audio",
        play="speech",
        audio=True,
        needs=(_C.AUDIO,),
        core=True,
    ),
    Scenario(
        name="speech both ways, we-offer",
        group="audio",
        play="speech",
        audio=True,
        peer_offers=False,
        needs=(_C.AUDIO,),
    ),
    Scenario(
        name="speech beside video that we refuse",
        group="audio",
        play="speech_beside_video",
        audio=True,
        video=True,
        needs=(_C.AUDIO, _C.VIDEO),
    ),
)


_channel = partial(Scenario, group="channels")

CHANNELS = (
    _channel(name="DCEP channel from us", play="dcep_ours", core=True),
    _channel(name="DCEP channel from the peer", play="dcep_theirs", core=True),
    _channel(name="empty messages each way", play="empty", needs=(_C.EMPTY,)),
    _channel(name="1 MB message each way", play="megabyte"),
    _channel(name="largest message that both take", play="largest"),
    _channel(name="10,000 small messages each way", play="flood", count=10_000, limit_s=180),
    _channel(name="unordered channel", play="unordered", needs=(_C.UNORDERED,), count=200),
    _channel(name="lossy channel, 10 % loss", play="lossy", needs=(_C.LOSSY,), loss=0.1, count=300),
    _channel(
        name="channel closed by us", play="close_channel_ours", needs=(_C.TELLS_CHANNEL_CLOSE,)
    ),
    _channel(name="channel closed by the peer", play="close_channel_theirs"),
)


_change = partial(Scenario, group="changes")

CHANGES = (
    _change(
        name="ICE restart by the peer, lite",
        play="restart_theirs",
        needs=(_C.RESTART, _C.RESTART_TO_LITE),
        core=True,
    ),
    _change(
        name="ICE restart by the peer, full", play="restart_theirs", needs=(_C.RESTART,), lite=False
    ),
    _change(
        name="ICE restart by us", play="restart_ours", peer_offers=False, needs=(_C.RESTARTED,)
    ),
    _change(
        name="offer again, from the peer", play="reoffer_theirs", needs=(_C.REOFFER,), core=True
    ),
    _change(
        name="offer again, from us", play="reoffer_ours", peer_offers=False, needs=(_C.REANSWER,)
    ),
    _change(
        name="audio added by the peer",
        play="late_audio",
        needs=(_C.AUDIO, _C.REOFFER, _C.LATE_AUDIO),
    ),
    _change(name="the peer's address changes, lite", play="peer_moves", limit_s=90),
    _change(name="the peer's address changes, full", play="peer_moves", lite=False, limit_s=90),
    _change(
        name="our address changes", play="we_move", peer_offers=False, needs=(_C.MOVES,), limit_s=90
    ),
)

NETWORK = (
    Scenario(
        name="5 % loss each way, 200 messages",
        group="network",
        play="flood",
        loss=0.05,
        count=200,
        pad=1000,
        limit_s=90,
    ),
    Scenario(
        name="200 starts at 10 % loss",
        group="network",
        play="many_starts",
        loss=0.1,
        count=200,
        limit_s=2400,
    ),
    Scenario(
        name="30 s idle, consent checks",
        group="network",
        play="idle",
        needs=(_C.CONSENT,),
        count=31,
        limit_s=120,
    ),
)

ENDING = (
    Scenario(name="we close", group="ending", play="we_close", needs=(_C.HEARS_END,), core=True),
    Scenario(
        name="the peer closes", group="ending", play="peer_closes", needs=(_C.TELLS_END,), core=True
    ),
)

SCENARIOS: tuple[Scenario, ...] = (
    *STARTS, *WARP, *AUDIO, *CHANNELS, *CHANGES, *NETWORK, *ENDING,
)  # fmt: skip
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
SLOW = ("200 starts at 10 % loss", "30 s idle, consent checks")
"""Left out of `--fast`, whatever else it does."""
