// Sound of this page: what it says (a microphone, or a file played into a track) and what it hears
// (a remote track, recorded sample by sample in an AudioWorklet).
const RATE = 48000;
const said = new Map(); // call -> what stops and starts its source
const recordings = new Map(); // `${call}/${index}` -> recording
let context;

async function audioContext() {
  if (!context) {
    context = new AudioContext({ sampleRate: RATE });
    await context.audioWorklet.addModule("recorder.js");
  }
  if (context.state !== "running") await context.resume();
  return context;
}

// Return a stream to send. Nothing may improve the voice: a test compares it with its original.
export async function outbound(id, audio) {
  if (audio === "microphone") {
    const stream = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
    });
    keep(id, { stop: () => stream.getTracks().forEach((track) => track.stop()) });
    return stream;
  }
  const ours = await audioContext();
  const response = await fetch(audio.play);
  const buffer = await ours.decodeAudioData(await response.arrayBuffer());
  const destination = new MediaStreamAudioDestinationNode(ours, { channelCount: 1 });
  const source = new AudioBufferSourceNode(ours, { buffer });
  source.connect(destination);
  keep(id, { start: () => source.start(), stop: () => source.disconnect() });
  return destination.stream;
}

function keep(id, source) {
  said.set(id, [...(said.get(id) ?? []), source]);
}

// Speak the files of a call that has {play: url}.
export async function say(id) {
  for (const source of said.get(id) ?? []) source.start?.();
}

// Begin to record a track of the peer's.
export async function inbound(id, track, index) {
  const ours = await audioContext();
  const stream = new MediaStream([track]);
  // Chromium feeds Web Audio from a remote track only while an element plays it
  const element = new Audio();
  element.muted = true;
  element.srcObject = stream;
  await element.play();
  const source = new MediaStreamAudioSourceNode(ours, { mediaStream: stream });
  const recorder = new AudioWorkletNode(ours, "recorder", { numberOfOutputs: 0 });
  const recording = { element, source, recorder, parts: [], began: null };
  recorder.port.onmessage = ({ data }) => {
    recording.began ??= performance.timeOrigin + performance.now();
    recording.parts.push(data);
  };
  source.connect(recorder);
  recordings.set(`${id}/${index}`, recording);
}

// Return what was recorded so far: {rate, base64 (int16, little-endian, one channel)}.
export async function heard(id, index = 0) {
  const recording = recordings.get(`${id}/${index}`);
  if (!recording) throw new Error(`track ${index} of call ${id} is not recorded`);
  const length = recording.parts.reduce((sum, part) => sum + part.length, 0);
  const samples = new Int16Array(length);
  let at = 0;
  for (const part of recording.parts) {
    for (const value of part) {
      samples[at++] = Math.max(-32768, Math.min(32767, Math.round(value * 32768)));
    }
  }
  const octets = new Uint8Array(samples.buffer);
  const texts = [];
  for (let from = 0; from < octets.length; from += 0x8000) {
    texts.push(String.fromCharCode(...octets.subarray(from, from + 0x8000)));
  }
  return { rate: context.sampleRate, began: recording.began, base64: btoa(texts.join("")) };
}

// Let go of all sound of a call.
export function release(id) {
  for (const source of said.get(id) ?? []) source.stop();
  said.delete(id);
  for (const [key, recording] of recordings) {
    if (!key.startsWith(`${id}/`)) continue;
    recording.source.disconnect();
    recording.element.srcObject = null;
    recordings.delete(key);
  }
}
