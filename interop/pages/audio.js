// Sound of this page: what it says (a microphone, or a file played into a track) and what it hears
// (a remote track, recorded sample by sample in an AudioWorklet).
const RATE = 48000;
const said = new Map(); // call -> what stops and starts its source
const recordings = new Map(); // `${call}/${index}` -> promise of a recording
let context;

async function makeContext() {
  const made = new AudioContext({ sampleRate: RATE });
  await made.audioWorklet.addModule("recorder.js");
  return made;
}

async function audioContext() {
  context ??= makeContext();
  const ours = await context;
  if (ours.state !== "running") await ours.resume();
  return ours;
}

// Have everything ready that recording needs.
export async function warmUp() {
  await audioContext();
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
export function inbound(id, track, index) {
  const recording = listen(track);
  recordings.set(`${id}/${index}`, recording);
  return recording;
}

async function listen(track) {
  const ours = await audioContext();
  const stream = new MediaStream([track]);
  // Chromium feeds Web Audio from a remote track only while an element plays it
  const element = new Audio();
  element.muted = true;
  element.srcObject = stream;
  element.play().catch((error) => {
    // released before it has begun
    if (error.name !== "AbortError") console.error(error);
  });
  const source = new MediaStreamAudioSourceNode(ours, { mediaStream: stream });
  const recorder = new AudioWorkletNode(ours, "recorder", { numberOfOutputs: 0 });
  const recording = { element, source, recorder, parts: [], began: null };
  recorder.port.onmessage = ({ data }) => {
    recording.began ??= performance.timeOrigin + performance.now();
    recording.parts.push(data);
  };
  source.connect(recorder);
  return recording;
}

// Return what was recorded so far: {rate, base64 (int16, little-endian, one channel)}.
export async function heard(id, index = 0) {
  const recording = await recordings.get(`${id}/${index}`);
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
  return { rate: RATE, began: recording.began, base64: btoa(texts.join("")) };
}

// Let go of all sound of a call.
export function release(id) {
  for (const source of said.get(id) ?? []) source.stop();
  said.delete(id);
  for (const [key, promise] of recordings) {
    if (!key.startsWith(`${id}/`)) continue;
    recordings.delete(key);
    promise.then(({ source, element }) => {
      source.disconnect();
      element.srcObject = null;
    });
  }
}
