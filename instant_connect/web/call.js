// One call: microphone, connection, recovery, and the moments of its start. Knows no document. How the
// call begins is the business of instant-connect.js.
//
//   idle ─▶ microphone ─▶ calling ─▶ connected ◀─▶ interrupted
//                 └───────────┴──────────┴──────────────┴─▶ ended
//
// Events: `change` (state), `mark` (a moment was reached), `streams` (there is sound to meter),
// `message` (text on the events channel), `notice` (a CallFailure that does not end the call),
// `settled` (the start is over and both ends' figures are in).

import { putOffer, readStats } from "./api.js";
import { CallFailure, connectFailure, microphoneFailure } from "./failure.js";
import { readTransport, watchFirstPacket } from "./stats.js";

const NEXT = {
  idle: ["microphone"],
  microphone: ["calling", "ended"],
  calling: ["connected", "ended"],
  connected: ["interrupted", "ended"],
  interrupted: ["connected", "ended"],
  ended: [],
};
const SOUND_TIMEOUT_MS = 2_500; // a server that waits to be spoken to is not waited for
const RECOVERY_TIMEOUT_MS = 45_000;
const FIRST_WAIT_MS = 1_500; // most interruptions end by themselves
const MAX_WAIT_MS = 6_000;
const STATS_EVERY_MS = 120;
const STATS_TRIES = 6;
const STARTED = ["applied", "channel", "packet", "audible"];

export class Call extends EventTarget {
  state = "idle";
  /** When each moment was reached: performance.now(), by name. */
  marks = {};
  /** Why it ended: `{why: "here" | "there" | "failed", failure}`. */
  ending = null;
  /** Which way the call went, the descriptions, and what either end measured; for the ledger. */
  facts = { path: null, why: "", offer: "", answer: "", transport: null, server: null, exchanges: [] };
  microphone = null;
  remote = null;

  #connect;
  #allowed;
  #made = null;
  #abort = new AbortController();
  #settled = false;

  /** `connect` is what openConnect returns, `allowed` whether the microphone needs no question. */
  constructor(connect, allowed) {
    super();
    this.#connect = connect;
    this.#allowed = allowed;
  }

  /** Make the call. Resolves when it is under way or has failed; never rejects. */
  async start(clicked) {
    this.mark("click", clicked);
    this.#become("microphone");
    try {
      await this.#start();
    } catch (error) {
      this.#end({ why: "failed", failure: connectFailure(error) });
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
    const { signal } = this.#abort;
    const connect = await this.#connect;
    signal.throwIfAborted();
    this.facts.why = connect.problem;
    const microphone = this.#openMicrophone();
    microphone.catch(() => null); // it is told below, or by the connection that waits for it
    // while somebody is still asked nobody is called, since the answer may be no
    const track = this.#allowed ? microphone : await microphone;
    this.#become("calling");
    const making = connect.connect({
      track,
      signal,
      onTrack: ({ track }) => {
        this.remote = new MediaStream([track]);
        this.#say("streams");
      },
      onMessage: (data) => this.#say("message", data),
      onMark: (name, at) => this.mark(name, at),
    });
    // while the first packets travel there is time for whatever a listener does
    if (this.microphone) this.#say("streams");
    this.#made = await making;
    // whoever hung up in this very moment did not know of the call
    if (signal.aborted) return this.#release();
    this.#follow(this.#made);
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
    if (this.#allowed) this.#say("streams");
    const [track] = stream.getAudioTracks();
    track.onended = () => this.#say("notice", new CallFailure("microphone-lost"));
    return track;
  }

  #follow({ pc, events }) {
    this.#become("connected");
    const [receiver] = pc.getReceivers();
    const found = (at) => this.mark("packet", at);
    watchFirstPacket(receiver, this.marks.ice, this.#abort.signal, found);
    events.addEventListener("close", () => this.#end({ why: "there", failure: null }));
    const look = () => {
      const state = pc.connectionState;
      if (state === "connected") this.#become("connected");
      else if (state === "closed") this.#end({ why: "there", failure: null });
      else if (this.state === "connected" && state !== "connecting") this.#recover(pc);
    };
    pc.addEventListener("connectionstatechange", look);
    look();
    this.#settle(pc);
  }

  /** Look for another way to the server, with new ICE credentials, until one is found. */
  async #recover(pc) {
    const { signal } = this.#abort;
    this.#become("interrupted");
    const until = performance.now() + RECOVERY_TIMEOUT_MS;
    for (let wait = FIRST_WAIT_MS; performance.now() < until; wait = Math.min(wait * 2, MAX_WAIT_MS)) {
      await pause(wait, signal);
      if (this.state !== "interrupted") return;
      try {
        const offer = await pc.createOffer({ iceRestart: true });
        await pc.setLocalDescription(offer);
        if (!this.#made.location) break;
        const answer = await putOffer(this.#made.location, offer.sdp, signal);
        await pc.setRemoteDescription({ type: "answer", sdp: answer });
      } catch (error) {
        // a server that does not know the call any more will not come to know it
        if (error.kind === "unknown-call") break;
      }
    }
    if (this.state === "interrupted") this.#fail("lost");
  }

  /** Wait for the end of the start, then ask both ends what they have measured. */
  async #settle(pc) {
    const signal = this.#abort.signal;
    const until = performance.now() + SOUND_TIMEOUT_MS;
    while (!STARTED.every((name) => name in this.marks) && performance.now() < until) {
      await pause(STATS_EVERY_MS / 4, signal);
    }
    for (let tries = 0; tries < STATS_TRIES && !signal.aborted; tries += 1) {
      await this.#measure(pc);
      await pause(STATS_EVERY_MS, signal);
    }
    // what comes after is no part of the start: a server may wait to be spoken to
    this.#settled = true;
    if (this.facts.transport) this.#say("settled");
  }

  async #measure(pc) {
    const { location, path } = this.#made;
    const [transport, exchange] = await Promise.all([
      readTransport(pc),
      location ? readStats(location) : null,
    ]);
    if (this.#abort.signal.aborted) return;
    const [offer, answer] = [pc.localDescription.sdp, pc.remoteDescription.sdp];
    Object.assign(this.facts, { path, offer, answer });
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
    this.#release();
    this.#become("ended");
  }

  async #release() {
    for (const track of this.microphone?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
    await this.#made?.close({ tell: this.ending.why === "here" });
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
