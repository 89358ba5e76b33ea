// The page: one button, the words that say where the call stands, and what is shown of it. Every
// other module knows nothing of the document's texts; this one knows nothing of WebRTC.

import { openConnect, readConfig } from "./api.js";
import { Call } from "./call.js";
import { EventLog } from "./events.js";
import { buildLedger, number } from "./ledger.js";
import { Meter } from "./meters.js";
import { describePath } from "./paths.js";
import { Ear, openSound } from "./sound.js";
import { describeSupport, probe } from "./support.js";
import { clockNote, drawLegend, drawTimeline } from "./timeline.js";
import { Transcript } from "./transcript.js";

const $ = (id) => document.getElementById(id);

const STATES = {
  idle: ["Ready", "Your browser will ask for the microphone."],
  microphone: ["Asking for the microphone…", "Choose Allow when your browser asks."],
  calling: ["Calling…", "The server is being called."],
  connected: ["Connected", "Speak; the server hears you."],
  interrupted: ["Connection interrupted", "Looking for another way to the server…"],
  failed: ["Call failed", "You can start again."],
};
const DRAW_AFTER_MS = 200; // a start is not held up by its own picture
const LIVE = ["microphone", "calling", "connected", "interrupted"];

class App {
  #config = readConfig();
  #connect = this.#config.then(openConnect);
  #permission = null;
  #probed = null;
  #tickets = null; // why there are none, in words
  #call = null;
  #sound = null;
  #ears = new Map(); // by stream
  #clock = null;
  #since = null;
  #ledger = null;
  #drawing = null;
  #meters = { you: new Meter($("meter-you")), server: new Meter($("meter-server")) };
  #events = new EventLog($("events"), $("event-list"), $("event-count"));
  #transcript = new Transcript(
    $("conversation"), $("transcript-final"), $("transcript-draft"), $("draft-none"),
  );

  async begin() {
    $("talk").addEventListener("click", (event) => this.#press(event));
    for (const intent of ["focus", "pointerenter", "touchstart"]) {
      $("talk").addEventListener(intent, () => this.#prepareSound(), { passive: true });
    }
    $("mute").addEventListener("click", () => this.#mute($("mute").ariaPressed !== "true"));
    $("volume").addEventListener("input", () => this.#setVolume());
    // iOS plays at the device's volume only
    $("remote").volume = 0.5;
    $("volume-control").hidden = $("remote").volume !== 0.5;
    this.#setVolume();
    addEventListener("pagehide", () => this.#call?.end());
    new ResizeObserver(() => this.#drawTimeline()).observe($("timeline"));
    this.#showSupport();
    const { version } = await this.#config;
    if (version) $("version").textContent = `WARP ${version}`;
    const connect = await this.#connect;
    [this.#probed, this.#permission] = await Promise.all([probe(), permission(), connect.prepare()]);
    this.#tickets = connect.problem;
    this.#showSupport();
    document.documentElement.dataset.ready = "true";
  }

  #press(event) {
    // the second click of a double one would take the first one back
    if (event.detail > 1) return;
    if (this.#call && LIVE.includes(this.#call.state)) this.#call.end();
    else this.#start(event.timeStamp || performance.now());
  }

  #prepareSound() {
    this.#sound ??= openSound();
  }

  #start(clicked) {
    this.#prepareSound();
    this.#sound?.resume().catch(() => null);
    const call = new Call(this.#connect, this.#permission?.state === "granted");
    this.#call = call;
    this.#events.clear();
    this.#transcript.clear();
    this.#since = null;
    call.addEventListener("change", () => this.#follow(call));
    call.addEventListener("mark", () => this.#drawSoon(call));
    call.addEventListener("streams", () => this.#listen(call));
    call.addEventListener("message", ({ detail }) => {
      this.#events.add(detail);
      this.#transcript.add(detail);
    });
    call.addEventListener("notice", ({ detail }) => this.#showFailure(detail));
    call.addEventListener("settled", () => {
      this.#showLedger(call);
      $("ledger").dataset.complete = "true";
    });
    // the last start's figures stay, dimmed, until there are new ones
    $("ledger").dataset.complete = "stale";
    this.#showFailure(null);
    call.start(clicked);
  }

  #follow(call) {
    const failed = call.ending?.why === "failed";
    const state = call.state === "ended" && failed ? "failed" : call.state;
    if (state === "connected" && this.#since === null) this.#startClock();
    if (call.state === "ended") this.#stop(call);
    const [title, hint] = STATES[state] ?? this.#endWords(call);
    $("state-line").dataset.state = state;
    $("state").textContent = title;
    $("hint").textContent = hint;
    const live = LIVE.includes(call.state);
    $("talk").dataset.action = live ? "end" : "start";
    $("talk-label").textContent = live ? (this.#since === null ? "Cancel" : "End call") : "Start talking";
    $("mute").disabled = !live || state === "microphone";
    if (failed) this.#showFailure(call.ending.failure);
    if (call.state === "ended" && !("dtls" in call.marks)) this.#clearLedger();
  }

  #endWords(call) {
    if (this.#since === null) return ["Call cancelled", "You can start again at any time."];
    const lasted = `It lasted ${duration(performance.now() - this.#since)}.`;
    return call.ending.why === "there"
      ? ["Call ended by the server", lasted]
      : ["Call ended", `You ended it. ${lasted}`];
  }

  #stop(call) {
    clearInterval(this.#clock);
    $("timer").hidden = true;
    for (const meter of Object.values(this.#meters)) meter.stop();
    for (const ear of this.#ears.values()) ear.close();
    this.#ears.clear();
    this.#sound?.suspend().catch(() => null);
    $("remote").srcObject = null;
    this.#mute(false);
    this.#showSupport(call);
  }

  #startClock() {
    this.#since = performance.now();
    const show = () => {
      $("timer").textContent = duration(performance.now() - this.#since);
    };
    show();
    $("timer").hidden = false;
    this.#clock = setInterval(show, 1000);
  }

  #listen(call) {
    if (call.remote && $("remote").srcObject !== call.remote) {
      $("remote").srcObject = call.remote;
      // a browser that refuses to play has shown its own sign beside the address
      $("remote").play().catch(() => null);
      this.#hear(call.remote, this.#meters.server)?.watchFirstSound((at) => call.mark("audible", at));
    }
    if (call.microphone) this.#hear(call.microphone, this.#meters.you);
  }

  /** Begin to listen to a stream; null when that is done already, or cannot be. */
  #hear(stream, meter) {
    if (!this.#sound || this.#ears.has(stream)) return null;
    const ear = new Ear(this.#sound, stream);
    this.#ears.set(stream, ear);
    meter.start(ear);
    return ear;
  }

  #mute(muted) {
    $("mute").ariaPressed = String(muted);
    if (this.#call) this.#call.muted = muted;
    this.#meters.you.muted = muted;
  }

  #setVolume() {
    const percent = Number($("volume").value);
    $("remote").volume = percent / 100;
    $("volume").setAttribute("aria-valuetext", `${percent} percent`);
  }

  #showFailure(failure) {
    $("failure").hidden = failure === null;
    if (failure === null) return;
    $("failure-title").textContent = failure.title;
    $("failure-advice").textContent = failure.advice;
    $("failure-detail").hidden = !failure.detail;
    $("failure-detail").textContent = failure.detail;
  }

  #drawSoon(call) {
    clearTimeout(this.#drawing);
    this.#drawing = setTimeout(() => this.#showLedger(call), DRAW_AFTER_MS);
  }

  #showLedger(call) {
    clearTimeout(this.#drawing);
    if (call !== this.#call || !("dtls" in call.marks)) return;
    $("ledger").dataset.complete = "false";
    this.#ledger = buildLedger(call.marks, call.facts);
    $("ledger-empty").hidden = true;
    $("ledger-body").hidden = false;
    this.#showPath(call.facts);
    $("figures").replaceChildren(...this.#ledger.figures.map(figure));
    $("clock-note").textContent = clockNote(this.#ledger);
    $("ledger-table").tBodies[0].replaceChildren(...this.#ledger.rows.map(row));
    this.#drawTimeline();
    this.#showSupport(call);
  }

  #showPath(facts) {
    const path = describePath(facts);
    $("path").hidden = path === null;
    if (path === null) return;
    $("path").dataset.path = facts.path;
    const sign = element("span", path.chip, "chip");
    sign.dataset.verdict = path.verdict;
    $("path").replaceChildren(sign, element("span", path.words, "words"));
  }

  #clearLedger() {
    this.#ledger = null;
    $("ledger").dataset.complete = "false";
    $("ledger-empty").hidden = false;
    $("ledger-body").hidden = true;
  }

  #drawTimeline() {
    if (!this.#ledger) return;
    drawLegend($("legend"), this.#ledger);
    drawTimeline($("timeline"), this.#ledger);
  }

  #showSupport(call = null) {
    const lines = describeSupport(this.#probed, call?.facts ?? null, this.#tickets);
    $("support").replaceChildren(...lines.map(supportLine));
  }
}

/** Whether the microphone needs no question; null where the browser does not tell. */
async function permission() {
  try {
    return await navigator.permissions.query({ name: "microphone" });
  } catch {
    return null;
  }
}

function figure({ name, ms: value, aside }) {
  const [box, term, text] = [element("div"), element("dt", name), element("dd")];
  const shown = element("div", number(value), "value");
  shown.append(element("span", " ms", "unit"));
  text.append(shown, element("div", aside, "aside"));
  box.append(term, text);
  return box;
}

function row({ id, step, side, at, afterOffer, trips }) {
  const line = element("tr");
  line.dataset.step = `${side}:${id}`;
  const name = element("th", step);
  name.scope = "row";
  line.append(
    name,
    element("td", side === "browser" ? "Browser" : "Server"),
    element("td", `${at.toFixed(1)} ms`, "number"),
    element("td", afterOffer === null || afterOffer < 0 ? "–" : `${afterOffer.toFixed(1)} ms`, "number"),
    element("td", trips === null || trips < 0 ? "–" : trips.toFixed(2), "number"),
  );
  return line;
}

function supportLine({ name, what, verdict, chip, words }) {
  const [box, term, text] = [element("div"), element("dt", name), element("dd")];
  term.append(element("small", what));
  const sign = element("span", chip, "chip");
  sign.dataset.verdict = verdict;
  text.append(sign, element("span", words, "words"));
  box.append(term, text);
  return box;
}

function element(name, text = "", kind = "") {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function duration(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

new App().begin();
