"""What a probe tries: a few short calls, each of which lacks something or loses something.

    everything ─┬─ by a ticket, where the server gives any
                ├─ nothing of WARP · DTLS 1.2 only · one group only · first datagram lost, each way
                └─ what it settles by itself is not tried again

Values only. Called by `run`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.errors import InvalidConfig
from warp.peer import PeerConfig

MAX_SESSIONS: Final = 7
MAX_DATAGRAMS: Final = 1500
"""Of one call, whatever happens: what a voice call sends in fifteen seconds, both directions."""
_BOTH: Final = (DtlsVersion.DTLS13, DtlsVersion.DTLS12)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeConfig:
    """Where to call, and with how much patience."""

    url: str
    token: str = field(default="", repr=False)
    host: str = ""  # bind only this local address; empty: every address of this machine
    delay_s: float = 0.05  # each datagram is kept so long, each way: round trips can be counted
    patience_s: float = 5.0  # for a call to connect
    settle_s: float = 0.4  # a call goes on so long once it is connected, for its channel and media
    consent_s: float = 6.5  # the first call goes on so long (RFC 7675 section 5.1: every 5 s)
    loss: bool = True  # also try how a lost datagram is made up for

    def __post_init__(self) -> None:
        if not 0 <= self.delay_s <= 1:
            raise InvalidConfig(f"delay_s must be 0 to 1, not {self.delay_s:g}")
        if min(self.patience_s, self.settle_s) <= 0 or self.consent_s < 0:
            raise InvalidConfig("patience_s and settle_s must be above 0, consent_s at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One call.

    `loses`: "sent" for our first datagram on each path, "received" for the server's first hello.
    """

    name: str
    what: str
    """In words, for the report."""
    warp: bool = True
    versions: tuple[DtlsVersion, ...] = _BOTH
    groups: tuple[NamedGroup, ...] | None = None
    speaks: bool = False
    """Whether it sends speech, as a caller does; else silence."""
    loses: str = ""

    def peer(self, config: ProbeConfig) -> PeerConfig:
        """Return the configuration of the calling end."""
        return PeerConfig(
            sped=self.warp,
            snap=self.warp,
            versions=self.versions,
            groups=self.groups,
            connect_timeout_s=config.patience_s,
        )


EVERYTHING: Final = Trial(name="everything", what="all that this client can", speaks=True)
PLAIN: Final = Trial(name="plain", what="without SPED and SNAP", warp=False, speaks=True)
DTLS12: Final = Trial(name="dtls12", what="DTLS 1.2 only", versions=(DtlsVersion.DTLS12,))
X25519: Final = Trial(
    name="x25519",
    what="DTLS 1.3 with X25519 only",
    versions=(DtlsVersion.DTLS13,),
    groups=(NamedGroup.X25519,),
)
HYBRID: Final = Trial(
    name="x25519mlkem768",
    what="DTLS 1.3 with X25519MLKEM768 only",
    versions=(DtlsVersion.DTLS13,),
    groups=(NamedGroup.X25519MLKEM768,),
)
INSTANT: Final = Trial(
    name="instant",
    what="by its first datagram, with a ticket",
    versions=(DtlsVersion.DTLS13,),
    speaks=True,
)
LOST_OURS: Final = Trial(
    name="lost_request", what="the client's first datagram is lost", loses="sent"
)
LOST_THEIRS: Final = Trial(
    name="lost_response", what="the server's first flight is lost", loses="received"
)


def further_trials(
    version: DtlsVersion | None, group: NamedGroup | None, *, loss: bool, instant: bool = False
) -> list[Trial]:
    """Return what is left to try, once it is known what the first call has agreed on.

    `instant`: whether the server has given a ticket; it is used before it expires.
    """
    trials = [INSTANT, PLAIN] if instant else [PLAIN]
    if version is not DtlsVersion.DTLS12:
        trials.append(DTLS12)
        # the group that was chosen is known to work
        trials += [
            trial
            for trial in (X25519, HYBRID)
            if trial.groups is not None and group not in trial.groups
        ]
    return (trials + ([LOST_OURS, LOST_THEIRS] if loss else []))[: MAX_SESSIONS - 1]
