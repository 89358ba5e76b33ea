"""ICE credentials: ufrag and password of one side for one ICE generation (RFC 8839 section 5.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from warp.entropy import Entropy, random_text
from warp.errors import InvalidConfig

UFRAG_CHARACTERS = 8
"""48 bits; RFC 8445 section 5.3 asks for 24. Short, because it travels in every check."""
PASSWORD_CHARACTERS = 24
MAX_USERNAME_BYTES = 508  # RFC 8489 section 14.3: fewer than 509

# browsers accept these four beyond the ice-chars of RFC 8839 section 5.4
_ICE_TEXT = re.compile(r"[A-Za-z0-9+/\-=#_]+", re.ASCII)
_PAIR = re.compile(r"[A-Za-z0-9+/\-=#_]{4,256}:[A-Za-z0-9+/\-=#_]{22,256}", re.ASCII)


@dataclass(frozen=True, slots=True)
class IceCredentials:
    """One side's ufrag (4 to 256 characters) and password (22 to 256).

    Raises `InvalidConfig` for anything else, so that a bad description is refused at the door.
    """

    ufrag: str
    pwd: str = field(repr=False)

    def __post_init__(self) -> None:
        if _PAIR.fullmatch(f"{self.ufrag}:{self.pwd}"):
            return
        for name, value, least in (("ufrag", self.ufrag, 4), ("password", self.pwd, 22)):
            if not least <= len(value) <= 256:
                raise InvalidConfig(
                    f"an ICE {name} has {least} to 256 characters, not {len(value)}"
                )
            if not _ICE_TEXT.fullmatch(value):
                raise InvalidConfig(f"an ICE {name} consists of letters, digits, + and /")

    @classmethod
    def generate(
        cls, entropy: Entropy, *, ufrag_characters: int = UFRAG_CHARACTERS
    ) -> IceCredentials:
        """Return fresh credentials."""
        text = random_text(entropy, ufrag_characters + PASSWORD_CHARACTERS)
        return cls(text[:ufrag_characters], text[ufrag_characters:])
