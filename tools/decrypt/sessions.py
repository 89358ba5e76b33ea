"""Which connection a datagram belongs to: by its hello, its path, or the checks on that path.

    STUN ─▶ USERNAME: two ufrags name a session, whatever addresses it uses
    ClientHello ─▶ its random names a connection, on whatever path it is seen
    everything else ─▶ the connection of its path
                         └ none: the capture began too late ─▶ secrets of the key log, on trial

Everything is bounded: what has been quiet for longest is forgotten. Called by `run` for every
datagram.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from warp.dtls.schedule13 import Exporter13
from warp.dtls.suites import SUITES13
from warp.errors import Discard
from warp.peer import Kind, classify
from warp.stun import Attribute, parse_message, split_username
from warp_tools.capture.reader import Address, Datagram
from warp_tools.decrypt.connection import Budget, Connection, Found, peek_client_random
from warp_tools.decrypt.handshake import ROLES, Handshake
from warp_tools.decrypt.keylog import EXPORTER, KeyLog, Secrets
from warp_tools.decrypt.media import MediaOpener, profiles_to_try
from warp_tools.decrypt.plain import Plain

MAX_PATHS: Final = 65_536
MAX_CONNECTIONS: Final = 10_000
MAX_TRIALS: Final = 20_000
"""Openings with secrets of which nothing says that they belong here, in a whole capture."""
TRIALS_OF_PATH: Final = 8
_HASH_NAMES: Final = {32: "sha256", 48: "sha384"}
_Path = frozenset[Address]


class Path:
    """Two addresses, or all pairs of addresses of one ICE session."""

    __slots__ = ("connection", "trials")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.trials = 0


class Sessions:
    """Every path and connection of a capture."""

    __slots__ = (
        "_budget",
        "_by_path",
        "_by_random",
        "_by_ufrags",
        "_keylog",
        "_next",
        "connections",
        "counts",
        "overflow",
        "trials",
    )

    def __init__(self, keylog: KeyLog) -> None:
        self._keylog = keylog
        self._budget = Budget()
        self._by_path: OrderedDict[_Path, Path] = OrderedDict()
        self._by_ufrags: OrderedDict[frozenset[str], Path] = OrderedDict()
        self._by_random: dict[bytes, Connection] = {}
        self._next = 1
        self.connections: list[Connection] = []
        self.overflow = 0
        """Connections beyond the limit, which were passed over."""
        self.trials = 0
        self.counts: dict[str, int] = dict.fromkeys(("stun", "dtls", "media", "cut", "other"), 0)

    def receive(self, datagram: Datagram) -> list[Found]:
        """Take in one datagram; return what it brought in the clear. Never raises."""
        data, counts = datagram.payload, self.counts
        if datagram.cut:
            counts["cut"] += 1
            return []
        kind = classify(data)
        if kind is Kind.STUN:
            return self._receive_stun(datagram)
        if kind is Kind.DTLS:
            counts["dtls"] += 1
            return self._receive_dtls(data, datagram, self._path(datagram))
        if kind in (Kind.RTP, Kind.RTCP):
            counts["media"] += 1
            return self._receive_media(datagram, self._path(datagram))
        counts["other"] += 1
        return []

    def finish(self) -> list[Found]:
        """Return what can only be said at the end; call once, after the last datagram."""
        return [one for connection in self.connections for one in connection.release_media()]

    # -- paths --------------------------------------------------------------------------------

    def _path(self, datagram: Datagram) -> Path:
        key = frozenset((datagram.source, datagram.destination))
        path = self._by_path.get(key)
        if path is None:
            path = self._by_path[key] = Path()
            if len(self._by_path) > MAX_PATHS:
                self._by_path.popitem(last=False)
        else:
            self._by_path.move_to_end(key)
        return path

    def _receive_stun(self, datagram: Datagram) -> list[Found]:
        try:
            message = parse_message(datagram.payload)
        except Discard:
            self.counts["other"] += 1
            return []
        self.counts["stun"] += 1
        path = self._path(datagram)
        names = split_username(message.get(Attribute.USERNAME) or b"")
        if names is not None:
            path = self._join(frozenset(names), path, datagram)
        found: list[Found] = [Plain(datagram, "stun-udp", datagram.payload)]
        rider = message.get(Attribute.META_DTLS_IN_STUN)
        if rider:
            self.counts["dtls"] += 1
            found += self._receive_dtls(rider, datagram, path)
        return found

    def _join(self, ufrags: frozenset[str], path: Path, datagram: Datagram) -> Path:
        """Let all paths that are checked with the same ufrags be one."""
        known = self._by_ufrags.setdefault(ufrags, path)
        self._by_ufrags.move_to_end(ufrags)
        if len(self._by_ufrags) > MAX_PATHS:
            self._by_ufrags.popitem(last=False)
        if known is path:
            return path
        if path.connection is not None and known.connection is not path.connection:
            # an ICE restart, or the first connection that these ufrags lead to
            self._by_ufrags[ufrags] = path
            return path
        self._by_path[frozenset((datagram.source, datagram.destination))] = known
        return known

    # -- connections --------------------------------------------------------------------------

    def _receive_dtls(self, data: bytes, datagram: Datagram, path: Path) -> list[Found]:
        client_random = peek_client_random(data)
        if client_random is not None:
            self._meet(client_random, path)
        elif path.connection is None or path.connection.handshake.suite is None:
            self._try_dtls(data, path)
        connection = path.connection
        if connection is None:
            connection = path.connection = self._begin()
        return connection.receive_dtls(data, datagram) if connection is not None else []

    def _receive_media(self, datagram: Datagram, path: Path) -> list[Found]:
        connection = path.connection
        if connection is None:
            self._try_media(datagram.payload, path)
            connection = path.connection
        if connection is None:
            connection = path.connection = self._begin()
        return connection.receive_media(datagram) if connection is not None else []

    def _meet(self, client_random: bytes, path: Path) -> None:
        """Lead the path to the connection of this ClientHello."""
        known = self._by_random.get(client_random)
        present = path.connection
        if known is not None:
            path.connection = known
            return
        if present is None or present.handshake.client_random:
            path.connection = present = self._begin()
        if present is not None:
            present.handshake.client_random = client_random
            self._by_random[client_random] = present

    def _begin(self) -> Connection | None:
        if len(self.connections) >= MAX_CONNECTIONS:
            self.overflow += 1
            return None
        connection = Connection(self._next, self._keylog.find, self._budget)
        self._next += 1
        self.connections.append(connection)
        return connection

    # -- a capture that began too late --------------------------------------------------------

    def _candidates(self, path: Path) -> Iterator[tuple[bytes, Secrets, int]]:
        """Yield secrets with each suite that they may belong to, while trials last."""
        if path.trials >= TRIALS_OF_PATH:
            return
        path.trials += 1
        named = path.connection.handshake.client_random if path.connection is not None else b""
        if named:
            known = self._keylog.find(named)
            pool = iter(((named, known),)) if known is not None else iter(())
        else:
            pool = self._keylog.connections()
        for client_random, secrets in pool:
            sizes = {len(secret) for secret in secrets.values()}
            for suite, parameters in SUITES13.items():
                if {_HASH_NAMES.get(size) for size in sizes} != {parameters.hash_name}:
                    continue
                if self.trials >= MAX_TRIALS:
                    return
                self.trials += 1
                yield client_random, secrets, suite

    def _try_dtls(self, data: bytes, path: Path) -> None:
        """Find the secrets that open a protected record of DTLS 1.3 whose hellos are missing."""
        if data[0] >> 5 != 1:
            return
        for client_random, secrets, suite in self._candidates(path):
            for role in ROLES:
                trial = Handshake(self._keylog.find)
                trial.adopt(client_random, secrets, suite)
                if any(record.epoch for record in trial.receive(data, role)):
                    connection = self._claim(path, client_random)
                    if connection is not None and connection.handshake.suite is None:
                        connection.handshake.adopt(client_random, secrets, suite)
                    return

    def _try_media(self, data: bytes, path: Path) -> None:
        """Find the secrets that open media whose handshake is missing."""
        for client_random, secrets, suite in self._candidates(path):
            exporter = secrets.get(EXPORTER)
            if exporter is None:
                continue
            hash_name = SUITES13[suite].hash_name
            opener = MediaOpener(Exporter13(exporter, hash_name), profiles_to_try(None))
            if opener.receive(data, ROLES) is not None:
                connection = self._claim(path, client_random)
                if connection is not None and connection.handshake.exporter is None:
                    connection.handshake.adopt_exporter(client_random, secrets, hash_name)
                return

    def _claim(self, path: Path, client_random: bytes) -> Connection | None:
        """Give the path the connection with this random: another path's, its own, or a new one."""
        connection = self._by_random.get(client_random) or path.connection or self._begin()
        if connection is not None:
            path.connection = connection
            self._by_random[client_random] = connection
        return connection
