"""ICE credentials and the keys made of them (RFC 8839 section 5.4, RFC 8445 section 7.2.2)."""

from __future__ import annotations

import pytest

from tests.unit.ice.helpers import OURS, THEIRS
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig, InvalidState
from warp.ice import IceCredentials
from warp.ice.keys import Keys


def test_generated_credentials_are_long_enough_and_legal() -> None:
    made = IceCredentials.generate(SeededEntropy(1))
    # RFC 8445 section 5.3: at least 24 and 128 bits of randomness, 6 bits a character
    assert len(made.ufrag) * 6 >= 24
    assert len(made.pwd) * 6 >= 128
    assert made != IceCredentials.generate(SeededEntropy(2))
    assert len(IceCredentials.generate(SeededEntropy(1), ufrag_characters=4).ufrag) == 4


def test_the_password_never_shows() -> None:
    assert OURS.pwd not in repr(OURS)


@pytest.mark.parametrize(
    ("ufrag", "pwd"),
    [
        ("abc", "p" * 22),
        ("a" * 257, "p" * 22),
        ("abcd", "p" * 21),
        ("abcd", "p" * 257),
        ("ab:d", "p" * 22),
        ("ab d", "p" * 22),
        ("abcd", "p" * 21 + "é"),
        ("abcd\n", "p" * 22),
    ],
)
def test_refuses_lengths_and_characters(ufrag: str, pwd: str) -> None:
    with pytest.raises(InvalidConfig):
        IceCredentials(ufrag, pwd)


def test_accepts_what_browsers_accept() -> None:
    IceCredentials("aZ09+/-=#_", "p" * 256)
    IceCredentials("a" * 256, "p" * 22)


def test_username_joins_both_ufrags() -> None:
    keys = Keys(OURS)
    keys.set_remote(THEIRS, lite=False)
    assert keys.username_attribute == b"\0\6\0\x09peer:ourU\0\0\0"


def test_both_ufrags_together_are_limited() -> None:
    # RFC 8489 section 14.3: USERNAME has fewer than 509 bytes
    Keys(IceCredentials("a" * 251, "p" * 22)).set_remote(
        IceCredentials("b" * 256, "p" * 22), lite=False
    )
    with pytest.raises(InvalidConfig):
        Keys(IceCredentials("a" * 252, "p" * 22)).set_remote(
            IceCredentials("b" * 256, "p" * 22), lite=False
        )


def test_only_the_own_half_counts_before_the_peer_is_known() -> None:
    keys = Keys(OURS)
    assert keys.admit(b"ourU:anyone")
    assert not keys.admit(b"ourU2:anyone")
    assert not keys.admit(b"peer:ourU")
    keys.set_remote(THEIRS, lite=False)
    assert keys.admit(b"ourU:peer")
    assert not keys.admit(b"ourU:anyone")


def test_changed_remote_credentials_need_a_restart() -> None:
    keys = Keys(OURS)
    keys.set_remote(THEIRS, lite=False)
    keys.set_remote(THEIRS, lite=False)
    with pytest.raises(InvalidState):
        keys.set_remote(IceCredentials("else", "p" * 22), lite=False)
