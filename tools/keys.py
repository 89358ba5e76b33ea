"""The key file of a cell: made, read, and replaced under a running server.

    warp keys new FILE ─▶ FILE ─ load_keyring ─▶ warp serve --keys FILE      SIGHUP: read again
    warp keys rotate FILE                       └ tickets of the epoch before still open

Every server of a cell reads the same file. It holds every secret of the cell, so nobody else may
read it, and nothing that is said of it repeats what is in it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from instant_connect.keyring import Epoch, Keyring, parse_keyring, parse_relay_keys
from warp.entropy import SystemEntropy
from warp.errors import InvalidConfig
from warp_tools.failure import CommandRefused
from warp_tools.outputs import check_output

_MAX_BYTES = 65_536
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def load_keyring(path: Path) -> Keyring:
    """Read a key file. Raises ToolFailure, one line, with the remedy where there is one."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise CommandRefused(
            f"there is no key file {path}: warp keys new {path} makes one"
        ) from None
    except OSError as error:
        raise CommandRefused(f"cannot read the key file {path}: {error.strerror}") from error
    if stat.S_ISREG(mode) and mode & _OTHERS:
        raise CommandRefused(f"others may read the key file {path}: chmod 600 {path}")
    try:
        return parse_keyring(content[:_MAX_BYTES].decode("ascii"))
    except (UnicodeDecodeError, InvalidConfig) as error:
        reason = error if isinstance(error, InvalidConfig) else "it is not text"
        raise CommandRefused(f"{path} is no key file: {reason}") from None


def new_keyring(path: Path, cell: int) -> None:
    """Make a key file with one fresh epoch. Raises ToolFailure when there is a file already."""
    try:
        made = Keyring.generate(SystemEntropy(), time.time(), cell=cell)
    except InvalidConfig as error:
        raise CommandRefused(str(error)) from error
    try:
        _write(path, made.to_text(), os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        raise CommandRefused(
            f"{path} exists already: its tickets would not open any more"
        ) from None


def change_keyring(path: Path, change: Callable[[Keyring, Epoch], Keyring]) -> Keyring:
    """Replace a key file by what `change` makes of it and a fresh epoch; return what it held."""
    ring = load_keyring(path)
    fresh = Epoch.generate(ring.next_key_id(), SystemEntropy(), time.time())
    beside = path.with_name(f".{path.name}.new")
    try:
        # whoever reads meanwhile gets the old file or the new one, never half of it
        _write(beside, change(ring, fresh).to_text(), os.O_CREAT | os.O_TRUNC)
        beside.replace(path)
    except InvalidConfig as error:
        raise CommandRefused(str(error)) from error
    return ring


def write_route_keys(path: Path, out: Path) -> None:
    """Write what a relay may have of a key file: it leads datagrams, and opens nothing.

    What was written so before is replaced, and nothing else. Raises `CommandRefused`.
    """
    text = load_keyring(path).relay_keys().to_text()
    check_output(out, keep=(path,))
    if out.exists() and not _holds_route_keys(out):
        raise CommandRefused(f"{out} exists already, and is no relay's keys: write to another file")
    beside = out.with_name(f".{out.name}.new")
    _write(beside, text, os.O_CREAT | os.O_TRUNC)
    beside.replace(out)


def _holds_route_keys(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            parse_relay_keys(file.read(_MAX_BYTES).decode("ascii"))
    except (OSError, UnicodeDecodeError, InvalidConfig):
        return False
    return True


def rotate(ring: Keyring, fresh: Epoch) -> Keyring:
    """Seal with the epoch to come, or with a fresh one where none was staged."""
    return ring.rotate(None if ring.upcoming is not None else fresh)


def stage(ring: Keyring, fresh: Epoch) -> Keyring:
    """Accept a fresh epoch, and do not seal with it yet: first every server has to know it."""
    if ring.upcoming is not None:
        raise InvalidConfig("an epoch is staged already: rotate first")
    return ring.stage(fresh)


def _write(path: Path, text: str, flags: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | flags, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            os.fchmod(handle, 0o600)
            file.write(text)
    except FileExistsError:
        raise
    except OSError as error:
        raise CommandRefused(f"cannot write the key file {path}: {error.strerror}") from error
