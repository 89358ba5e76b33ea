"""What goes out, against an independent SRTP; what comes in, good and bad."""

from __future__ import annotations

import pytest

from tests.vectors import srtp_reference as reference
from warp.errors import Discard, InternalError, InvalidConfig, MessageTooLarge
from warp.srtp import (
    SrtpConfig,
    SrtpContext,
    SrtpDiscard,
    SrtpProfile,
    split_keying_material,
)

SSRC = bytes.fromhex("cafebabe")
TAG = {SrtpProfile.AES128_CM_SHA1_80: 10, SrtpProfile.AES128_CM_SHA1_32: 4}


def material(profile: SrtpProfile) -> bytes:
    return bytes((7 * i + 3) & 0xFF for i in range(profile.keying_material_length))


def pair(profile: SrtpProfile, config: SrtpConfig | None = None) -> tuple[SrtpContext, SrtpContext]:
    keys = material(profile)
    return SrtpContext(profile, keys, True, config), SrtpContext(profile, keys, False, config)


def rtp(sequence: int, payload: bytes = b"\xab" * 60, ssrc: bytes = SSRC) -> bytes:
    return b"\x80\x6f" + sequence.to_bytes(2, "big") + b"\0\0\3\xc0" + ssrc + payload


def rr(ssrc: bytes = SSRC) -> bytes:
    return b"\x81\xc9\0\7" + ssrc + bytes(range(24))


def reason(call, packet: bytes) -> SrtpDiscard:
    with pytest.raises(Discard) as caught:
        call(packet)
    assert isinstance(caught.value.reason, SrtpDiscard)
    return caught.value.reason


def expected_rtp(profile: SrtpProfile, master: bytes, packet: bytes, roc: int) -> bytes:
    keys = reference.derive(
        master[: profile.key_length], master[profile.key_length :],
        reference.RTP_LABELS, salt_length=profile.salt_length,
    )  # fmt: skip
    if profile in TAG:
        return reference.cm_rtp(keys, packet, roc, TAG[profile])
    return reference.gcm_rtp(keys, packet, roc)


def expected_rtcp(profile: SrtpProfile, master: bytes, packet: bytes, index: int) -> bytes:
    keys = reference.derive(
        master[: profile.key_length], master[profile.key_length :],
        reference.RTCP_LABELS, salt_length=profile.salt_length,
    )  # fmt: skip
    if profile in TAG:
        return reference.cm_rtcp(keys, packet, index)
    return reference.gcm_rtcp(keys, packet, index)


def test_published_libsrtp_vector() -> None:
    """The vector of libsrtp's own test driver, quoted by many implementations."""
    key = bytes.fromhex("e1f97a0d3e018be0d64fa32c06de41390ec675ad498afeebb6960b3aabe6")
    profile = SrtpProfile.AES128_CM_SHA1_80
    keys = key[:16] + bytes(16) + key[16:] + bytes(14)
    packet = bytes.fromhex("800f1234decafbadcafebabe") + b"\xab" * 16
    assert SrtpContext(profile, keys, True).protect_rtp(packet).hex() == (
        "800f1234decafbadcafebabe4e55dc4ce79978d88ca4d215949d2402b78d6acc99ea179b8dbb"
    )


@pytest.mark.parametrize("profile", SrtpProfile)
def test_rtp_is_what_the_rfcs_say(profile: SrtpProfile) -> None:
    client, server = pair(profile)
    keys = split_keying_material(profile, material(profile))
    extended = b"\x90" + rtp(7)[1:12] + bytes.fromhex("bede000110800000") + b"payload"
    for packet in (rtp(5), rtp(6, b""), extended):
        sealed = client.protect_rtp(packet)
        assert sealed == expected_rtp(profile, keys.client, packet, 0)
        assert len(sealed) == len(packet) + profile.rtp_overhead
        assert server.unprotect_rtp(sealed) == packet
        assert server.protect_rtp(packet) == expected_rtp(profile, keys.server, packet, 0)


@pytest.mark.parametrize("profile", SrtpProfile)
def test_rtcp_is_what_the_rfcs_say(profile: SrtpProfile) -> None:
    client, server = pair(profile)
    keys = split_keying_material(profile, material(profile))
    packet = rr()
    for count in range(3):
        sealed = client.protect_rtcp(packet)
        # libsrtp's first SRTCP index is 1
        assert sealed == expected_rtcp(profile, keys.client, packet, count + 1)
        assert len(sealed) == len(packet) + profile.rtcp_overhead
        assert server.unprotect_rtcp(sealed) == packet


@pytest.mark.parametrize("profile", SrtpProfile)
def test_rollover_of_the_sequence_number(profile: SrtpProfile) -> None:
    client, server = pair(profile)
    keys = split_keying_material(profile, material(profile))
    for sequence, roc in ((65534, 0), (65535, 0), (0, 1), (1, 1)):
        sealed = client.protect_rtp(rtp(sequence))
        assert sealed == expected_rtp(profile, keys.client, rtp(sequence), roc)
        assert server.unprotect_rtp(sealed) == rtp(sequence)


@pytest.mark.parametrize("profile", SrtpProfile)
def test_every_flipped_bit_is_noticed_and_the_call_goes_on(profile: SrtpProfile) -> None:
    client, server = pair(profile)
    sealed = client.protect_rtp(rtp(9, b"speech"))
    for bit in range(8 * len(sealed)):
        bad = bytearray(sealed)
        bad[bit // 8] ^= 0x80 >> bit % 8
        assert reason(server.unprotect_rtp, bytes(bad)) is not SrtpDiscard.REPLAY
    assert server.unprotect_rtp(sealed) == rtp(9, b"speech")


@pytest.mark.parametrize("profile", SrtpProfile)
def test_truncation_at_every_length(profile: SrtpProfile) -> None:
    client, server = pair(profile)
    sealed = client.protect_rtp(rtp(9))
    report = client.protect_rtcp(rr())
    for length in range(len(sealed)):
        assert isinstance(reason(server.unprotect_rtp, sealed[:length]), SrtpDiscard)
    for length in range(len(report)):
        assert isinstance(reason(server.unprotect_rtcp, report[:length]), SrtpDiscard)
    assert server.unprotect_rtp(sealed) == rtp(9)
    assert server.unprotect_rtcp(report) == rr()


@pytest.mark.parametrize("profile", SrtpProfile)
def test_replayed_packets_are_named_as_such(profile: SrtpProfile) -> None:
    client, server = pair(profile)
    sealed, report = client.protect_rtp(rtp(9)), client.protect_rtcp(rr())
    server.unprotect_rtp(sealed)
    server.unprotect_rtcp(report)
    assert reason(server.unprotect_rtp, sealed) is SrtpDiscard.REPLAY
    assert reason(server.unprotect_rtcp, report) is SrtpDiscard.REPLAY


def test_reordering_within_the_window_is_accepted_beyond_it_not() -> None:
    config = SrtpConfig(replay_window_packets=128)
    client, server = pair(SrtpProfile.AEAD_AES_128_GCM, config)
    sealed = [client.protect_rtp(rtp(i)) for i in range(300)]
    server.unprotect_rtp(sealed[0])
    server.unprotect_rtp(sealed[200])
    assert server.unprotect_rtp(sealed[100]) == rtp(100)
    assert reason(server.unprotect_rtp, sealed[50]) is SrtpDiscard.REPLAY
    assert server.unprotect_rtp(sealed[201]) == rtp(201)


def test_tampered_packets_say_authentication() -> None:
    for profile in SrtpProfile:
        client, server = pair(profile)
        for sealed, call in (
            (client.protect_rtp(rtp(9)), server.unprotect_rtp),
            (client.protect_rtcp(rr()), server.unprotect_rtcp),
        ):
            bad = sealed[:20] + bytes([sealed[20] ^ 1]) + sealed[21:]
            assert reason(call, bad) is SrtpDiscard.AUTHENTICATION


def test_both_sides_use_the_other_sides_key() -> None:
    client, _ = pair(SrtpProfile.AEAD_AES_256_GCM)
    assert reason(client.unprotect_rtp, client.protect_rtp(rtp(1))) is SrtpDiscard.AUTHENTICATION


def test_a_packet_may_be_protected_again_for_a_nack() -> None:
    for profile in SrtpProfile:
        client, server = pair(profile)
        sealed = [client.protect_rtp(rtp(i)) for i in range(600)]
        assert client.protect_rtp(rtp(88)) == sealed[88]
        for packet in (*sealed[:88], *sealed[89:]):
            server.unprotect_rtp(packet)
        assert server.unprotect_rtp(sealed[88]) == rtp(88)


def test_sources_are_bounded_and_only_authentic_ones_count() -> None:
    config = SrtpConfig(max_sources=4)
    client, server = pair(SrtpProfile.AEAD_AES_128_GCM, config)
    for number in range(100):  # forged: none of these takes a place
        assert reason(server.unprotect_rtp, rtp(1, ssrc=number.to_bytes(4, "big")))
    for number in range(4):
        server.unprotect_rtp(client.protect_rtp(rtp(1, ssrc=number.to_bytes(4, "big"))))
    fifth = client.protect_rtp(rtp(1, ssrc=b"five"))
    assert reason(server.unprotect_rtp, fifth) is SrtpDiscard.TOO_MANY_SOURCES
    report = client.protect_rtcp(rr(b"five"))
    assert reason(server.unprotect_rtcp, report) is SrtpDiscard.TOO_MANY_SOURCES
    assert server.unprotect_rtcp(client.protect_rtcp(rr(bytes(4)))) == rr(bytes(4))


def test_datagrams_beyond_the_buffer_are_discarded() -> None:
    _, server = pair(SrtpProfile.AES128_CM_SHA1_80)
    assert reason(server.unprotect_rtp, rtp(1, bytes(3000))) is SrtpDiscard.TOO_LONG
    assert reason(server.unprotect_rtcp, rr() + bytes(3000)) is SrtpDiscard.TOO_LONG


def test_what_we_cannot_send_is_said_to_the_caller() -> None:
    client, _ = pair(SrtpProfile.AES128_CM_SHA1_80)
    with pytest.raises(MessageTooLarge):
        client.protect_rtp(rtp(1, bytes(1500)))
    with pytest.raises(MessageTooLarge):
        client.protect_rtcp(rr() + bytes(1500))
    with pytest.raises(InternalError):
        client.protect_rtp(b"\x80")
    with pytest.raises(InternalError):
        client.protect_rtcp(b"\x80")


def test_configuration_is_checked() -> None:
    for bad in ({"replay_window_packets": 63}, {"replay_window_packets": 1 << 15},
                {"max_sources": 0}):  # fmt: skip
        with pytest.raises(InvalidConfig):
            SrtpConfig(**bad)
