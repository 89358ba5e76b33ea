"""How a command ends when it cannot go on: one clear line and a status, and not a traceback.

2    CommandRefused  the command line asks for what cannot be: nothing was begun
1    ToolFailure     it was begun, and failed
130  Ctrl-C
"""

from __future__ import annotations

from typing import ClassVar, Final

FAILED: Final = 1
REFUSED: Final = 2
INTERRUPTED: Final = 130


class ToolFailure(Exception):
    """Something the person at the keyboard can understand and mend; shown as one line."""

    status: ClassVar[int] = FAILED


class CommandRefused(ToolFailure):
    """An option's value, or a file, place, port or address that it names, cannot be used."""

    status: ClassVar[int] = REFUSED
