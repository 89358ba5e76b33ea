"""The keys of a cell, by epoch: a master secret and the certificate that goes with it.

    master ─ HKDF-Expand (RFC 5869) ─┬─ "IC1 route"    16 ─▶ route block     shared with relays
                                     │    └ "IC1 relay" 32 ─▶ envelopes       the same
                                     ├─ "IC1 ticket"   16 ─▶ ticket AEAD     servers of the cell
                                     └─ "IC1 ice-pwd"  32 ─▶ ICE passwords   servers of the cell

All servers of a cell have the same text (`Keyring.to_text`), and nothing else in common. A ticket
opens under the present epoch, the one before, and the one to come, which is handed out to every
server before anybody seals with it. Sessions outlive their epoch: they hold what was derived, and
of epochs that are over the route keys are kept, so that a session which moves is still found.
Key ids have four bits; of sixteen epochs in a row no two share one.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from warp.crypto import Aead, AeadKind, BlockCipher, Certificate, HmacSha256, hkdf_expand
from warp.entropy import Entropy
from warp.errors import InvalidConfig

MASTER_BYTES: Final = 32
KEY_IDS: Final = 16
_FORMAT: Final = 1
_PASSWORD_BYTES: Final = 24
_NAMES: Final = ("current", "previous", "upcoming")


class Epoch:
    """One master secret with what follows from it, and the cell's identity of that time."""

    __slots__ = ("_master", "_password", "aead", "certificate", "envelope", "key_id", "route")

    def __init__(self, key_id: int, master: bytes, certificate: Certificate) -> None:
        """Derive the keys. Raises `InvalidConfig` for an id or a secret of a wrong size."""
        if not 0 <= key_id < KEY_IDS:
            raise InvalidConfig(f"a key id is 0..{KEY_IDS - 1}, not {key_id}")
        if len(master) != MASTER_BYTES:
            raise InvalidConfig(f"a master secret has {MASTER_BYTES} bytes, not {len(master)}")
        self._master: Final = master
        self.key_id: Final = key_id
        self.certificate: Final = certificate
        self.route: Final = BlockCipher(self.route_key)
        self.envelope: Final = _envelope_key(self.route_key)
        self.aead: Final = Aead(
            AeadKind.AES_128_GCM, hkdf_expand(master, b"IC1 ticket", 16, "sha256")
        )
        self._password: Final = HmacSha256(hkdf_expand(master, b"IC1 ice-pwd", 32, "sha256"))

    @classmethod
    def generate(cls, key_id: int, entropy: Entropy, wall_s: float) -> Epoch:
        """Return fresh keys and a fresh certificate; `wall_s` is seconds since 1970."""
        master = entropy.random_bytes(MASTER_BYTES)
        return cls(key_id, master, Certificate.generate(entropy, wall_s))

    def password(self, ticket: bytes) -> str:
        """Return the ICE password that belongs to the 63 bytes of a ticket: 32 ice-chars."""
        return b64encode(self._password.digest(ticket)[:_PASSWORD_BYTES]).decode("ascii")

    @property
    def route_key(self) -> bytes:
        """What a relay needs of this epoch: 16 bytes that read routes and open nothing."""
        return hkdf_expand(self._master, b"IC1 route", 16, "sha256")

    def to_json(self) -> dict[str, Any]:
        """Return the epoch as JSON values, secrets included."""
        certificate, key = self.certificate.to_pem()
        return {
            "key_id": self.key_id,
            "master": b64encode(self._master).decode("ascii"),
            "certificate": certificate.decode("ascii"),
            "private_key": key.decode("ascii"),
        }

    def __repr__(self) -> str:
        return f"<Epoch {self.key_id}>"


class Keyring:
    """The epochs that a cell accepts. Never changes: `stage` and `rotate` return another."""

    __slots__ = ("_by_id", "_retired", "_routes", "cell", "current", "previous", "upcoming")

    def __init__(
        self,
        cell: int,
        current: Epoch,
        previous: Epoch | None = None,
        upcoming: Epoch | None = None,
        retired: Mapping[int, bytes] | None = None,
    ) -> None:
        """`retired` are route keys of epochs that are over, by key id.

        Raises `InvalidConfig` when two epochs share a key id.
        """
        if not 0 <= cell < 0x10000:
            raise InvalidConfig(f"a cell is a number of 16 bits, not {cell}")
        epochs = [epoch for epoch in (current, previous, upcoming) if epoch is not None]
        self._by_id: Final = {epoch.key_id: epoch for epoch in epochs}
        if len(self._by_id) != len(epochs):
            raise InvalidConfig("two epochs of a keyring have the same key id")
        over = {k: key for k, key in (retired or {}).items() if k not in self._by_id}
        self._retired: Final = over
        self._routes: Final[dict[int, RouteKey | Epoch]] = {
            **{key_id: RouteKey(key) for key_id, key in over.items()},
            **self._by_id,
        }
        self.cell: Final = cell
        self.current: Final = current
        self.previous: Final = previous
        self.upcoming: Final = upcoming

    @classmethod
    def generate(cls, entropy: Entropy, wall_s: float, *, cell: int = 1) -> Keyring:
        """Return a keyring with one fresh epoch; `wall_s` is seconds since 1970."""
        return cls(cell, Epoch.generate(0, entropy, wall_s))

    def find(self, key_id: int) -> Epoch | None:
        """Return the epoch of a key id, or None."""
        return self._by_id.get(key_id)

    def find_route(self, key_id: int) -> RouteKey | Epoch | None:
        """Return what reads the routes of a key id, also of an epoch that is over, or None."""
        return self._routes.get(key_id)

    def next_key_id(self) -> int:
        """Return the id for the epoch after the newest one."""
        newest = self.upcoming or self.current
        return (newest.key_id + 1) % KEY_IDS

    def stage(self, epoch: Epoch) -> Keyring:
        """Return the keyring that accepts one epoch more, and does not seal with it yet."""
        return Keyring(self.cell, self.current, self.previous, epoch, self._retired)

    def rotate(self, epoch: Epoch | None = None) -> Keyring:
        """Return the keyring that seals with the epoch to come, or with the one given.

        Tickets of the present epoch go on to open; those of the one before do not any more.
        """
        following = epoch or self.upcoming
        if following is None:
            raise InvalidConfig("there is no epoch to come: stage one, or give one")
        upcoming = None if following is self.upcoming else self.upcoming
        retired = dict(self._retired)
        if self.previous is not None:
            retired[self.previous.key_id] = self.previous.route_key
        return Keyring(self.cell, following, self.current, upcoming, retired)

    def relay_keys(self) -> RelayKeys:
        """Return what a relay may have of this keyring."""
        present = {key_id: epoch.route_key for key_id, epoch in self._by_id.items()}
        return RelayKeys(self.cell, {**self._retired, **present}, self.current.key_id)

    def to_text(self) -> str:
        """Return the keyring as JSON text: every secret of the cell. Keep it as one keeps those."""
        value: dict[str, Any] = {"v": _FORMAT, "cell": self.cell}
        for name in _NAMES:
            epoch: Epoch | None = getattr(self, name)
            if epoch is not None:
                value[name] = epoch.to_json()
        if self._retired:
            value["retired"] = _route_texts(self._retired)
        return json.dumps(value, indent=1) + "\n"

    def __repr__(self) -> str:
        return f"<Keyring cell={self.cell} epochs={sorted(self._by_id)}>"


class RouteKey:
    """The key of one epoch that reads routes, and what follows from it."""

    __slots__ = ("envelope", "route")

    def __init__(self, key: bytes) -> None:
        self.route: Final = BlockCipher(key)
        self.envelope: Final = _envelope_key(key)
        """What envelopes are authenticated with (`envelope`)."""


def _envelope_key(route_key: bytes) -> bytes:
    return hkdf_expand(route_key, b"IC1 relay", 32, "sha256")


class RelayKeys:
    """The route keys of a cell: a relay leads datagrams with them and can open nothing."""

    __slots__ = ("_by_id", "_keys", "cell", "current")

    def __init__(self, cell: int, keys: Mapping[int, bytes], current: int | None = None) -> None:
        """Take 16 bytes for each key id; `current` is the one that every server has.

        Raises `InvalidConfig` for another size, or when there is no key of the current id.
        """
        if any(len(key) != 16 for key in keys.values()):
            raise InvalidConfig("a route key has 16 bytes")
        if not keys or (current is not None and current not in keys):
            raise InvalidConfig("relay keys need the key of the current epoch")
        self.current: Final = next(iter(keys)) if current is None else current
        self.cell: Final = cell
        self._keys: Final = dict(keys)
        self._by_id: Final = {key_id: RouteKey(key) for key_id, key in keys.items()}

    def find_route(self, key_id: int) -> RouteKey | None:
        """Return the key of an id, or None."""
        return self._by_id.get(key_id)

    def to_text(self) -> str:
        """Return the keys as JSON text."""
        value = {
            "v": _FORMAT,
            "cell": self.cell,
            "route_keys": _route_texts(self._keys),
            "current": self.current,
        }
        return json.dumps(value, indent=1) + "\n"

    def __repr__(self) -> str:
        return f"<RelayKeys cell={self.cell} epochs={sorted(self._by_id)}>"


def parse_relay_keys(text: str) -> RelayKeys:
    """Read what `RelayKeys.to_text` wrote. Raises `InvalidConfig`, which names no secret."""
    value, cell = _parse_object(text)
    keys = _parse_routes(value.get("route_keys"), "route_keys")
    if not keys:
        raise InvalidConfig('relay keys need at least one key in "route_keys"')
    current = value.get("current")
    if current is not None and (type(current) is not int or current not in keys):
        raise InvalidConfig('"current" is one of the key ids in "route_keys"')
    return RelayKeys(cell, keys, current)


def _route_texts(keys: Mapping[int, bytes]) -> dict[str, str]:
    return {str(key_id): b64encode(key).decode("ascii") for key_id, key in keys.items()}


def _parse_routes(listed: object, member: str) -> dict[int, bytes]:
    if not isinstance(listed, dict):
        raise InvalidConfig(f"{member} has to be an object of key ids and keys")
    keys = {}
    for name, key in listed.items():
        if not (name.isascii() and name.isdecimal() and len(name) <= 2 and int(name) < KEY_IDS):
            raise InvalidConfig(f"{member}: a key id is 0..{KEY_IDS - 1}")
        keys[int(name)] = _parse_base64(key, f"{member}.{name}")
        if len(keys[int(name)]) != 16:
            raise InvalidConfig(f"{member}: a route key has 16 bytes")
    return keys


def _parse_object(text: str) -> tuple[dict[str, Any], int]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidConfig("a keyring is JSON, as its to_text() writes it") from None
    if not isinstance(value, dict) or value.get("v") != _FORMAT:
        raise InvalidConfig(f'a keyring is a JSON object with "v": {_FORMAT}')
    cell = value.get("cell")
    if type(cell) is not int or not 0 <= cell < 0x10000:
        raise InvalidConfig("cell is a number of 16 bits")
    return value, cell


def _parse_base64(value: object, name: str) -> bytes:
    try:
        return b64decode(value if isinstance(value, str) else "?", validate=True)
    except ValueError:
        raise InvalidConfig(f"{name} is not base64") from None


def parse_keyring(text: str) -> Keyring:
    """Read what `to_text` wrote. Raises `InvalidConfig`, which names the member and no secret."""
    value, cell = _parse_object(text)
    epochs = {name: _parse_epoch(value[name], name) for name in _NAMES if name in value}
    if "current" not in epochs:
        raise InvalidConfig('a keyring needs its "current" epoch')
    retired = _parse_routes(value["retired"], "retired") if "retired" in value else None
    return Keyring(cell, retired=retired, **epochs)


def _parse_epoch(value: object, name: str) -> Epoch:
    if not isinstance(value, Mapping):
        raise InvalidConfig(f"{name} has to be an object: relays' keys have none")
    key_id = value.get("key_id")
    if type(key_id) is not int:
        raise InvalidConfig(f"{name}.key_id is a number")
    master = _parse_base64(value.get("master"), f"{name}.master")
    texts = [value.get("certificate"), value.get("private_key")]
    pems = [text.encode() if isinstance(text, str) else b"" for text in texts]
    try:
        certificate = Certificate.from_pem(pems[0], pems[1])
    except ValueError:
        why = "certificate and private_key are not two PEM texts that belong together"
        raise InvalidConfig(f"{name}: {why}") from None
    try:
        return Epoch(key_id, master, certificate)
    except InvalidConfig as error:
        raise InvalidConfig(f"{name}: {error}") from None
