// One start of a call, timed in this page: t = 0 is when the offer is sent.
let context; // of sound, running before anything is timed
let answerer;

// Get ready for what is not timed: sound, and the microphone's permission.
async function prepare() {
  if (!context) {
    context = new AudioContext({ sampleRate: 48000 });
    await context.audioWorklet.addModule("onset.js");
  }
  if (context.state !== "running") await context.resume();
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
  const pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  for (const track of microphone.getAudioTracks()) pc.addTrack(track, microphone);
  const channel = pc.createDataChannel("talk", { negotiated: true, id: 0 });
  const end = () => {
    pc.close();
    microphone.getTracks().forEach((track) => track.stop());
  };
  return { pc, channel, end };
}

async function hear(track, heard) {
  const stream = new MediaStream([track]);
  // Chromium feeds Web Audio from a remote track only while an element plays it
  const element = new Audio();
  element.muted = true;
  element.srcObject = stream;
  const onset = new AudioWorkletNode(context, "onset", { numberOfOutputs: 0 });
  onset.port.onmessage = heard;
  new MediaStreamAudioSourceNode(context, { mediaStream: stream }).connect(onset);
  await element.play();
}

// The path of a measurement begins at the first UDP address on loopback: nobody waits for more.
const REACHABLE = /^a=candidate:\S+ 1 udp \d+ 127\.0\.0\.1 /im;

async function reachable(pc) {
  while (!REACHABLE.test(pc.localDescription.sdp)) {
    await new Promise((resolve, reject) => {
      pc.addEventListener("icecandidate", resolve, { once: true });
      setTimeout(() => reject(new Error("no UDP candidate on 127.0.0.1")), 5000);
    });
  }
  return pc.localDescription.sdp;
}

// Start a call through a POST to `url`: a channel that is agreed on, a microphone, the peer's voice.
// Returns milliseconds since the offer left: answered (the answer is here), connected (DTLS), open (the
// channel), audible (the first sample that can be heard, unless nobody `listens`); and `sent`, the
// wall time of the offer.
export async function start(url, { timeoutMs = 15000, listens = true } = {}) {
  const { pc, channel, end } = await prepare();
  // a page that somebody uses has been there for a moment
  await new Promise((resolve) => setTimeout(resolve, 200));
  const wanted = ["answered", "connected", "open", ...(listens ? ["audible"] : [])];
  const times = {};
  let sent, finish, timer;
  const finished = new Promise((resolve, reject) => {
    finish = resolve;
    const late = () => reject(new Error(`${timeoutMs} ms, and only ${JSON.stringify(times)}`));
    timer = setTimeout(late, timeoutMs);
  });
  const mark = (name) => {
    times[name] ??= performance.now() - sent;
    if (wanted.every((one) => one in times)) finish();
  };
  if (listens) pc.addEventListener("track", ({ track }) => hear(track, () => mark("audible")));
  channel.addEventListener("open", () => mark("open"));
  try {
    await pc.setLocalDescription();
    const offer = await reachable(pc);
    sent = performance.now();
    const response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/sdp" },
      body: offer,
    });
    const sdp = await response.text();
    if (!response.ok) throw new Error(`${url} says ${response.status}: ${sdp.slice(0, 400)}`);
    mark("answered");
    await pc.setRemoteDescription({ type: "answer", sdp });
    const { transport } = pc.getSenders()[0];
    const look = () => transport.state === "connected" && mark("connected");
    transport.addEventListener("statechange", look);
    look();
    await finished;
    return { ...times, sent: performance.timeOrigin + sent };
  } finally {
    clearTimeout(timer);
    end();
  }
}

// Be the one who is called: ready before the offer comes, as a server is.
export async function expectCall() {
  answerer?.end();
  answerer = await prepare();
}

export async function answerCall(sdp) {
  const { pc } = answerer;
  await pc.setRemoteDescription({ type: "offer", sdp });
  await pc.setLocalDescription();
  return reachable(pc);
}

export async function endCall() {
  answerer?.end();
  answerer = undefined;
}

globalThis.interop = { start, expectCall, answerCall, endCall };
