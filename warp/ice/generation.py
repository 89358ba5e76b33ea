"""One ICE generation: its keys and its paths; a restart makes another (RFC 8445 section 9)."""

from __future__ import annotations

from warp.ice.checks_full import FullChecks
from warp.ice.context import IceContext
from warp.ice.credentials import IceCredentials
from warp.ice.keys import Keys
from warp.ice.lite import LitePaths
from warp.ice.paths import Paths


class Generation:
    """Keys and the paths found with them."""

    __slots__ = ("keys", "paths")

    def __init__(self, context: IceContext, local: IceCredentials) -> None:
        self.keys = Keys(local)
        self.paths: Paths = (
            LitePaths(context) if context.config.lite else FullChecks(context, self.keys)
        )
