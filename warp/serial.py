"""Serial number arithmetic (RFC 1982) for 16 and 32 bit counters that wrap."""

from __future__ import annotations


def after16(a: int, b: int) -> bool:
    """Tell whether 16-bit `a` comes after `b`."""
    return 0 < ((a - b) & 0xFFFF) < 0x8000


def after32(a: int, b: int) -> bool:
    """Tell whether 32-bit `a` comes after `b`."""
    return 0 < ((a - b) & 0xFFFFFFFF) < 0x80000000


def extend16(value: int, reference: int) -> int:
    """Return the integer closest to `reference` whose low 16 bits are `value`.

    `reference` is an earlier extended value (may exceed 16 bits); the result may be below zero
    only when `reference` is below 0x8000.
    """
    return reference + (((value - reference + 0x8000) & 0xFFFF) - 0x8000)


def extend32(value: int, reference: int) -> int:
    """Return the integer closest to `reference` whose low 32 bits are `value`."""
    return reference + (((value - reference + 0x80000000) & 0xFFFFFFFF) - 0x80000000)
