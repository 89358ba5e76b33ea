"""Codecs and header extensions in offers and answers (RFC 3264, RFC 7587, RFC 2198, RFC 8285)."""

from __future__ import annotations

from warp.sdp import (
    AUDIO_LEVEL_URI,
    DEFAULT_AUDIO_CODECS,
    MID_URI,
    TRANSPORT_CC_URI,
    Codec,
    Direction,
    HeaderExtension,
    opus,
    red,
    telephone_event,
)
from warp.sdp.codecs import (
    AUDIO_EXTENSIONS,
    answer_codecs,
    answer_extensions,
    offer_codecs,
    offer_extensions,
)

PCMU = Codec(0, "PCMU", 8000)


def test_answer_keeps_numbers_and_order_of_the_offer() -> None:
    offered = (telephone_event(101, 8000), PCMU, Codec(109, "OPUS", 48000, 2, "stereo=1"))
    answer = answer_codecs(offered, DEFAULT_AUDIO_CODECS)
    assert [(c.payload_type, c.name) for c in answer] == [(101, "telephone-event"), (109, "OPUS")]


def test_answer_says_our_own_opus_parameters() -> None:
    """fmtp says what the writer wants to receive; it is declarative (RFC 7587 section 6.1)."""
    offered = (Codec(109, "opus", 48000, 2, "stereo=1;maxplaybackrate=8000"),)
    (answer,) = answer_codecs(offered, (opus(minptime_ms=20, dtx=True, stereo=True),))
    assert answer.parameters() == {
        "minptime": "20", "useinbandfec": "1", "usedtx": "1", "stereo": "1", "sprop-stereo": "1",
    }  # fmt: skip


def test_opus_of_other_channel_count_is_another_codec() -> None:
    assert answer_codecs((Codec(111, "opus", 48000, 1),), DEFAULT_AUDIO_CODECS) == ()


def test_nothing_but_events_is_no_audio() -> None:
    assert answer_codecs((telephone_event(101, 8000), PCMU, red(63, 0)), DEFAULT_AUDIO_CODECS) == ()


def test_red_is_accepted_around_the_accepted_opus_only() -> None:
    good = answer_codecs((opus(96), red(97, 96)), DEFAULT_AUDIO_CODECS)
    assert good[1].fmtp == "96/96"
    bare = answer_codecs((opus(96), Codec(97, "red", 48000, 2)), DEFAULT_AUDIO_CODECS)
    assert bare[1].fmtp == "96/96"
    foreign = answer_codecs((opus(96), Codec(97, "red", 48000, 2, "0/0")), DEFAULT_AUDIO_CODECS)
    assert [c.name for c in foreign] == ["opus"]


def test_feedback_is_the_common_part() -> None:
    offered = (opus(111, feedback=("nack", "goog-remb", "transport-cc")),)
    (answer,) = answer_codecs(offered, (opus(feedback=("transport-cc",)),))
    assert answer.feedback == ("transport-cc",)
    (answer,) = answer_codecs((opus(111, feedback=("nack",)),), (opus(feedback=()),))
    assert answer.feedback == ()


def test_a_new_offer_keeps_bound_payload_types() -> None:
    before = (opus(109), telephone_event(101, 8000))
    again = offer_codecs(DEFAULT_AUDIO_CODECS, before)
    assert {(c.name, c.clock_rate): c.payload_type for c in again} == {
        ("opus", 48000): 109,
        ("red", 48000): 63,
        ("telephone-event", 48000): 110,
        ("telephone-event", 8000): 101,
    }
    assert again[1].fmtp == "109/109"


def test_a_new_codec_never_takes_a_bound_number() -> None:
    again = offer_codecs((opus(111), red(63)), (Codec(63, "opus", 48000, 2),))
    numbers = [c.payload_type for c in again]
    assert numbers[0] == 63 and numbers[1] != 63
    assert len(set(numbers)) == 2


def test_extensions_of_an_answer_are_the_common_ones_with_the_offered_ids() -> None:
    offered = (
        HeaderExtension(9, AUDIO_LEVEL_URI, Direction.SENDONLY),
        HeaderExtension(2, "urn:unknown"),
        HeaderExtension(5, MID_URI),
        HeaderExtension(6, MID_URI),
        HeaderExtension(15, TRANSPORT_CC_URI),
    )
    assert answer_extensions(offered, AUDIO_EXTENSIONS) == (
        HeaderExtension(9, AUDIO_LEVEL_URI, Direction.RECVONLY),
        HeaderExtension(5, MID_URI),
    )


def test_extension_ids_stay_bound_in_a_new_offer() -> None:
    again = offer_extensions(AUDIO_EXTENSIONS, (HeaderExtension(4, AUDIO_LEVEL_URI),))
    ids = {ext.uri: ext.id for ext in again}
    assert ids[AUDIO_LEVEL_URI] == 4
    assert len(set(ids.values())) == 3
    assert ids[TRANSPORT_CC_URI] == 3
