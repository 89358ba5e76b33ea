// A level meter: the last seconds as bars, newest at the right; one plain bar for whoever asked for
// reduced motion. The element has the role `meter`, its value is told in words twice a second.

const BAR_PX = 3;
const STEP_PX = 5;
const STEP_MS = 50;
const TELL_EVERY_MS = 500;
const CALM_EVERY_MS = 250;

const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Meter {
  #element;
  #canvas;
  #ear = null;
  #muted = false;
  #history = [];
  #peak = 0;
  #stepped = 0;
  #told = 0;
  #frame = null;

  constructor(element) {
    this.#element = element;
    this.#canvas = element.querySelector("canvas");
    new ResizeObserver(() => this.#draw()).observe(element);
    for (const query of [calm, matchMedia("(prefers-color-scheme: dark)")]) {
      query.addEventListener("change", () => this.#draw());
    }
  }

  /** Show what an Ear hears, until `stop`. */
  start(ear) {
    this.stop();
    this.#ear = ear;
    this.#history = [];
    this.#tell("silent", 0);
    const tick = (now) => {
      this.#step(now);
      this.#frame = requestAnimationFrame(tick);
    };
    this.#frame = requestAnimationFrame(tick);
  }

  /** Stop; what was heard last stays on show, dimmed. */
  stop() {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.#ear = null;
    this.#muted = false;
    this.#tell("no call", 0);
    this.#draw();
  }

  set muted(muted) {
    this.#muted = muted;
    if (this.#ear) this.#tell(muted ? "muted" : "silent", 0);
  }

  #step(now) {
    this.#peak = Math.max(this.#peak, this.#muted ? 0 : this.#ear.level());
    if (now - this.#stepped < (calm.matches ? CALM_EVERY_MS : STEP_MS)) return;
    this.#stepped = now;
    this.#history.push(this.#peak);
    const room = Math.ceil(this.#element.clientWidth / STEP_PX);
    if (this.#history.length > room) this.#history.splice(0, this.#history.length - room);
    if (now - this.#told > TELL_EVERY_MS) {
      this.#told = now;
      this.#tell(this.#muted ? "muted" : words(this.#peak), this.#peak);
    }
    this.#peak = 0;
    this.#draw();
  }

  #tell(text, level) {
    this.#element.setAttribute("aria-valuetext", text);
    this.#element.setAttribute("aria-valuenow", String(Math.round(level * 100)));
  }

  #draw() {
    const width = this.#element.clientWidth;
    const height = this.#element.clientHeight;
    const dots = globalThis.devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * dots);
    this.#canvas.height = Math.round(height * dots);
    const pen = this.#canvas.getContext("2d");
    pen.scale(dots, dots);
    pen.fillStyle = getComputedStyle(this.#element).color;
    pen.globalAlpha = this.#ear ? 1 : 0.45;
    if (calm.matches) this.#drawLevel(pen, width, height);
    else this.#drawHistory(pen, width, height);
  }

  #drawHistory(pen, width, height) {
    const tallest = height - 12;
    const bars = Math.floor((width - 12) / STEP_PX);
    for (let back = 0; back < bars; back += 1) {
      const level = this.#history.at(-1 - back) ?? 0;
      const tall = Math.max(2, level * tallest);
      bar(pen, width - 6 - back * STEP_PX - BAR_PX, (height - tall) / 2, BAR_PX, tall);
    }
  }

  #drawLevel(pen, width, height) {
    const level = this.#history.at(-1) ?? 0;
    bar(pen, 8, height / 2 - 5, Math.max(4, level * (width - 16)), 10);
  }
}

function bar(pen, x, y, width, height) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, Math.min(width, height) / 2);
  pen.fill();
}

function words(level) {
  if (level < 0.1) return "silent";
  if (level < 0.45) return "quiet";
  return level < 0.85 ? "speaking" : "loud";
}
