"""How the decryption of each connection went, and why what stayed shut stayed shut.

Called by `run` at the end. The verdicts are stable words (`--json`), the reasons are sentences that
name what is missing and what would help.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from warp.dtls import DtlsRole, DtlsVersion
from warp.dtls.suites import SUITES12, SUITES13
from warp.srtp import SrtpProfile
from warp_tools.capture.finding import several
from warp_tools.capture.reader import Address
from warp_tools.decrypt.connection import Connection
from warp_tools.decrypt.keylog import (
    CLIENT_HANDSHAKE,
    CLIENT_TRAFFIC,
    EXPORTER,
    MASTER,
    SERVER_HANDSHAKE,
    SERVER_TRAFFIC,
)
from warp_tools.decrypt.plain import SIDES

VERSIONS: Final = {DtlsVersion.DTLS12: "1.2", DtlsVersion.DTLS13: "1.3"}
RECORDS: Final = frozenset({CLIENT_HANDSHAKE, SERVER_HANDSHAKE, CLIENT_TRAFFIC, SERVER_TRAFFIC})
_SHOWN_RANDOM: Final = 8


class Verdict(enum.Enum):
    """What became of one connection."""

    OPENED = "opened"
    PARTLY = "partly opened"
    SHUT = "shut"
    CLEAR = "nothing protected"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One connection in the end."""

    connection: Connection

    @property
    def opened(self) -> int:
        """Protected records and media packets that were opened."""
        media = self.connection.media
        records = sum(side.opened for side in self.connection.handshake.sides.values())
        return records + (media.opened if media is not None else 0)

    @property
    def shut_records(self) -> int:
        """Protected records that stayed shut."""
        sides = self.connection.handshake.sides.values()
        return sum(side.shut for side in sides) + self.connection.strangers

    @property
    def shut_media(self) -> int:
        """Packets of media that stayed shut."""
        connection = self.connection
        shut = connection.media.shut if connection.media is not None else 0
        return shut + connection.waiting + connection.lost_media

    @property
    def _records_opened(self) -> bool:
        return any(side.opened for side in self.connection.handshake.sides.values())

    @property
    def _media_opened(self) -> bool:
        media = self.connection.media
        return media is not None and media.opened > 0

    @property
    def verdict(self) -> Verdict:
        """What became of it."""
        shut = self.shut_records + self.shut_media
        if not self.opened:
            return Verdict.SHUT if shut else Verdict.CLEAR
        return Verdict.PARTLY if shut else Verdict.OPENED

    def reasons(self) -> list[str]:
        """Return why anything stayed shut, one sentence each."""
        handshake = self.connection.handshake
        name = handshake.client_random[:_SHOWN_RANDOM].hex()
        if self.verdict in (Verdict.OPENED, Verdict.CLEAR):
            return []
        if not handshake.client_random:
            return [
                "its ClientHello is not in the capture, and no secret of the key log fits: "
                "begin the capture before the call, or add the right key log"
            ]
        if handshake.secrets is None and not self.opened:
            if handshake.version is None:
                return ["its ServerHello is not in the capture, so that its cipher is not known"]
            return [f"the key log has no line for client random {name}…: it is of another call"]
        return self._partial_reasons(name)

    def _partial_reasons(self, name: str) -> list[str]:
        handshake, found = self.connection.handshake, []
        is_13 = handshake.version is not DtlsVersion.DTLS12
        suites = SUITES13 if is_13 else SUITES12
        labels = handshake.secrets or {}
        if self.shut_records:
            if handshake.suite is not None and handshake.suite not in suites:
                found.append(f"cipher suite 0x{handshake.suite:04X} is none that can be opened")
            elif missing := _missing(labels) if is_13 else []:
                found.append(
                    f"the key log has no {' and no '.join(missing)} for client random {name}…: "
                    f"{_stay(self.shut_records)} shut"
                )
            elif self._records_opened:
                found.append(
                    f"{several(self.shut_records, 'record')} did not open: damaged, or keys came "
                    "too late in the capture"
                )
            elif not is_13 and self._media_opened:
                found.append(
                    f"the {MASTER} in the key log for client random {name}… fits, for media opened "
                    f"with it; {several(self.shut_records, 'record')} did not: damaged or cut"
                )
            else:
                wanted = "traffic secrets" if is_13 else MASTER
                found.append(f"the {wanted} in the key log for client random {name}… do not fit")
        if self.shut_media:
            if is_13 and EXPORTER not in labels:
                found.append(f"the key log has no {EXPORTER}, which the keys of media come from")
            elif not self._media_opened:
                found.append("the keys of media that follow from the key log do not fit")
            else:
                found.append(f"{several(self.shut_media, 'packet')} of media did not open")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        connection = self.connection
        handshake, media = connection.handshake, connection.media
        suites = {**SUITES12, **SUITES13}
        profile = media.profile if media is not None else None
        return {
            "connection": connection.number,
            "client": _address(connection.client),
            "server": _address(connection.server),
            "client_random": handshake.client_random.hex() or None,
            "dtls_version": VERSIONS[handshake.version] if handshake.version else None,
            "suite": _suite_name(handshake.suite, suites),
            "srtp_profile": profile.name if profile else _profile_name(handshake.srtp_profile),
            "verdict": self.verdict.value,
            "reasons": self.reasons(),
            "records": {
                **{SIDES[role]: side.opened for role, side in handshake.sides.items()},
                "shut": self.shut_records,
                "repeated": sum(side.repeated for side in handshake.sides.values()),
            },
            "media": {
                "opened": media.opened if media is not None else 0,
                "shut": self.shut_media,
                "repeated": media.repeated if media is not None else 0,
            },
            "sctp_packets": connection.data.packets,
            "messages": connection.said,
        }


def _stay(count: int) -> str:
    return f"{several(count, 'record')} {'stays' if count == 1 else 'stay'}"


def _missing(labels: Iterable[str]) -> list[str]:
    """Return the secrets of DTLS 1.3's records that a key log should hold and does not."""
    missing = RECORDS - set(labels)
    return ["traffic secrets"] if missing == RECORDS else sorted(missing)


def _address(address: Address | None) -> str | None:
    if address is None:
        return None
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _suite_name(suite: int | None, known: dict[int, Any]) -> str | None:
    if suite is None:
        return None
    named = next((key for key in known if key == suite), None)
    return getattr(named, "name", f"0x{suite:04X}")


def _profile_name(profile: int | None) -> str | None:
    try:
        return None if profile is None else SrtpProfile(profile).name
    except ValueError:
        return f"0x{profile:04X}"


def both_sides(outcome: Outcome) -> str:
    """Return the addresses of a connection, as a person reads them."""
    client, server = (
        _address(getattr(outcome.connection, SIDES[role])) or "unknown"
        for role in (DtlsRole.CLIENT, DtlsRole.SERVER)
    )
    return f"{client} → {server}"
