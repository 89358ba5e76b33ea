"""How many datagrams and bytes a connection has received and sent.

Of hundreds of sessions that take turns, none is in the processor's cache when its turn comes: these
four lie in one line of it, where as numbers of Python's own each would be an object somewhere else.
"""

from __future__ import annotations

from array import array
from typing import Final

RECEIVED: Final = 0
RECEIVED_BYTES: Final = 1
SENT: Final = 2
SENT_BYTES: Final = 3


def new_traffic() -> array[int]:
    """Return counters at 0, indexed by the constants of this module."""
    return array("Q", bytes(32))
