"""Lines, numbers, tokens, and the limits (RFC 8866 section 9)."""

from __future__ import annotations

import pytest

from warp.sdp import grammar
from warp.sdp.errors import SdpError, SdpRule


def rule_of(call, *arguments) -> SdpRule:
    with pytest.raises(SdpError) as caught:
        call(*arguments)
    return caught.value.rule


def test_both_line_ends_count() -> None:
    assert grammar.split_lines("v=0\r\ns=-\nt=0 0\r\n\r\n") == ["v=0", "s=-", "t=0 0"]


def test_only_cr_lf_end_lines() -> None:
    """str.splitlines would split here and let an attacker hide lines."""
    assert grammar.split_lines("a=x\x0bb\x0cc\x1cd\x85e\u2028f\n") == [
        "a=x\x0bb\x0cc\x1cd\x85e\u2028f"
    ]


def test_lone_cr_and_nul_are_refused_with_their_line() -> None:
    for bad in ("v=0\na=x\ry\n", "v=0\na=x\0\n"):
        with pytest.raises(SdpError) as caught:
            grammar.split_lines(bad)
        assert (caught.value.rule, caught.value.line) == (SdpRule.BAD_CHARACTER, 2)


def test_limits() -> None:
    assert rule_of(grammar.split_lines, "a" * (256 * 1024 + 1)) is SdpRule.TOO_LARGE
    assert rule_of(grammar.split_lines, "a\n" * 10_000 + "a\n") is SdpRule.TOO_MANY_LINES
    assert len(grammar.split_lines("a\n" * 10_000)) == 10_000
    assert rule_of(grammar.split_lines, "v=0\n" + "a" * 8193) is SdpRule.LINE_TOO_LONG
    assert grammar.split_lines("a" * 8192) == ["a" * 8192]


@pytest.mark.parametrize("bad", ["", "-1", "+1", " 1", "1 ", "1_0", "0x1", "１", "٣", "9" * 21])
def test_numbers_are_plain_decimals(bad: str) -> None:
    assert rule_of(grammar.number, bad, 10**30) is SdpRule.NUMBER


def test_numbers_have_a_range() -> None:
    assert grammar.number("65535", 65535) == 65535
    assert rule_of(grammar.number, "65536", 65535) is SdpRule.NUMBER
    assert rule_of(grammar.number, "0", 5, 1) is SdpRule.NUMBER


def test_ufrag_and_password_lengths() -> None:
    assert grammar.ice_ufrag("abcd") == "abcd"
    assert grammar.ice_ufrag("+" * 256)
    assert grammar.ice_pwd("p" * 22)
    for bad in ("abc", "a" * 257, "ab:cd", "ab cd", "äbcd"):
        assert rule_of(grammar.ice_ufrag, bad) is SdpRule.ICE_UFRAG
    for bad in ("p" * 21, "p" * 257, "p" * 21 + " "):
        assert rule_of(grammar.ice_pwd, bad) is SdpRule.ICE_PWD


def test_an_error_never_shows_a_password() -> None:
    with pytest.raises(SdpError) as caught:
        grammar.ice_pwd("secret")
    assert "secret" not in str(caught.value)


def test_fingerprints_are_normalised_and_measured() -> None:
    digest = ":".join(["ab"] * 32)
    assert grammar.fingerprint(f"SHA-256 {digest}") == ("sha-256", digest.upper())
    assert grammar.fingerprint("new-hash AB:CD") == ("new-hash", "AB:CD")
    for bad in (
        f"sha-384 {digest}",
        "sha-256",
        "sha-256 ",
        "sha-256 zz:zz",
        "sha-256 AB:C",
        digest,
    ):
        assert rule_of(grammar.fingerprint, bad) is SdpRule.FINGERPRINT


def test_many_empty_lines_are_no_line_at_all() -> None:
    assert grammar.split_lines("\r\n" * 5000) == []
