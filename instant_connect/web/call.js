// One call: microphone, offer, answer, and the moments of its start. Knows no document.
//
//   idle ─▶ microphone ─▶ calling ─▶ connected ◀─▶ interrupted
//                 └───────────┴──────────┴──────────────┴─▶ ended
//
// Events: `change` (state), `mark` (a moment was reached), `streams` (there is sound to meter),
// `message` (text on the events channel), `notice` (a CallFailure that does not end the call),
// `settled` (the start is over and both ends' figures are in).

import { endCall, postOffer, putOffer, readStats } from "./api.js";
import { CallFailure, failureOf, microphoneFailure } from "./failure.js";
import { readTransport, watchFirstPacket } from "./stats.js";

export const CHANNEL = "oai-events";

const NEXT = {
  idle: ["microphone"],
  microphone: ["calling", "ended"],
  calling: ["connected", "ended"],
  connected: ["interrupted", "ended"],
  interrupted: ["connected", "ended"],
  ended: [],
};
const CONNECT_TIMEOUT_MS = 15_000;
const SOUND_TIMEOUT_MS = 2_500; // a server that waits to be spoken to is not waited for
const RECOVERY_TIMEOUT_MS = 45_000;
const FIRST_WAIT_MS = 1_500; // most interruptions end by themselves
const MAX_WAIT_MS = 6_000;
const GOODBYE_MS = 1_000;
const STATS_EVERY_MS = 120;
const STATS_TRIES = 6;
const STARTED = ["dtls", "channel", "packet", "audible"];

export class Call extends EventTarget {
  state = "idle";
  /** When each moment was reached: performance.now(), by name. */
  marks = {};
  /** Why it ended: `{why: "here" | "there" | "failed", failure}`. */
  ending = null;
  /** The descriptions, and what either end measured; for the ledger. */
  facts = { offer: "", answer: "", transport: null, server: null, exchanges: [] };
  microphone = null;
  remote = null;

  #config;
  #location = null;
  #connection = null;
  #channel = null;
  #abort = new AbortController();
  #patience = null;
  #settled = false;

  /** `config` is what readConfig promises. */
  constructor(config) {
    super();
    this.#config = config;
  }

  /** Make the call. Resolves when it is under way or has failed; never rejects. */
  async start(clicked) {
    this.mark("click", clicked);
    this.#become("microphone");
    try {
      await this.#start();
    } catch (error) {
      this.#end({ why: "failed", failure: failureOf(error) });
    }
  }

  /** Hang up, or give up what has not begun yet. */
  end() {
    this.#end({ why: "here", failure: null });
  }

  set muted(muted) {
    for (const track of this.microphone?.getAudioTracks() ?? []) track.enabled = !muted;
  }

  /** Note that a moment of the start has been reached; the first time counts. */
  mark(name, at = performance.now()) {
    if (this.#settled || name in this.marks) return;
    this.marks[name] = at;
    this.#say("mark", name);
  }

  async #start() {
    const config = await this.#config;
    this.#abort.signal.throwIfAborted();
    const connection = this.#open(config);
    const [track, offer] = await Promise.all([this.#openMicrophone(), connection.createOffer()]);
    this.#abort.signal.throwIfAborted();
    await connection.getTransceivers()[0].sender.replaceTrack(track);
    await connection.setLocalDescription(offer);
    this.#abort.signal.throwIfAborted();
    this.facts.offer = offer.sdp;
    this.#become("calling");
    this.mark("posted");
    const posted = postOffer(config, offer.sdp, this.#abort.signal);
    // while the offer travels there is time for whatever a listener does
    this.#say("streams");
    const { answer, location } = await posted;
    this.#location = location;
    this.mark("answered");
    this.facts.answer = answer;
    // whoever hung up meanwhile did not know of the server's call
    if (this.#abort.signal.aborted) return this.#release();
    this.#patience = setTimeout(() => this.#fail("no-path"), CONNECT_TIMEOUT_MS);
    try {
      await connection.setRemoteDescription({ type: "answer", sdp: answer });
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      throw new CallFailure("bad-answer", { detail: error.message });
    }
    this.mark("applied");
    if (!this.#abort.signal.aborted) this.#watch(connection);
  }

  #open(config) {
    if (!globalThis.RTCPeerConnection) throw new CallFailure("no-webrtc");
    const connection = new RTCPeerConnection({
      bundlePolicy: "max-bundle",
      iceServers: config.iceServers,
    });
    this.#connection = connection;
    connection.addTransceiver("audio", { direction: "sendrecv" });
    this.#channel = connection.createDataChannel(CHANNEL, {
      negotiated: true,
      id: config.dcid,
    });
    this.#channel.onopen = () => this.mark("channel");
    this.#channel.onclose = () => this.#end({ why: "there", failure: null });
    this.#channel.onmessage = ({ data }) => this.#say("message", data);
    connection.ontrack = ({ track }) => {
      this.remote = new MediaStream([track]);
      this.#say("streams");
    };
    connection.oniceconnectionstatechange = () => {
      if (["connected", "completed"].includes(connection.iceConnectionState)) this.mark("ice");
    };
    connection.onconnectionstatechange = () => this.#follow(connection.connectionState);
    return connection;
  }

  async #openMicrophone() {
    if (!globalThis.isSecureContext) throw new CallFailure("insecure-page");
    if (!navigator.mediaDevices?.getUserMedia) throw new CallFailure("no-webrtc");
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({
        audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
      });
    } catch (error) {
      throw microphoneFailure(error);
    }
    this.microphone = stream;
    // the question was answered after the call was given up: nothing may stay open
    if (this.#abort.signal.aborted) this.#release();
    this.#abort.signal.throwIfAborted();
    this.mark("microphone");
    const [track] = stream.getAudioTracks();
    track.onended = () => this.#say("notice", new CallFailure("microphone-lost"));
    return track;
  }

  #watch(connection) {
    const dtls = connection.getTransceivers()[0].sender.transport;
    const look = () => {
      if (dtls?.state === "connected") this.#secured();
    };
    dtls?.addEventListener("statechange", look);
    look();
  }

  #secured() {
    if ("dtls" in this.marks) return;
    this.mark("dtls");
    const { receiver } = this.#connection.getTransceivers()[0];
    watchFirstPacket(receiver, this.#abort.signal, (at) => this.mark("packet", at));
  }

  #follow(state) {
    if (state === "connected") {
      clearTimeout(this.#patience);
      // a browser without RTCDtlsTransport tells only this
      this.mark("ice");
      this.#secured();
      const settles = this.state === "calling";
      this.#become("connected");
      if (settles) this.#settle();
    } else if (state === "disconnected") {
      if (this.state === "connected") this.#recover();
    } else if (state === "failed") {
      if (this.state === "calling") this.#fail("no-path");
      if (this.state === "connected") this.#recover();
    } else if (state === "closed") {
      this.#end({ why: "there", failure: null });
    }
  }

  /** Look for another way to the server, with new ICE credentials, until one is found. */
  async #recover() {
    const [connection, signal] = [this.#connection, this.#abort.signal];
    this.#become("interrupted");
    const until = performance.now() + RECOVERY_TIMEOUT_MS;
    for (let wait = FIRST_WAIT_MS; performance.now() < until; wait = Math.min(wait * 2, MAX_WAIT_MS)) {
      await pause(wait, signal);
      if (this.state !== "interrupted") return;
      try {
        const offer = await connection.createOffer({ iceRestart: true });
        await connection.setLocalDescription(offer);
        const answer = await putOffer(this.#location, offer.sdp, signal);
        await connection.setRemoteDescription({ type: "answer", sdp: answer });
      } catch (error) {
        // a server that does not know the call any more will not come to know it
        if (error.kind === "unknown-call") break;
      }
    }
    if (this.state === "interrupted") this.#fail("lost");
  }

  /** Wait for the end of the start, then ask both ends what they have measured. */
  async #settle() {
    const signal = this.#abort.signal;
    const until = performance.now() + SOUND_TIMEOUT_MS;
    while (!STARTED.every((name) => name in this.marks) && performance.now() < until) {
      await pause(STATS_EVERY_MS / 4, signal);
    }
    for (let tries = 0; tries < STATS_TRIES && !signal.aborted; tries += 1) {
      await this.#measure();
      await pause(STATS_EVERY_MS, signal);
    }
    // what comes after is no part of the start: a server may wait to be spoken to
    this.#settled = true;
    if (this.facts.transport) this.#say("settled");
  }

  async #measure() {
    const [transport, exchange] = await Promise.all([
      readTransport(this.#connection),
      this.#location ? readStats(this.#location) : null,
    ]);
    if (this.#abort.signal.aborted) return;
    const known = this.facts.transport;
    const trips = [known?.rttMs, transport.rttMs].filter((ms) => ms != null);
    this.facts.transport = { ...transport, rttMs: trips.length ? Math.min(...trips) : null };
    if (exchange) {
      this.facts.server = exchange.stats;
      this.facts.exchanges.push(exchange);
    }
    this.#say("mark", "stats");
  }

  #fail(kind) {
    this.#end({ why: "failed", failure: new CallFailure(kind) });
  }

  #end(ending) {
    if (this.state === "ended" || this.state === "idle") return;
    this.ending = ending;
    this.#abort.abort();
    clearTimeout(this.#patience);
    this.#release();
    this.#become("ended");
  }

  async #release() {
    for (const track of this.microphone?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
    const location = this.#location;
    this.#location = null;
    // told first: once the connection is closed, the server has no call that could be ended
    if (location && this.ending.why === "here") {
      await Promise.race([endCall(location), pause(GOODBYE_MS)]);
    }
    this.#connection?.close();
  }

  #become(state) {
    if (state === this.state || !NEXT[this.state].includes(state)) return;
    this.state = state;
    this.#say("change", state);
  }

  #say(type, detail = null) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

function pause(ms, signal = null) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
