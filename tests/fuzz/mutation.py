"""Damage to real datagrams, decided byte by byte by a fuzzer.

`Script` reads decisions off the fuzzer's bytes; when they have run out it answers zero, so that
every input means something and a short one means little. `mutate` never returns the same bytes
unless the script is at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp.crypto import HmacSha1
from warp.stun import Message, build_message

INTERESTING = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
MAX_DATAGRAM = 1500


class Script:
    """The fuzzer's bytes as a source of decisions."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        value = self._data[self._at] if self else 0
        self._at += 1
        return value

    def below(self, limit: int) -> int:
        """A number in 0..limit-1."""
        if limit <= 1:
            return 0
        return (self.byte() if limit <= 256 else self.byte() << 8 | self.byte()) % limit

    def take(self, limit: int) -> bytes:
        """Up to `limit` bytes, how many the next byte says."""
        size = min(self.byte(), limit)
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece


def mutate(data: bytes, script: Script, others: Sequence[bytes] = ()) -> bytes:
    """Return `data` after one to four changes."""
    out = bytearray(data)
    for _ in range(1 + script.below(4)):
        if not script:
            break
        action, at = script.below(8), script.below(len(out) or 1)
        if action == 0 or not out:
            out[at:at] = script.take(32)
        elif action == 1:
            out[at] ^= 1 << script.below(8)
        elif action == 2:
            out[at] = INTERESTING[script.below(len(INTERESTING))]
        elif action == 3:
            out[at : at + 2] = script.byte().to_bytes(2, "big")
        elif action == 4:
            del out[at : at + 1 + script.byte()]
        elif action == 5:
            del out[at:]
        elif action == 6:
            end = at + 1 + script.byte()
            out[end:end] = out[at:end]
        elif others:
            out[at:] = others[script.below(len(others))][at:]
    return bytes(out[:MAX_DATAGRAM])


def mutate_lines(text: str, script: Script) -> str:
    """Return a description after one to four changes of its lines."""
    lines = text.split("\r\n")
    for _ in range(1 + script.below(4)):
        if not script:
            break
        action, at, other = script.below(6), script.below(len(lines)), script.below(len(lines))
        if action == 0 and len(lines) > 1:
            del lines[at]
        elif action == 1:
            lines.insert(other, lines[at])
        elif action == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif action == 3:
            name, colon, _ = lines[at].partition(":")
            lines[at] = name + colon + lines[other].partition(":")[2]
        elif action == 4:
            lines[at] = lines[at][: script.below(len(lines[at]) or 1)]
        else:
            lines[at] = mutate(lines[at].encode(), script).decode("utf-8", "replace")
    return "\r\n".join(lines)


def resign(message: Message, password: str, script: Script) -> bytes:
    """Return a check with damaged attributes under an integrity that holds: a hostile peer's."""
    attributes = [(kind, value) for kind, value in message.attributes if kind < 0x10000]
    for _ in range(1 + script.below(3)):
        if not script:
            break
        action, at = script.below(5), script.below(len(attributes) or 1)
        if action == 0 or not attributes:
            kind = script.byte() << 8 | script.byte()
            # an integrity attribute of its own would end what is covered
            attributes.insert(at, (kind if kind not in (8, 0x1C, 0x8028) else 6, script.take(64)))
        elif action == 1:
            del attributes[at]
        elif action == 2:
            attributes.insert(at, attributes[script.below(len(attributes))])
        elif action == 3:
            attributes[at] = (attributes[at][0], script.take(64))
        else:
            attributes[at] = (attributes[at][0], mutate(attributes[at][1], script))
    return build_message(
        message.method,
        message.message_class,
        message.transaction_id,
        attributes,
        integrity_key=HmacSha1(password.encode()),
    )
