"""Two of our connections: descriptions, states, sound, and every way to err."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.unit.compat.pairs import Log, connected, exchange, pair, until
from tests.unit.compat.sound import Tone, samples_of, share_of
from tests.unit.io.servers import stun_server
from tests.unit.io.support import play
from warp.compat.aiortc import (
    AudioStreamTrack,
    InternalError,
    InvalidAccessError,
    InvalidStateError,
    MediaStreamError,
    MediaStreamTrack,
    NotSupportedError,
    RTCConfiguration,
    RTCIceCandidate,
    RTCIceServer,
    RTCPeerConnection,
    RTCSessionDescription,
)
from warp.compat.aiortc import call as compat_call
from warp.io import ClientConfig, WarpOptions
from warp.sdp import SdpError, parse_description

VIDEO = """m=video 9 UDP/TLS/RTP/SAVPF 96\r
c=IN IP4 0.0.0.0\r
a=mid:v\r
a=sendrecv\r
a=rtcp-mux\r
a=rtpmap:96 VP8/90000\r
"""


class Picture(MediaStreamTrack):
    kind = "video"


@pytest.mark.slow
def test_a_call_from_its_offer_to_its_end() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            log, other = Log(caller), Log(callee)
            said, answered = Tone(440), Tone(880)
            sender = caller.addTrack(said)
            await exchange(caller, callee)
            assert caller.getTransceivers()[0].currentDirection == "sendonly"
            [transceiver] = callee.getTransceivers()
            assert (transceiver.direction, transceiver.mid) == ("recvonly", "0")
            await connected(caller, callee)

            callee.addTrack(answered)
            assert transceiver.direction == "sendrecv"
            await exchange(callee, caller)
            frames = [await other.tracks[0].recv() for _ in range(30)]
            replies = [await log.tracks[0].recv() for _ in range(30)]
            assert share_of(440, samples_of(frames[5:])) > 0.95
            assert share_of(880, samples_of(replies[5:])) > 0.95
            assert (other.tracks[0].id, log.tracks[0].id) == (said.id, answered.id)
            assert sender.track is said
            # nobody asked for more than a little ahead of its time
            assert said.taken < 100

            stats = {entry.type: entry for entry in (await caller.getStats()).values()}
            assert stats["outbound-rtp"].packetsSent >= 30
            assert stats["outbound-rtp"].trackId == said.id
            assert stats["inbound-rtp"].packetsReceived >= 30
            assert stats["inbound-rtp"].packetsLost == 0
            assert stats["transport"].iceRole == "controlling"
            assert stats["outbound-rtp"].ssrc != stats["inbound-rtp"].ssrc != 0

            await caller.close()
            assert (said.readyState, log.tracks[0].readyState) == ("ended", "ended")
            with pytest.raises(MediaStreamError):
                while True:
                    await other.tracks[0].recv()
            await until(lambda: callee.connectionState == "closed")
            assert answered.readyState == "ended"
        assert log.of("signalingState") == [
            "have-local-offer", "stable", "have-remote-offer", "stable", "closed",
        ]  # fmt: skip
        assert other.of("connectionState") == ["connecting", "connected", "closed"]
        assert other.of("iceConnectionState") == ["checking", "completed", "closed"]
        assert other.of("iceGatheringState") == ["gathering", "complete"]
        assert other.of("track") == ["audio", "ended"]

    play(story)


def test_an_offer_names_what_was_added_and_nothing_else() -> None:
    async def story() -> None:
        async with pair() as (peer, _):
            with pytest.raises(InternalError, match="add a track"):
                await peer.createOffer()
            peer.createDataChannel("chat")
            offer = await peer.createOffer()
            [section] = parse_description(offer.sdp).media
            assert section.is_data
            peer.addTransceiver("audio", direction="recvonly")
            await peer.setLocalDescription()
            described = parse_description(peer.localDescription.sdp)
            audio, data = described.media
            assert (audio.direction.text, audio.sources, data.is_data) == ("recvonly", (), True)
            assert described.bundles == ((audio.mid, data.mid),)
            assert audio.port and audio.transport.candidates and audio.transport.end_of_candidates
            assert peer.getTransceivers()[0].mid == audio.mid

    play(story)


def test_always_negotiate_data_channels() -> None:
    async def story() -> None:
        async with pair(RTCConfiguration(alwaysNegotiateDataChannels=True)) as (peer, _):
            [section] = parse_description((await peer.createOffer()).sdp).media
            assert section.is_data

    play(story)


@pytest.mark.slow
def test_sound_goes_the_short_way_with_a_peer_whose_path_was_there_before_its_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = partial(ClientConfig, warp=WarpOptions(sped=False))
    monkeypatch.setattr(compat_call, "ClientConfig", without)

    async def story() -> None:
        async with pair() as (caller, callee):
            caller.addTrack(Tone(440))
            await exchange(caller, callee)
            await connected(caller, callee)
            for peer in (caller, callee):
                call = peer._call
                assert call is not None and call.peer.lane is not None and call.routes
                lanes = {port._routes[key].lane for port, key in call.routes}
                assert lanes == {call.peer.lane}

    play(story)


@pytest.mark.slow
def test_sound_may_join_a_call_that_began_with_a_channel() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            other = Log(callee)
            channel = caller.createDataChannel("chat")
            await exchange(caller, callee)
            await until(lambda: channel.readyState == "open")
            caller.addTrack(Tone(440))
            await exchange(caller, callee)
            assert caller.getTransceivers()[0].mid != "1"
            frame = await other.tracks[0].recv()
            assert frame.sample_rate == 48_000
            channel.send("still here")
            await until(lambda: other.messages == ["still here"])

    play(story)


@pytest.mark.slow
def test_a_track_can_be_replaced_taken_away_and_end() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            other = Log(callee)
            sender = caller.addTrack(Tone(440, frames=25))
            await exchange(caller, callee)
            first = sender.track
            await until(lambda: first.readyState == "ended")
            frames = [await other.tracks[0].recv() for _ in range(20)]
            assert share_of(440, samples_of(frames[5:])) > 0.9
            with pytest.raises(InvalidAccessError):
                sender.replaceTrack(Picture())
            sender.replaceTrack(None)
            second = Tone(880)
            sender.replaceTrack(second)
            frames = [await other.tracks[0].recv() for _ in range(30)]
            assert share_of(880, samples_of(frames[15:])) > 0.9
            await caller.getTransceivers()[0].stop()
            assert (second.readyState, caller.getTransceivers()[0].stopped) == ("ended", True)
            await exchange(caller, callee)
            assert callee.getTransceivers()[0].currentDirection == "inactive"
            # what comes instead takes over its section
            caller.addTrack(Tone(660))
            await exchange(caller, callee)
            assert [t.currentDirection for t in caller.getTransceivers()] == ["sendonly"]

    play(story)


@pytest.mark.slow
def test_a_track_that_fails_is_reported_and_the_call_goes_on() -> None:
    class Broken(AudioStreamTrack):
        async def recv(self):
            raise RuntimeError("no microphone")

    reported: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, c: reported.append(str(c["exception"])))
        async with pair() as (caller, callee):
            track = Broken()
            caller.addTrack(track)
            channel = caller.createDataChannel("chat")
            await exchange(caller, callee)
            await until(lambda: reported and channel.readyState == "open")
            assert track.readyState == "ended"

    play(story)
    assert reported == ["no microphone"]


@pytest.mark.slow
def test_video_is_refused_by_name() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            for refused in (lambda: caller.addTrack(Picture()),
                            lambda: caller.addTransceiver("video")):  # fmt: skip
                with pytest.raises(NotSupportedError, match="video is not supported"):
                    refused()
            with pytest.raises(InternalError):
                caller.addTransceiver("smell")
            heard = Log(callee)
            caller.addTrack(AudioStreamTrack())
            offer = await caller.createOffer()
            await callee.setRemoteDescription(RTCSessionDescription(offer.sdp + VIDEO, "offer"))
            answer = await callee.createAnswer()
            audio, video = parse_description(answer.sdp).media
            assert (audio.rejected, video.rejected, video.kind) == (False, True, "video")
            assert heard.of("track") == ["audio"]

    play(story)


def test_one_audio_track_each_way() -> None:
    async def story() -> None:
        async with pair() as (peer, _):
            track = AudioStreamTrack()
            peer.addTrack(track)
            with pytest.raises(InvalidAccessError):
                peer.addTrack(track)
            with pytest.raises(InvalidAccessError):
                peer.addTransceiver(track)
            with pytest.raises(NotSupportedError, match="replaceTrack"):
                peer.addTrack(AudioStreamTrack())
            with pytest.raises(NotSupportedError):
                peer.addTransceiver("audio")
            assert [s.track for s in peer.getSenders()] == [track]
            assert [r.track for r in peer.getReceivers()] == [None]

    play(story)


def test_what_comes_at_the_wrong_time_changes_nothing() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            caller.createDataChannel("chat")
            with pytest.raises(InvalidStateError):
                await caller.createAnswer()
            offer = await caller.createOffer()
            with pytest.raises(InvalidStateError, match="stable"):
                await caller.setRemoteDescription(RTCSessionDescription(offer.sdp, "answer"))
            with pytest.raises(InvalidStateError, match="pranswer"):
                await callee.setRemoteDescription(RTCSessionDescription(offer.sdp, "pranswer"))
            with pytest.raises(SdpError):
                await callee.setRemoteDescription(RTCSessionDescription("nonsense", "offer"))
            assert (callee.signalingState, callee.remoteDescription) == ("stable", None)
            await callee.setRemoteDescription(offer)
            with pytest.raises(InvalidStateError):
                await callee.createOffer()
            await callee.setRemoteDescription(RTCSessionDescription("", "rollback"))
            assert (callee.signalingState, callee.remoteDescription) == ("stable", None)
            await exchange(caller, callee)
            await connected(caller, callee)

    play(story)


def test_candidates_may_come_later() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            caller.createDataChannel("chat")
            await caller.setLocalDescription()
            await callee.setRemoteDescription(caller.localDescription)
            await callee.setLocalDescription()
            sdp = callee.localDescription.sdp
            lines = [line for line in sdp.splitlines() if line.startswith("a=candidate:")]
            bare = "".join(f"{line}\r\n" for line in sdp.splitlines()
                           if "candidate" not in line)  # fmt: skip
            with pytest.raises(ValueError, match="sdpMid"):
                await caller.addIceCandidate(RTCIceCandidate(1, "f", "h", 1, 1, "udp", "host"))
            await caller.setRemoteDescription(RTCSessionDescription(bare, "answer"))
            from warp.compat.aiortc.sdp import candidate_from_sdp

            for line in lines:
                candidate = candidate_from_sdp(line.removeprefix("a="))
                candidate.sdpMid = "0"
                await caller.addIceCandidate(candidate)
            await caller.addIceCandidate(None)
            await connected(caller, callee)

    play(story)


def test_a_description_is_complete_when_it_is_set() -> None:
    async def story() -> None:
        async with stun_server(mapped=("203.0.113.7", 4242)) as server:
            url = f"stun:{server.address[0]}:{server.address[1]}"
            configuration = RTCConfiguration(iceServers=[RTCIceServer(url)])
            async with pair(configuration) as (caller, _):
                log = Log(caller)
                caller.createDataChannel("chat")
                await caller.setLocalDescription(await caller.createOffer())
                [section] = parse_description(caller.localDescription.sdp).media
                kinds = [line.split(" typ ")[1].split(" ")[0] for line in
                         section.transport.candidates]  # fmt: skip
                assert kinds == ["host", "srflx"]
                assert log.of("iceGatheringState") == ["gathering", "complete"]

    play(story)


def test_closed_is_closed() -> None:
    async def story() -> None:
        peer = RTCPeerConnection()
        log = Log(peer)
        await peer.close()
        await peer.close()
        assert log.entries == [
            ("signalingState", "closed"), ("iceConnectionState", "closed"),
            ("connectionState", "closed"),
        ]  # fmt: skip
        for refused in (peer.createOffer, peer.createAnswer, peer.setLocalDescription):
            with pytest.raises(InvalidStateError, match="closed"):
                await refused()
        with pytest.raises(InvalidStateError):
            peer.addTrack(AudioStreamTrack())
        with pytest.raises(InvalidStateError):
            peer.createDataChannel("late")
        assert await peer.getStats() == {}

    play(story)


def test_a_call_that_fails_says_so() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            channel = caller.createDataChannel("chat")
            log = Log(caller)
            log.watch(channel)
            await caller.setLocalDescription()
            await callee.setRemoteDescription(caller.localDescription)
            await callee.setLocalDescription()
            wrong = callee.localDescription.sdp.replace(
                "a=fingerprint:sha-256 ", "a=fingerprint:sha-256 00:"
            )
            wrong = "".join(
                f"{line[:-3] if 'a=fingerprint' in line else line}\r\n"
                for line in wrong.splitlines()
            )
            await caller.setRemoteDescription(RTCSessionDescription(wrong, "answer"))
            await until(lambda: caller.connectionState == "failed")
            assert (caller.iceConnectionState, channel.readyState) == ("failed", "closed")
            await caller.close()
            assert log.of("connectionState") == ["connecting", "failed", "closed"]

    play(story)
