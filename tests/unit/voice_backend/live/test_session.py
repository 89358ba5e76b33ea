"""A live session's rules: what is taken, what is refused, what ends it."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from tests.unit.voice_backend.live.client import Client
from voice_backend.delegation import Tell
from voice_backend.live import DoorKind, LiveFault, Phase
from voice_backend.live.commands import (
    AddItem,
    GoOn,
    Hear,
    Leave,
    Mute,
    OpenVoice,
    Reconfigure,
    TurnEnded,
    Work,
)
from voice_backend.live.shapes import SessionConfig
from voice_backend.live.waiting import MAX_HELD
from voice_backend.model import Cancelled, Delegate, Inject, InText, OutText, SpeakingOn

PCM = base64.b64encode(bytes(960)).decode()
RESPONSES = {"type": "responses", "responses": {"model": "gpt-5", "tools": [{"type": "x"}]}}


class TestStart:
    def test_a_session_starts_when_its_voice_is_open(self) -> None:
        client = Client().over_socket()
        client.send(
            type="session.start",
            event_id="c1",
            session={
                "model": "duplex-cpu",
                "instructions": "Be brief.",
                "audio": {"format": {"type": "audio/pcm", "rate": 16000}},
                "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            },
        )
        assert client.seen() == []
        (opened,) = client.commands()
        assert isinstance(opened, OpenVoice)
        assert opened.config.instructions == "Be brief."
        assert [m.text for m in opened.config.context.messages] == ["Hi"]
        assert opened.format is not None and opened.format.rate == 16000
        client.session.receive_opened(client.now)
        (started,) = client.seen()
        assert started["type"] == "session.started"
        assert started["client_event_id"] == "c1"
        assert started["session"]["id"] == "live_1"
        assert started["session"]["expires_at"] == 1_700_007_200
        assert started["session"]["audio"]["format"]["rate"] == 16000

    def test_nothing_else_comes_first(self) -> None:
        client = Client().over_socket()
        client.send(type="session.thinking.append", content="x", delegation_id=None, event_id="e")
        assert client.errors() == [("invalid_state", "type", "e")]

    def test_what_is_told_while_it_opens_waits_for_the_voice(self) -> None:
        client = Client().over_socket()
        client.send(type="session.start", session={"model": "m"})
        client.commands()
        say = {"type": "session.commentary.append", "content": "Hello!", "delegation_id": None}
        client.send(**say)
        client.send(type="session.input_audio.mute")
        assert client.commands() == []
        client.session.receive_opened(client.now)
        assert client.commands() == [Tell(Inject.COMMENTARY, "Hello!", None), Mute(True)]
        client.send(type="session.input_audio.unmute")
        assert client.commands() == [Mute(False)]

    def test_too_much_of_that_is_refused(self) -> None:
        client = Client().over_socket()
        client.send(type="session.start", session={"model": "m"})
        client.commands()
        for _ in range(MAX_HELD + 3):
            client.send(type="session.input_audio.mute", event_id="e")
        assert client.errors() == [("invalid_state", None, "e")] * 3
        client.session.receive_opened(client.now)
        assert len(client.commands()) == MAX_HELD

    def test_it_starts_once(self) -> None:
        client = Client().started()
        client.send(type="session.start", session={"model": "m"}, event_id="e")
        assert client.errors() == [("invalid_state", "type", "e")]
        assert client.session.phase is Phase.ACTIVE

    def test_one_that_never_starts_is_closed(self) -> None:
        client = Client(start_timeout_s=10.0).over_socket()
        assert client.session.get_timer() == 110.0
        client.session.handle_timer(109.9)
        assert client.session.phase is Phase.NEW
        client.session.handle_timer(110.0)
        error, closed = client.seen()
        assert error["error"]["code"] == "start_timeout"
        assert closed["reason"] == "connection_lost"
        assert client.session.get_timer() is None

    def test_no_capacity_is_said_and_ends_it(self) -> None:
        client = Client().over_socket()
        client.send(type="session.start", event_id="e", session={"model": "m"})
        client.session.receive_refused("session_capacity", "all 16 sessions are taken")
        error, closed = client.seen()
        assert error["error"]["type"] == "server_error"
        assert error["error"]["client_event_id"] == "e"
        assert closed["type"] == "session.closed"

    @pytest.mark.parametrize(
        ("members", "code", "param"),
        [
            ({"model": "other"}, "model_not_found", "session.model"),
            ({}, "missing_parameter", "session.model"),
            ({"model": 7}, "invalid_value", "session.model"),
            ({"model": "m", "modle": 1}, "unknown_parameter", "session.modle"),
            ({"model": "m", "store": True}, "unsupported_parameter", "session.store"),
            ({"model": "m", "triggers": [{}]}, "unsupported_parameter", "session.triggers"),
            (
                {"model": "m", "idle_timeout_s": 5},
                "unsupported_parameter",
                "session.idle_timeout_s",
            ),
            (
                {"model": "m", "wake_policy": {"type": "speech"}},
                "unsupported_parameter",
                "session.wake_policy",
            ),
            ({"model": "m", "instructions": "x" * 99_000}, "too_long", "session.instructions"),
            (
                {"model": "m", "audio": {"format": {"type": "audio/pcm", "rate": 44100}}},
                "invalid_value",
                "session.audio.format.audio/pcm.rate",
            ),
            (
                {"model": "m", "client": {"data_channel": {}}},
                "invalid_value",
                "session.client",
            ),
            (
                {"model": "m", "delegation": {"type": "other"}},
                "invalid_value",
                "session.delegation",
            ),
            (
                {"model": "m", "input": [{"role": "user", "content": [{"text": "x"}]}] * 129},
                "too_long",
                "session.input",
            ),
        ],
    )
    def test_what_cannot_be_had_is_named(
        self, members: dict[str, object], code: str, param: str
    ) -> None:
        client = Client(models=frozenset({"m"})).over_socket()
        client.send(type="session.start", session=members, event_id="e")
        assert client.errors() == [(code, param, "e")]
        # and may be asked for otherwise
        client.send(type="session.start", session={"model": "m"})
        assert client.session.phase is Phase.OPENING

    def test_work_that_nobody_would_do_is_refused_with_the_fix(self) -> None:
        client = Client(responses=False).over_socket()
        client.send(type="session.start", session={"model": "m", "delegation": RESPONSES})
        (event,) = client.seen()
        error = event["error"]
        assert (error["code"], error["param"]) == (
            "unsupported_parameter",
            "session.delegation.type",
        )
        assert "--responses-url" in error["message"]
        assert "client" in error["message"]
        assert client.session.phase is Phase.NEW

    def test_a_voice_that_is_not_ours_is_replaced_and_said(self) -> None:
        client = Client(voices=frozenset({"hibari"})).over_socket()
        output = {"output": {"voice": "marin"}}
        client.send(type="session.start", session={"model": "m", "audio": output})
        (opened,) = client.commands()
        assert isinstance(opened, OpenVoice) and opened.config.voice == ""
        (info,) = client.seen()
        assert (info["type"], info["code"]) == ("info", "voice_substituted")


class TestSound:
    def test_sound_reaches_the_voice(self) -> None:
        client = Client().started()
        client.send(type="session.input_audio.append", audio=PCM)
        assert client.commands() == [Hear(bytes(960))]
        assert client.seen() == []

    @pytest.mark.parametrize(
        ("audio", "code"),
        [("***", "invalid_value"), ("AAA=", "ok"), ("AA==", "invalid_value"), ("A" * 960_008, "")],
    )
    def test_what_is_no_sound(self, audio: str, code: str) -> None:
        client = Client().started()
        client.send(type="session.input_audio.append", audio=audio)
        errors = client.errors()
        if code == "ok":
            assert errors == []
        else:
            assert [error[1] for error in errors] == ["audio"]

    def test_sound_before_the_voice_is_open_waits_for_it(self) -> None:
        client = Client().over_socket()
        client.send(type="session.start", session={"model": "m"})
        client.commands()
        pieces = [bytes([n]) * 960 for n in range(5)]
        for piece in pieces:
            client.send(type="session.input_audio.append", audio=base64.b64encode(piece).decode())
        client.send(type="session.commentary.append", content="Hello.")
        assert client.commands() == []
        client.session.receive_opened(client.now)
        told, *heard = client.commands()
        assert isinstance(told, Tell)
        assert heard == [Hear(piece, early=True) for piece in pieces]
        client.send(type="session.input_audio.append", audio=PCM)
        assert client.commands() == [Hear(bytes(960))]
        assert client.session.dropped_sound_ms == 0

    @pytest.mark.parametrize(
        ("given", "octets_per_s"),
        [
            (None, 48_000),
            ({"type": "audio/pcm", "rate": 16_000}, 32_000),
            ({"type": "audio/pcmu"}, 8_000),
        ],
    )
    def test_of_sound_that_comes_too_early_the_last_is_kept(
        self, given: dict[str, object] | None, octets_per_s: int
    ) -> None:
        client = Client(early_audio_s=2.0).over_socket()
        audio = {} if given is None else {"audio": {"format": given}}
        client.send(type="session.start", session={"model": "m", **audio})
        client.commands()
        whole = np.random.default_rng(1).bytes(octets_per_s * 7)
        size = octets_per_s // 10 + 2
        for at in range(0, len(whole), size):
            piece = base64.b64encode(whole[at : at + size]).decode()
            client.send(type="session.input_audio.append", audio=piece)
        client.session.receive_opened(client.now)
        heard = b"".join(one.sound for one in client.commands() if isinstance(one, Hear))
        assert heard == whole[-2 * octets_per_s :]
        assert client.session.dropped_sound_ms == 5_000

    def test_what_is_no_sound_is_told_before_the_voice_is_open(self) -> None:
        client = Client().over_socket()
        client.send(type="session.start", session={"model": "m"})
        client.send(type="session.input_audio.append", audio="AA==", event_id="e")
        assert client.errors() == [("invalid_value", "audio", "e")]

    def test_what_is_said_while_muted_is_not_heard_later(self) -> None:
        client = Client().over_socket()
        client.send(type="session.start", session={"model": "m"})
        client.commands()
        client.send(type="session.input_audio.mute")
        client.send(type="session.input_audio.append", audio=PCM)
        client.send(type="session.input_audio.unmute")
        client.session.receive_opened(client.now)
        assert client.commands() == [Mute(True), Mute(False)]
        assert client.session.dropped_sound_ms == 0

    def test_mute_is_acknowledged(self) -> None:
        client = Client().started()
        client.send(type="session.input_audio.mute", event_id="e")
        client.send(type="session.input_audio.unmute")
        assert client.commands() == [Mute(True), Mute(False)]
        muted, unmuted = client.seen()
        assert (muted["type"], muted["client_event_id"]) == ("session.input_audio.muted", "e")
        assert unmuted["type"] == "session.input_audio.unmuted"


class TestTranscript:
    def test_what_was_heard_for_good_is_told_with_its_span(self) -> None:
        client = Client().started()
        client.voice(
            InText(delta="what", start_ms=0, end_ms=300, final=False),
            InText(delta="what is the time", start_ms=0, end_ms=900),
            InText(delta="please", start_ms=900, end_ms=1200),
        )
        first, second = client.seen()
        assert first["type"] == "session.input_transcript.delta"
        assert (first["delta"], first["start_ms"], first["end_ms"]) == ("what is the time", 0, 900)
        assert second["delta"] == " please"  # fragments are put together as they are
        assert client.commands() == [TurnEnded(), TurnEnded()]

    def test_what_we_say_is_told_as_it_is_played(self) -> None:
        client = Client().started()
        client.voice(SpeakingOn(at_ms=0), OutText(delta="It is noon now", start_ms=0, end_ms=1200))
        assert client.seen() == []
        client.play(1200)
        told = client.seen()
        assert "".join(e["delta"] for e in told) == "It is noon now"
        assert told[0]["end_ms"] < 1200 == told[-1]["end_ms"]

    def test_what_was_not_played_is_never_told(self) -> None:
        client = Client().started()
        client.voice(OutText(delta="It is noon now", start_ms=0, end_ms=1200))
        client.play(600)
        client.voice(Cancelled(at_ms=600, played_ms=600))
        client.play(2000)
        assert "".join(e["delta"] for e in client.seen()) == "It is"
        assert [item.text for item in client.session.talk.transcript.final()] == ["It is"]

    def test_the_two_views_are_for_those_who_ask(self) -> None:
        client = Client().started(transcript_views=True)
        client.voice(InText(delta="what time", start_ms=0, end_ms=500, final=False))
        client.voice(InText(delta="what time is it", start_ms=0, end_ms=900))
        client.play(1800)
        seen = client.seen()
        drafts = [e["item"] for e in seen if e["type"] == "transcript.draft"]
        (final,) = [e["item"] for e in seen if e["type"] == "transcript.final"]
        assert {item["id"] for item in [*drafts, final]} == {"item_1"}
        assert (final["text"], final["speaker"]) == ("what time is it", "user")
        assert [item["rev"] for item in drafts] == sorted(item["rev"] for item in drafts)


class TestAppending:
    @pytest.mark.parametrize("kind", ["instructions", "thinking", "commentary"])
    def test_texts_are_told_and_acknowledged(self, kind: str) -> None:
        client = Client().started()
        client.play(400)
        client.send(
            type=f"session.{kind}.append", content="Noon.", delegation_id=None, event_id="e"
        )
        assert client.commands() == [Tell(Inject(kind), "Noon.", None)]
        (event,) = client.seen()
        assert event["type"] == f"session.{kind}.appended"
        assert (event["start_ms"], event["client_event_id"]) == (400, "e")

    @pytest.mark.parametrize("content", ["", " \n", "x" * 3001])
    def test_limits(self, content: str) -> None:
        client = Client().started()
        client.send(type="session.thinking.append", content=content, delegation_id=None)
        assert [error[1] for error in client.errors()] == ["content"]
        assert client.commands() == []


class TestDelegation:
    def test_the_client_is_given_an_id_and_answers_by_it(self) -> None:
        client = Client().started(delegation={"type": "client", "acknowledgement_delay_ms": 400})
        client.voice(InText(delta="flights to Rome", start_ms=0, end_ms=900))
        client.seen()
        client.commands()
        client.voice(Delegate(delegation_id="d1", offset_ms=940))
        client.voice(Delegate(delegation_id="d1", offset_ms=960))
        (created,) = client.seen()
        assert created["type"] == "session.delegation.created"
        assert created["offset_ms"] == 940
        assert created["delegation"] == {"id": "d1", "type": "delegation", "target": "client"}
        client.send(type="session.commentary.append", content="Three.", delegation_id="d1")
        assert client.commands() == [Tell(Inject.COMMENTARY, "Three.", "d1")]
        client.session.handle_timer(client.now + 1.0)
        assert client.commands() == []  # the answer has made the acknowledgement superfluous

    def test_silence_is_acknowledged_aloud(self) -> None:
        client = Client().started(delegation={"type": "client", "acknowledgement_delay_ms": 400})
        client.voice(Delegate(delegation_id="d1", offset_ms=0))
        assert client.session.get_timer() == client.now + 0.4
        client.session.handle_timer(client.now + 0.4)
        (tell,) = client.commands()
        assert isinstance(tell, Tell) and tell.kind is Inject.COMMENTARY

    def test_a_voice_that_acknowledges_itself_is_not_told_to(self) -> None:
        client = Client().started(delegation={"type": "client", "acknowledgement_delay_ms": 0})
        client.voice(Delegate(delegation_id="d1", offset_ms=0, acknowledged=True))
        client.session.handle_timer(client.now + 1.0)
        assert client.commands() == []

    def test_a_voice_that_speaks_itself_needs_no_acknowledgement(self) -> None:
        client = Client().started(delegation={"type": "client", "acknowledgement_delay_ms": 400})
        client.voice(Delegate(delegation_id="d1", offset_ms=0), SpeakingOn(at_ms=20))
        client.voice(Delegate(delegation_id="d2", offset_ms=40))
        client.session.handle_timer(client.now + 1.0)
        assert client.commands() == []

    def test_an_id_that_nobody_gave_out(self) -> None:
        client = Client().started()
        client.send(type="session.commentary.append", content="x", delegation_id="d9", event_id="e")
        assert client.errors() == [("not_found", "delegation_id", "e")]

    def test_a_responses_service_is_asked_by_us(self) -> None:
        client = Client().started(delegation=RESPONSES)
        client.voice(InText(delta="flights to Rome", start_ms=0, end_ms=900))
        client.voice(Delegate(delegation_id="d1", offset_ms=940))
        _, work = client.commands()
        assert isinstance(work, Work)
        assert work.request.ask == "user: flights to Rome"
        client.seen()
        client.session.receive_response("d1", {"type": "response.created", "x": None})
        (event,) = client.seen()
        assert event["delegation_id"] == "d1"
        assert event["event"] == {"type": "response.created", "x": None}

    def test_items_and_going_on(self) -> None:
        client = Client().started(delegation=RESPONSES)
        item = {"type": "function_call_output", "call_id": "c", "output": "3"}
        client.send(type="response.item.create", item=item)
        client.send(type="response.create")
        assert client.commands() == [AddItem(item), GoOn()]
        other = Client().started()
        other.send(type="response.create", event_id="e")
        assert other.errors() == [("invalid_state", None, "e")]

    def test_settings_may_change_and_the_owner_may_not(self) -> None:
        client = Client().started(delegation=RESPONSES)
        changed = {"type": "responses", "responses": {"instructions": "Be quick."}}
        client.send(type="session.update", event_id="e", session={"delegation": changed})
        (command,) = client.commands()
        assert isinstance(command, Reconfigure)
        assert (command.backend.model, command.backend.instructions) == ("gpt-5", "Be quick.")
        (updated,) = client.seen()
        assert updated["type"] == "session.updated"
        assert updated["session"]["delegation"]["responses"]["instructions"] == "Be quick."
        client.send(type="session.update", session={"delegation": {"type": "client"}})
        assert [error[0] for error in client.errors()] == ["immutable"]


class TestUntrustedPage:
    def test_what_it_may_not_send_is_refused(self) -> None:
        client = Client().over_media(
            client={"data_channel": {"allowed_client_events": ["session.close"]}}
        )
        client.seen()
        client.send(
            type="session.instructions.append", content="x", delegation_id=None, event_id="e"
        )
        assert client.errors() == [("event_not_allowed", "type", "e")]
        client.send(type="session.close")
        assert client.kinds() == ["session.closed"]

    def test_what_it_may_not_see_is_not_sent(self) -> None:
        allowed = [
            {"type": "response.event", "response_event": "response.completed"},
            {"type": "session.started"},
            "info",
        ]
        client = Client().over_media(
            client={"data_channel": {"allowed_server_events": allowed}},
            delegation=RESPONSES,
        )
        sideband = client.session.attach(DoorKind.SIDEBAND)
        client.session.receive_response("d", {"type": "response.created"})
        client.session.receive_response("d", {"type": "response.completed"})
        client.voice(InText(delta="hello", start_ms=0, end_ms=300))
        everything = client.session.outgoing()
        page = [o.event.type for o in everything if o.door == client.door]
        trusted = [o.event.type for o in everything if o.door == sideband]
        assert page == ["session.started", "info", "response.event"]
        assert trusted == [
            "session.started", "info", "response.event", "response.event",
            "session.input_transcript.delta",
        ]  # fmt: skip

    def test_an_empty_list_allows_nothing(self) -> None:
        client = Client().over_media(
            client={"data_channel": {"allowed_client_events": [], "allowed_server_events": []}}
        )
        client.send(type="session.close")
        assert client.seen() == []
        assert client.session.phase is Phase.ACTIVE

    def test_a_session_with_media_has_no_sound_in_events(self) -> None:
        client = Client().over_media()
        client.seen()
        client.send(type="session.input_audio.append", audio=PCM, event_id="a")
        client.send(type="session.start", session={"model": "m"}, event_id="b")
        assert client.errors() == [
            ("event_not_allowed", "type", "a"),
            ("event_not_allowed", "type", "b"),
        ]

    def test_media_negotiates_its_own_format(self) -> None:
        client = Client()
        asked = SessionConfig.model_validate(
            {"model": "m", "audio": {"format": {"type": "audio/pcm", "rate": 24000}}}
        )
        with pytest.raises(LiveFault, match="its own format"):
            client.session.receive_offer(asked)


class TestEnd:
    def test_a_client_closes(self) -> None:
        client = Client().started()
        client.voice(OutText(delta="It is noon", start_ms=0, end_ms=900))
        client.play(600)
        client.send(type="session.close", event_id="e")
        *_, closed = client.seen()
        assert (closed["type"], closed["reason"]) == ("session.closed", "close_requested")
        assert (closed["usage"]["seconds"], closed["client_event_id"]) == (0.6, "e")
        assert client.commands() == [Leave()]
        client.send(type="session.close")
        client.session.close("expired")
        assert client.seen() == client.commands() == []

    def test_it_expires(self) -> None:
        client = Client(expires_after_s=60.0).started()
        client.session.handle_timer(client.now + 59)
        assert client.session.phase is Phase.ACTIVE
        client.session.handle_timer(client.now + 60)
        assert client.seen()[-1]["reason"] == "expired"

    def test_it_ends_with_its_socket_and_not_with_a_sideband(self) -> None:
        client = Client().started()
        sideband = client.session.attach(DoorKind.SIDEBAND)
        client.session.detach(sideband)
        assert client.session.phase is Phase.ACTIVE
        other = client.session.attach(DoorKind.SIDEBAND)
        client.session.detach(client.door)
        assert client.seen(other)[-1]["reason"] == "connection_lost"

    def test_a_sideband_closes_for_all(self) -> None:
        client = Client().over_media()
        sideband = client.session.attach(DoorKind.SIDEBAND)
        client.seen()
        client.session.receive_text(sideband, '{"type": "session.close"}', client.now)
        assert client.seen()[-1]["reason"] == "close_requested"


class TestBadInput:
    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("", "invalid_json"),
            ("{", "invalid_json"),
            ("[]", "invalid_json"),
            ('{"type": "session.close", "x": NaN}', "invalid_json"),
            ("[" * 100_000, "invalid_json"),
            ('{"a":' * 40 + "1" + "}" * 40, "invalid_json"),
            ('{"type": "session.close", "event_id": "\\ud800"}', "invalid_json"),
            ('{"type": "session.input_audio.append", "event_id": "\\ud800"}', "invalid_json"),
            (b"\xff\xfe", "invalid_json"),
            ("{}", "missing_type"),
            ('{"type": 7}', "missing_type"),
            ('{"type": "session.dance"}', "unknown_event"),
            ('{"type": "decision.create"}', "unsupported_event"),
            ('{"type": "session.close", "extra": 1}', "unknown_parameter"),
            ('{"type": "session.close", "event_id": 7}', "invalid_value"),
            ('{"type": "session.started"}', "unknown_event"),
            ('{"type": "' + "x" * 10_000_000 + '"}', "event_too_large"),
        ],
    )
    def test_it_is_refused_by_name(self, text: str | bytes, code: str) -> None:
        client = Client().started()
        client.session.receive_text(client.door, text, client.now)
        (event,) = client.seen()
        assert event["error"]["code"] == code
        assert len(json.dumps(event)) < 2000
        assert client.session.phase is Phase.ACTIVE

    def test_the_id_of_an_unknown_event_is_said_back(self) -> None:
        client = Client().started()
        client.send(type="session.dance", event_id="e")
        assert client.errors() == [("unknown_event", "type", "e")]

    def test_a_flood_is_refused_and_complained_of_once_a_second(self) -> None:
        client = Client(events_per_s=10.0, events_burst=20).started()
        for n in range(1000):
            client.send(
                type="session.thinking.append", content="x", delegation_id=None, event_id=f"e{n}"
            )
        assert 19 <= len(client.commands()) <= 20
        assert [error[0] for error in client.errors()] == ["rate_limited"]
        assert client.session.dropped >= 980
        client.now += 1.1
        for _ in range(50):
            client.send(type="session.input_audio.mute")
        assert client.kinds().count("error") == 1

    @pytest.mark.parametrize(
        "text",
        [
            "{",
            '{"type": "session.dance"}',
            '{"type": "session.input_audio.append", "audio": "no"}',
            '{"type": "session.close", "extra": 1}',
        ],
    )
    def test_a_flood_of_what_is_none_is_not_answered_one_by_one(self, text: str) -> None:
        client = Client(events_per_s=10.0, events_burst=20).started()
        for _ in range(1000):
            client.session.receive_text(client.door, text, client.now)
        codes = [error[0] for error in client.errors()]
        assert 19 <= len(codes) - codes.count("rate_limited") <= 20
        assert codes.count("rate_limited") == 1
        assert client.session.dropped >= 980

    def test_sound_as_it_is_spoken_is_no_flood(self) -> None:
        """A hundred pieces a second for a minute, and other events beside."""
        client = Client().started()
        for n in range(6_000):
            client.now += 0.01
            client.send(type="session.input_audio.append", audio=PCM)
            if n % 5 == 0:
                client.send(type="session.input_audio.mute")
        assert len(client.commands()) == 6_000 + 1_200
        assert client.session.dropped == 0

    def test_more_pieces_of_sound_than_anybody_speaks_are_a_flood(self) -> None:
        client = Client(events_per_s=10.0, events_burst=20).started()
        for _ in range(1_000):
            client.send(type="session.input_audio.append", audio=PCM)
        assert len(client.commands()) == 4 * 19, "four of them count as one event"
        assert [error[0] for error in client.errors()] == ["rate_limited"]
        assert client.session.dropped >= 900

    def test_who_floods_can_still_end_it(self) -> None:
        client = Client(events_per_s=10.0, events_burst=20).started()
        for _ in range(1_000):
            client.send(type="session.input_audio.append", audio=PCM)
        client.send(type="session.close")
        assert client.kinds()[-1] == "session.closed"

    def test_what_nobody_fetches_is_bounded(self) -> None:
        client = Client(outgoing=50).started()
        for n in range(500):
            client.voice(InText(delta="x", start_ms=n * 20, end_ms=n * 20 + 20))
        assert len(client.session.outgoing()) == 50
        assert client.session.dropped == 450

    def test_a_conversation_of_an_hour_leaves_nothing_behind(self) -> None:
        client = Client().started(transcript_views=True)
        for start in range(0, 3_600_000, 60_000):
            client.voice(
                InText(delta="and then", start_ms=start, end_ms=start + 500),
                OutText(delta="I see", start_ms=start + 600, end_ms=start + 1000),
                Delegate(delegation_id=f"d{start}", offset_ms=start),
            )
            client.session.receive_played(start + 30_000)
            client.session.receive_played(start + 60_000)
            client.seen()
            client.commands()
        assert len(client.session.talk.transcript.draft()) <= 36


def test_usage_is_told_at_intervals_and_at_the_end() -> None:
    client = Client(usage_interval_s=10.0).started()
    for at in range(0, 25_000, 20):
        client.session.receive_played(at, 0.25)
    usages = [e for e in client.seen() if e["type"] == "session.usage.updated"]
    assert [e["usage"]["seconds"] for e in usages] == [10.0, 20.0]
    assert usages[0]["context_window"] == {"usage_ratio": 0.25}


def test_what_is_asked_before_the_voice_is_open_is_answered_behind_the_start() -> None:
    client = Client().over_socket()
    client.send(type="session.start", session={"model": "m"})
    client.send(type="session.commentary.append", content="Hello.", event_id="first")
    client.send(type="session.input_audio.mute", event_id="second")
    assert client.seen() == []
    client.session.receive_opened(client.now)
    seen = client.seen()
    assert [event["type"] for event in seen] == [
        "session.started",
        "session.commentary.appended",
        "session.input_audio.muted",
    ]
    assert [event.get("client_event_id") for event in seen[1:]] == ["first", "second"]


@pytest.mark.parametrize(
    ("members", "attended", "delegates"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"delegation": {"type": "responses"}}, False, True),
    ],
)
def test_a_voice_gives_work_away_where_somebody_does_it(
    members: dict[str, object], attended: bool, delegates: bool
) -> None:
    session = Client().session
    asked = SessionConfig.model_validate({"model": "m", **members})
    session.receive_offer(asked, attended=attended)
    (opened,) = (one for one in session.commands() if isinstance(one, OpenVoice))
    assert opened.config.delegates is delegates


def test_a_client_that_names_no_model_gets_the_servers() -> None:
    client = Client().over_socket()
    client.send(type="session.start", session={"model": "m", "delegation": {"type": "responses"}})
    (opened,) = client.commands()
    assert isinstance(opened, OpenVoice)
    assert opened.backend is not None
    assert opened.backend.model is None
    client.session.receive_opened(client.now)
    delegation = {"type": "responses", "responses": {"model": "other"}}
    client.send(type="session.update", session={"delegation": delegation})
    (changed,) = client.commands()
    assert isinstance(changed, Reconfigure)
    assert changed.backend.model == "other"
