"""ClientHellos put together from their pieces, so that all of each can be rewritten as one.

A piece that is not the first does not say which extension it is in the middle of. `redact` shows
it every ClientHello of a capture before the first is written; from then on a piece is known by what
is in it, so that equal pieces stay equal.

    piece ─▶ its hello ─▶ as much of it as is known from its beginning ─▶ rewritten ─▶ piece
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from warp_tools.capture.records import Piece

MAX_PIECES: Final = 4096
MAX_LENGTH: Final = 1 << 14
"""Of a ClientHello; what is longer is none that anybody sends."""


class Hellos:
    """Those of one capture."""

    def __init__(self) -> None:
        self.session: int | None = None
        """Whose pieces are learned now; None: they are only looked up."""
        self._begun: Final[OrderedDict[object, _Hello]] = OrderedDict()
        self._pieces: Final[OrderedDict[object, _Hello]] = OrderedDict()

    def rewrite(
        self,
        piece: Piece,
        content: bytes,
        hello: Callable[[bytes], bytes],
        unknown: Callable[[bytes], bytes],
    ) -> bytes:
        """Return the bytes of a piece, rewritten by `hello`, which takes a hello's beginning.

        What does not follow on anything that is known is rewritten by `unknown`.
        """
        if piece.whole:
            return hello(content)
        if piece.length > MAX_LENGTH or piece.offset + piece.size > piece.length:
            return unknown(content)
        key = piece.message_seq, piece.length, piece.offset, hash(content)
        if self.session is not None and key not in self._pieces:
            self._learn(self.session, piece, content, key)
        found = self._pieces.get(key)
        if found is None:
            return unknown(content) if piece.offset else hello(content)
        made = hello(found.beginning)[piece.offset : piece.offset + len(content)]
        return made + unknown(content[len(made) :])

    def _learn(self, session: int, piece: Piece, content: bytes, key: object) -> None:
        of = session, piece.message_seq, piece.length
        known = self._begun.get(of)
        if known is None or not known.fits(piece.offset, content):
            known = self._begun[of] = _Hello(piece.length)
        known.add(piece.offset, content)
        self._pieces[key] = known
        for table in (self._begun, self._pieces):
            if len(table) > MAX_PIECES:
                table.popitem(last=False)


class _Hello:
    """One ClientHello as far as its pieces were seen."""

    __slots__ = ("_data", "_known")

    def __init__(self, length: int) -> None:
        self._data = bytearray(length)
        self._known = bytearray(length)

    def fits(self, offset: int, content: bytes) -> bool:
        """Tell whether a piece contradicts nothing that is known."""
        pairs = zip(content, self._data[offset:], self._known[offset:], strict=False)
        return all(octet == known or not seen for octet, known, seen in pairs)

    def add(self, offset: int, content: bytes) -> None:
        """Put a piece in its place."""
        end = offset + len(content)
        self._data[offset:end] = content
        self._known[offset:end] = b"\1" * len(content)

    @property
    def beginning(self) -> bytes:
        """All bytes before the first that is missing."""
        missing = self._known.find(0)
        return bytes(self._data if missing < 0 else self._data[:missing])
