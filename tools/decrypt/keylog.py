"""The key log: secrets by client random, in the lines that NSS defined (SSLKEYLOGFILE).

    LABEL <client random, hex> <secret, hex>        # and comments

Read once, line by line; every tool that can write one is understood (browsers, OpenSSL, BoringSSL,
`warp` itself). A line that belongs to another protocol is passed over, a line that is broken is
counted: a key log that was cut while it was written still serves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from warp_tools.failure import CommandRefused

Secrets: TypeAlias = dict[str, bytes]
"""Secret by label, of one connection."""

MASTER: Final = "CLIENT_RANDOM"
EXPORTER: Final = "EXPORTER_SECRET"
CLIENT_HANDSHAKE: Final = "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
SERVER_HANDSHAKE: Final = "SERVER_HANDSHAKE_TRAFFIC_SECRET"
CLIENT_TRAFFIC: Final = "CLIENT_TRAFFIC_SECRET_0"
SERVER_TRAFFIC: Final = "SERVER_TRAFFIC_SECRET_0"

LABELS: Final = frozenset(
    {MASTER, EXPORTER, CLIENT_HANDSHAKE, SERVER_HANDSHAKE, CLIENT_TRAFFIC, SERVER_TRAFFIC}
)
# written by some tools without the number
_ALIASES: Final = {
    "CLIENT_TRAFFIC_SECRET": CLIENT_TRAFFIC,
    "SERVER_TRAFFIC_SECRET": SERVER_TRAFFIC,
}
_LINE: Final = re.compile(r"([A-Z0-9_]+)[ \t]+([0-9a-fA-F]{64})[ \t]+([0-9a-fA-F]{64,128})\s*")
_LABEL: Final = re.compile(r"[A-Z0-9_]+[ \t]")
_SECRET_BYTES: Final = (32, 48)
MAX_LINE: Final = 4096
_CHUNK: Final = 1 << 20
MAX_CONNECTIONS: Final = 200_000
"""About 150 MB of secrets; a log with more is the log of another thing than a capture."""


class KeyLog:
    """What a key log holds; `lines` were of use, `broken` ones were not."""

    __slots__ = ("_secrets", "broken", "first_broken", "lines")

    def __init__(self) -> None:
        self._secrets: dict[bytes, Secrets] = {}
        self.lines = 0
        self.broken = 0
        self.first_broken = 0
        """Number of the first line that was broken, from 1."""

    def __len__(self) -> int:
        return len(self._secrets)

    def find(self, client_random: bytes) -> Secrets | None:
        """Return the secrets of the connection with this ClientHello.random, or None."""
        return self._secrets.get(client_random)

    def connections(self) -> Iterator[tuple[bytes, Secrets]]:
        """Iterate over client randoms and their secrets."""
        return iter(self._secrets.items())

    def add_line(self, line: str, number: int) -> None:
        """Take in one line."""
        text = line.strip()
        if not text or text.startswith("#"):
            return
        found = _LINE.fullmatch(text)
        if found is None or len(found[3]) // 2 not in _SECRET_BYTES or len(found[3]) % 2:
            if not self._is_of_others(text):
                self.broken += 1
                self.first_broken = self.first_broken or number
            return
        label = _ALIASES.get(found[1], found[1])
        if label not in LABELS:
            return
        self.lines += 1
        if len(self._secrets) < MAX_CONNECTIONS or bytes.fromhex(found[2]) in self._secrets:
            self._secrets.setdefault(bytes.fromhex(found[2]), {})[label] = bytes.fromhex(found[3])

    @staticmethod
    def _is_of_others(text: str) -> bool:
        """Tell whether a line names something that is no connection of DTLS (e.g. `RSA`)."""
        name = _LABEL.match(text)
        return name is not None and name[0].strip() not in LABELS | set(_ALIASES)


def read_keylog(path: Path) -> KeyLog:
    """Read a key log. Raises ToolFailure, one line, when it cannot be read or holds no secret."""
    log = KeyLog()
    try:
        # some editors put a mark in front of the first line
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            number = 0
            while line := lines.readline(MAX_LINE):
                number += 1
                log.add_line(line, number)
                while len(line) >= MAX_LINE and not line.endswith("\n"):
                    line = lines.readline(_CHUNK)  # the rest of a line that is none of ours
    except OSError as error:
        raise CommandRefused(f"cannot read the key log {path}: {error.strerror}") from error
    if not len(log):
        what = f"line {log.first_broken} is broken" if log.broken else "it is empty"
        raise CommandRefused(
            f"{path} holds no secret of a DTLS connection ({what}): a key log has lines of "
            "LABEL, client random and secret, as SSLKEYLOGFILE makes programs write them"
        )
    return log
