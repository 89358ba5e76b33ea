// Peer connections of this page, by number. Everything that happens to one is a mark: a name and
// the wall time in milliseconds, e.g. "connection:connected", "open:talk", "closed:talk".
import { inbound, outbound, release, warmUp } from "./audio.js";

const calls = new Map();
let made = 0;

const now = () => performance.timeOrigin + performance.now();

function callOf(id) {
  const call = calls.get(id);
  if (!call) throw new Error(`no call ${id} in this page`);
  return call;
}

function mark(call, name) {
  call.marks.push({ at: now(), name });
  call.waiting = call.waiting.filter((look) => !look());
}

function until(call, look, what, timeoutMs) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const seen = call.marks.map((one) => one.name).join(" ");
      reject(new Error(`no ${what} within ${timeoutMs} ms; seen: ${seen}`));
    }, timeoutMs);
    const attempt = () => {
      const found = look();
      if (found === undefined) return false;
      clearTimeout(timer);
      resolve(found);
      return true;
    };
    if (!attempt()) call.waiting.push(attempt);
  });
}

// Make a connection. options: configuration, certificate (of generateCertificate), channels
// [{label, negotiated, id, ordered, maxRetransmits, maxPacketLifeTime, protocol}], and audio:
// "microphone", {play: url} (spoken by `say`), "receive", or nothing. With `video`, a place for it
// is offered besides. With `record`, each track of
// the peer's is recorded from its beginning.
export async function create(options = {}) {
  const configuration = { bundlePolicy: "max-bundle", ...(options.configuration ?? {}) };
  if (options.certificate) {
    // JSON has no Uint8Array
    const exponent = options.certificate.publicExponent;
    if (exponent) options.certificate.publicExponent = Uint8Array.from(exponent);
    configuration.certificates = [await RTCPeerConnection.generateCertificate(options.certificate)];
  }
  if (options.record) await warmUp();
  const pc = new RTCPeerConnection(configuration);
  const call = { id: ++made, pc, marks: [], waiting: [], channels: new Map(), tracks: [], sent: [] };
  calls.set(call.id, call);
  mark(call, "created");
  pc.addEventListener("iceconnectionstatechange", () => mark(call, `ice:${pc.iceConnectionState}`));
  pc.addEventListener("connectionstatechange", () => mark(call, `connection:${pc.connectionState}`));
  pc.addEventListener("datachannel", ({ channel }) => {
    mark(call, `announced:${channel.label}`);
    watch(call, channel);
  });
  pc.addEventListener("track", ({ track }) => {
    call.tracks.push(track);
    track.addEventListener("unmute", () => mark(call, "unmuted"));
    track.addEventListener("mute", () => mark(call, "muted"));
    if (options.record) inbound(call.id, track, call.tracks.length - 1);
    mark(call, "track");
  });
  if (options.audio) await addAudio(call.id, options.audio);
  if (options.video) pc.addTransceiver("video");
  for (const { label, ...rest } of options.channels ?? []) openChannel(call.id, label, rest);
  return call.id;
}

// Add a track (or, with "receive", only a place for the peer's); the next offer tells of it.
export async function addAudio(id, audio) {
  const call = callOf(id);
  if (audio === "receive") {
    call.pc.addTransceiver("audio", { direction: "recvonly" });
    return;
  }
  const stream = await outbound(id, audio);
  call.sent.push(call.pc.addTrack(stream.getAudioTracks()[0], stream));
}

// Take the last track away that was added and that the peer has not refused.
export async function removeAudio(id) {
  const call = callOf(id);
  const known = call.pc.getSenders();
  call.sent = call.sent.filter((sender) => known.includes(sender));
  call.pc.removeTrack(call.sent.pop());
}

// Stop the section that the last track was sent in, for good: the next offer gives it up.
export async function stopAudio(id) {
  const call = callOf(id);
  const sender = call.sent.pop();
  call.pc.getTransceivers().find((one) => one.sender === sender).stop();
}

function watch(call, channel) {
  channel.binaryType = "arraybuffer";
  const { label } = channel;
  const entry = { channel, messages: [] };
  call.channels.set(label, entry);
  const opened = () => mark(call, `open:${label}`);
  if (channel.readyState === "open") opened();
  else channel.addEventListener("open", opened);
  channel.addEventListener("close", () => mark(call, `closed:${label}`));
  channel.addEventListener("error", () => mark(call, `error:${label}`));
  channel.addEventListener("message", ({ data }) => {
    entry.messages.push(data);
    mark(call, `message:${label}`);
  });
}

export async function openChannel(id, label, options = {}) {
  const call = callOf(id);
  watch(call, call.pc.createDataChannel(label, options));
}

function entryOf(id, label) {
  const entry = callOf(id).channels.get(label);
  if (!entry) throw new Error(`no channel ${label} in call ${id}`);
  return entry;
}

export async function channelState(id, label) {
  const { channel } = entryOf(id, label);
  const { readyState, ordered, protocol, negotiated, maxRetransmits, maxPacketLifeTime } = channel;
  return { id: channel.id, readyState, ordered, protocol, negotiated, maxRetransmits, maxPacketLifeTime };
}

export async function closeChannel(id, label) {
  entryOf(id, label).channel.close();
}

// A message is {text} or {base64}.
export async function send(id, label, message) {
  const { channel } = entryOf(id, label);
  if ("text" in message) channel.send(message.text);
  else channel.send(Uint8Array.from(atob(message.base64), (octet) => octet.charCodeAt(0)));
}

export function toBase64(buffer) {
  const octets = new Uint8Array(buffer);
  const parts = [];
  for (let at = 0; at < octets.length; at += 0x8000) {
    parts.push(String.fromCharCode(...octets.subarray(at, at + 0x8000)));
  }
  return btoa(parts.join(""));
}

export async function receive(id, label, count = 1, timeoutMs = 8000) {
  const call = callOf(id);
  const { messages } = entryOf(id, label);
  const enough = () => (messages.length >= count ? true : undefined);
  await until(call, enough, `${count} messages on ${label}`, timeoutMs);
  return messages
    .splice(0, count)
    .map((data) => (typeof data === "string" ? { text: data } : { base64: toBase64(data) }));
}

function gathered(call) {
  const { pc } = call;
  if (pc.iceGatheringState === "complete") return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (pc.iceGatheringState !== "complete") return;
      pc.removeEventListener("icegatheringstatechange", look);
      resolve();
    };
    pc.addEventListener("icegatheringstatechange", look);
  });
}

// What a test changes in a description of ours before it is applied: [[from, to], ...], where
// `from` is a text, or begins and ends with a slash and is an expression.
function edited(sdp, edits = []) {
  const sought = (from) => (/^\/.+\/$/.test(from) ? new RegExp(from.slice(1, -1), "g") : from);
  return edits.reduce((text, [from, to]) => text.replaceAll(sought(from), to), sdp);
}

// Make and apply an offer; with `gather` false it leaves with no candidates. `edits` as above.
export async function offer(id, { iceRestart = false, gather = true, edits } = {}) {
  const call = callOf(id);
  const { sdp } = await call.pc.createOffer({ iceRestart });
  await call.pc.setLocalDescription({ type: "offer", sdp: edited(sdp, edits) });
  if (gather) await gathered(call);
  mark(call, "offered");
  return call.pc.localDescription.sdp;
}

// Apply the answer to our offer.
export async function accept(id, sdp) {
  const call = callOf(id);
  mark(call, "accepting");
  await call.pc.setRemoteDescription({ type: "answer", sdp });
  mark(call, "accepted");
}

// Answer an offer of the peer's. Tracks that we have are sent where the offer wants audio.
export async function answer(id, sdp, { gather = true, edits } = {}) {
  const call = callOf(id);
  await call.pc.setRemoteDescription({ type: "offer", sdp });
  const description = await call.pc.createAnswer();
  await call.pc.setLocalDescription({ type: "answer", sdp: edited(description.sdp, edits) });
  if (gather) await gathered(call);
  mark(call, "answered");
  return call.pc.localDescription.sdp;
}

async function post(url, sdp) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/sdp" },
    body: sdp,
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} says ${response.status}: ${text.slice(0, 400)}`);
  const location = response.headers.get("Location");
  return { text, status: response.status, resource: location && new URL(location, url).href };
}

// Offer to `url` and apply what it answers; in mid-call this renegotiates.
// options: those of `offer`, and `lateMs`: how long the answer lies around before it is applied.
export async function signal(id, url, options = {}) {
  const call = callOf(id);
  const answered = await post(new URL(url, document.baseURI), await offer(id, options));
  call.resource = answered.resource;
  if (options.lateMs) await new Promise((resolve) => setTimeout(resolve, options.lateMs));
  await accept(id, answered.text);
}

// Ask the server to end the call, at the address that its answer has named (RFC 9725).
export async function hangUp(id) {
  const { resource } = callOf(id);
  return { resource, status: (await fetch(resource, { method: "DELETE" })).status };
}

// Make a connection and offer it to `url`; returns its number once the answer is applied.
export async function connect(url, options = {}) {
  const id = await create(options);
  await signal(id, url, options);
  return id;
}

// Wait for a mark and return it; `since` leaves out those before that index.
export async function happened(id, name, { since = 0, timeoutMs = 8000 } = {}) {
  const call = callOf(id);
  const look = () => {
    const index = call.marks.findIndex((one, at) => at >= since && one.name === name);
    return index < 0 ? undefined : { ...call.marks[index], index };
  };
  return until(call, look, name, timeoutMs);
}

export async function marks(id) {
  return callOf(id).marks;
}

export async function states(id) {
  const { pc } = callOf(id);
  return {
    connection: pc.connectionState,
    ice: pc.iceConnectionState,
    signaling: pc.signalingState,
    local: pc.localDescription?.sdp ?? null,
    remote: pc.remoteDescription?.sdp ?? null,
  };
}

// Return every report of getStats.
export async function stats(id) {
  const reports = [];
  (await callOf(id).pc.getStats()).forEach((report) => reports.push(report));
  return reports;
}

export async function remoteTracks(id) {
  return callOf(id).tracks.map(({ kind, muted, readyState }) => ({ kind, muted, readyState }));
}

// Record the peer's audio track of this number; `heard` returns it.
export async function record(id, index = 0) {
  const call = callOf(id);
  const look = () => call.tracks[index];
  await inbound(id, await until(call, look, `track ${index}`, 8000), index);
}

export async function dial(id, tones) {
  callOf(id).sent[0].dtmf.insertDTMF(tones);
}

export async function close(id) {
  const call = callOf(id);
  call.pc.close();
  release(id);
  calls.delete(id);
}

// How many connections this page holds that are not closed.
export async function open() {
  return calls.size;
}
