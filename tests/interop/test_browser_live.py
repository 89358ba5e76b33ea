"""Browsers create live sessions over WebRTC: JSON in, SDP back, events on `oai-events`."""

from __future__ import annotations

import pytest

from instant_connect.config import SignallingConfig
from interop.chromium import ChromiumProcess
from interop.firefox import FirefoxProcess
from interop.site import Site
from tests.interop.chromium import DEFAULT, Chromiums
from tests.interop.loops import run
from tests.unit.voice_backend.io.live_site import live_site
from voice_backend.models.scripted import Ask, Hear, Say

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SCRIPT = {
    50: [Hear(text="what is the time", frames=20)],
    60: [Ask(delegation_id="dlg_1"), Say(frames=60, text="let me see")],
}
PAGE = """(async (url) => {
  const peer = new RTCPeerConnection();
  const seen = [];
  const microphone = await navigator.mediaDevices.getUserMedia({audio: true});
  microphone.getTracks().forEach((track) => peer.addTrack(track, microphone));
  const speaker = new Audio();
  peer.ontrack = ({track}) => {
    speaker.srcObject = new MediaStream([track]);
    speaker.play();
  };
  const channel = peer.createDataChannel("oai-events");
  const closed = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("seen: " + JSON.stringify(seen))), 25000);
    channel.onmessage = ({data}) => {
      const event = JSON.parse(data);
      seen.push(event);
      if (event.type === "session.delegation.created") {
        channel.send(JSON.stringify({
          type: "session.commentary.append", content: "It is noon.", event_id: "c1",
          delegation_id: event.delegation.id,
        }));
      }
      const said = seen.filter((e) => e.type === "session.output_transcript.delta")
        .map((e) => e.delta).join("");
      if (said.includes("noon") && !seen.done) {
        seen.done = true;
        channel.send(JSON.stringify({type: "session.close"}));
      }
      if (event.type === "session.closed") resolve(said);
    };
  });
  await peer.setLocalDescription();
  const answer = await fetch(url + "/v1/live/sessions", {
    method: "POST",
    headers: {"Content-Type": "application/json", Authorization: "Bearer sk-page"},
    body: JSON.stringify({
      session: {model: "scripted", transcript_views: true},
      transport: {type: "webrtc", sdp: peer.localDescription.sdp},
    }),
  });
  const created = await answer.json();
  await peer.setRemoteDescription({type: "answer", sdp: created.transport.sdp});
  const said = await closed;
  let loudest = 0;
  for (const report of [...(await peer.getStats()).values()]) {
    if (report.type === "inbound-rtp") loudest = report.totalAudioEnergy;
  }
  peer.close();
  return {status: answer.status, id: created.session.id, said, loudest, seen};
})"""


async def conversation(process: ChromiumProcess | FirefoxProcess) -> None:
    """Let a page of the browser hold the scripted conversation."""
    signalling = SignallingConfig(cors_origins=("*",))
    async with (
        live_site({"": SCRIPT}, webrtc=True, signalling=signalling) as served,
        Site() as site,
        process.attach() as browser,
    ):
        page = await browser.open(site.url)
        found = await page.evaluate(f"{PAGE}({served.url!r})", timeout_s=40)
    assert found["status"] == 201
    assert found["said"] == "let me see It is noon."
    assert found["loudest"] > 0  # it was heard, not only written
    kinds = [event["type"] for event in found["seen"]]
    assert kinds[0] == "session.started"
    assert found["seen"][0]["session"]["id"] == found["id"]
    assert kinds[-1] == "session.closed"
    finals = [e["item"] for e in found["seen"] if e["type"] == "transcript.final"]
    assert [(i["speaker"], i["text"]) for i in finals][:1] == [("user", "what is the time")]
    drafts = [e["item"]["id"] for e in found["seen"] if e["type"] == "transcript.draft"]
    assert set(drafts) >= {item["id"] for item in finals}


def test_chromium(chromium: Chromiums) -> None:
    run(conversation(chromium(DEFAULT)), seconds=60)


def test_firefox(firefox: FirefoxProcess) -> None:
    run(conversation(firefox), seconds=60)
