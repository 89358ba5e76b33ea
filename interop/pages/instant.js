// Calls through the module that the server publishes; each function is one step of a test.
import { InstantConnect, writeAttempt } from "/instant-connect.js";

// what is opened is kept, so that it can be seen to be closed
const opened = [];
let blind = false;
globalThis.RTCPeerConnection = class extends RTCPeerConnection {
  constructor(...given) {
    super(...given);
    opened.push(this);
  }

  set onicecandidate(heard) {
    if (blind) heard({ candidate: null });
    else super.onicecandidate = heard;
  }
};

let microphone;
let connect;
let heard;
const calls = [];
const hasty = new AbortController();

// Get ready, as a page does when it is loaded; returns why the next call is not instant.
export async function prepare(options) {
  microphone ??= await navigator.mediaDevices.getUserMedia({ audio: true });
  connect?.close();
  connect = new InstantConnect(options);
  if (options.bundleUrl) await connect.prepare();
  return connect.problem;
}

// Get ready where there is no network yet; returns why the next call is not instant, then and later.
export async function prepareBlind(options) {
  blind = true;
  const before = await prepare(options);
  blind = false;
  dispatchEvent(new Event("online"));
  for (let tries = 0; connect.problem && tries < 100; tries += 1) await new Promise((resolve) => setTimeout(resolve, 20));
  return [before, connect.problem];
}

// The click: returns when everything was reached, in ms after it, once the call is connected.
export async function start(options = {}) {
  heard = { messages: [], tracks: 0 };
  const clicked = performance.now();
  const call = await connect.connect({
    track: microphone.getAudioTracks()[0],
    onTrack: () => (heard.tracks += 1),
    onMessage: (data) => heard.messages.push(String(data)),
    signal: hasty.signal,
    ...options,
  });
  calls.push(call);
  const marks = Object.entries(call.marks).map(([name, at]) => [name, at - clicked]);
  return { marks: Object.fromEntries(marks), clicked: performance.timeOrigin + clicked };
}

// A start that fails: what it says.
export async function fail(options = {}) {
  try {
    await start(options);
  } catch ({ name, kind, message, status }) {
    return { name, kind, message, status };
  }
  return null;
}

// The microphone is refused while the call is under way.
export async function refuse() {
  const refused = new Promise((_, reject) => setTimeout(() => reject(new Error("denied")), 10));
  return fail({ track: refused });
}

// Several clicks at once.
export async function startMany(count) {
  await Promise.all(Array.from({ length: count }, () => start()));
  return calls.map(({ path }) => path);
}

// Change one's mind as soon as the first packets have left.
export async function giveUp() {
  const failing = fail({ onMark: (name) => name === "attempted" && hasty.abort(new Error("enough")) });
  return (await failing)?.message;
}

// What there is of the last call now.
export async function look() {
  const { pc, path, location, events } = calls.at(-1);
  const reports = [...(await pc.getStats()).values()];
  const count = (type, name) => reports.find((one) => one.type === type)?.[name] ?? 0;
  return {
    path,
    location,
    ...heard,
    events: events.readyState,
    connection: pc.connectionState,
    signaling: pc.signalingState,
    received: count("inbound-rtp", "packetsReceived"),
    sent: count("outbound-rtp", "packetsSent"),
    problem: connect.problem,
  };
}

// Restart ICE at the address that signalling has told; returns whose credentials hold then.
export async function restart() {
  const { pc, location } = calls.at(-1);
  await pc.setLocalDescription(await pc.createOffer({ iceRestart: true }));
  const response = await fetch(location, {
    method: "PUT",
    headers: { "Content-Type": "application/sdp" },
    body: pc.localDescription.sdp,
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  await pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
  return /a=ice-ufrag:(\S+)/.exec(pc.currentRemoteDescription.sdp)[1];
}

// Hang up; returns which way the last call went.
export async function end() {
  const { path } = calls.at(-1);
  await Promise.all(calls.splice(0).map((call) => call.close()));
  return path;
}

// How many connections are open.
export async function open() {
  return opened.filter((one) => one.signalingState !== "closed").length;
}

export async function attempt(bundle, ticket, offer, nonce) {
  return writeAttempt(bundle, ticket, offer, Uint8Array.from(nonce));
}

// What a page notices of tickets: `lives` are those of the bundles that are served, in seconds.
export async function watchTickets(bundle, lives) {
  const seen = [];
  let asked = 0;
  const serve = async () => {
    const life = lives[Math.min(asked++, lives.length - 1)];
    if (typeof life !== "number") return new Response("", { status: life.status });
    return Response.json({ ...bundle, issued_at: 1000, expires_at: 1000 + life });
  };
  const watched = new InstantConnect({ bundleUrl: "/v1/instant", offerUrl: "/offer", fetch: serve });
  seen.push(watched.problem, await watched.prepare(), watched.problem, asked);
  // a network that comes or changes, a page that is looked at again before it is time
  for (const [target, type] of [[globalThis, "online"], [document, "visibilitychange"]]) {
    target.dispatchEvent(new Event(type));
    await new Promise((resolve) => setTimeout(resolve, 20));
    seen.push(asked);
  }
  watched.close();
  globalThis.dispatchEvent(new Event("online"));
  await new Promise((resolve) => setTimeout(resolve, 20));
  return [...seen, asked];
}

globalThis.interop = {
  prepare, prepareBlind, start, fail, refuse, startMany, giveUp, look, restart, end, open, attempt, watchTickets,
};
