// Draws a ledger as SVG: a row a stage, one axis in ms for both ends, a line each round trip. The
// text alternative is one sentence; the figures themselves stand in the table below.

import { countable, ms, number } from "./ledger.js";

const SPACE = "http://www.w3.org/2000/svg";
const ROW = 34;
const BAR = 12;
const NARROW = 560; // px: below, names stand above their bars
const NAME_WIDTH = 172;
const VALUE_WIDTH = 64;
const AXIS = 28;
const MIN_TRIP_PX = 16;
const TRIP_LABEL_PX = 48;
const HALF_LABEL_PX = 16;
const STEPS = [1, 2, 5];

const GROUPS = {
  device: "This device",
  signalling: "Signalling",
  connection: "Connection",
  sound: "Sound",
};

/** Draw `ledger` into `place`, as wide as it is. */
export function drawTimeline(place, ledger) {
  const width = Math.max(240, Math.floor(place.clientWidth));
  const narrow = width < NARROW;
  const frame = {
    width,
    zero: ledger.zero,
    left: narrow ? 0 : NAME_WIDTH,
    right: width - VALUE_WIDTH,
    row: narrow ? ROW + 14 : ROW,
    narrow,
  };
  const span = Math.max(1, ledger.end - ledger.zero);
  frame.x = (at) => frame.left + (Math.max(0, at - ledger.zero) / span) * (frame.right - frame.left);
  frame.bottom = ledger.stages.length * frame.row + 4;
  const height = frame.bottom + AXIS + (drawsTrips(ledger, frame) ? 18 : 0);
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.setAttribute("aria-label", inWords(ledger));
  drawAxis(svg, ledger, frame);
  ledger.stages.forEach((stage, index) => drawStage(svg, stage, index * frame.row, frame));
  place.replaceChildren(svg);
}

function drawStage(svg, stage, top, frame) {
  const middle = top + frame.row - ROW / 2;
  if (top > 0) line(svg, "row-rule", 0, top, frame.width, top);
  if (frame.narrow) text(svg, "row-name", 0, top + 17, stage.name);
  else text(svg, "row-name", 0, middle + 5, stage.name);
  const from = frame.x(stage.start);
  const long = Math.max(3, frame.x(stage.end) - from);
  const bar = make("rect", {
    class: `bar-${stage.group}`, x: round(from), y: middle - BAR / 2, width: round(long), height: BAR,
    rx: Math.min(4, long / 2),
  });
  title(bar, `${stage.name}: ${ms(stage.end - stage.start)}, from ${number(stage.start)} to ${ms(stage.end)}`);
  svg.append(bar);
  if (stage.start < frame.zero) svg.append(make("path", { class: "cut", d: cutAt(from + 8, middle) }));
  let reach = from + long;
  for (const mark of stage.server) {
    const x = frame.x(mark.at);
    reach = Math.max(reach, x + 6);
    const diamond = make("path", { class: "server-mark", d: diamondAt(x, middle) });
    title(diamond, `Server: ${mark.name}, at ${ms(mark.at)}`);
    svg.append(diamond);
  }
  text(svg, "row-value", reach + 8, middle + 5, ms(stage.end - stage.start));
}

function drawAxis(svg, ledger, frame) {
  if (drawsTrips(ledger, frame)) {
    const { from, ms: length } = ledger.trip;
    let labelled = -Infinity;
    for (let n = 0; from + n * length <= ledger.end + 0.5; n += 1) {
      const x = frame.x(from + n * length);
      line(svg, "trip", x, 0, x, frame.bottom + AXIS - 8);
      if (x - labelled < TRIP_LABEL_PX) continue;
      labelled = x;
      const anchor = x < HALF_LABEL_PX ? "start" : "middle";
      text(svg, "axis-text", x, frame.bottom + AXIS + 6, n === 0 ? "offer" : `${n} RTT`, anchor);
    }
  }
  line(svg, "row-rule", 0, frame.bottom, frame.width, frame.bottom);
  const step = niceStep((ledger.end - ledger.zero) / ((frame.right - frame.left) / 72));
  for (let at = Math.ceil(ledger.zero / step) * step; at <= ledger.end; at += step) {
    const anchor = frame.x(at) < HALF_LABEL_PX ? "start" : "middle";
    text(svg, "axis-text", frame.x(at), frame.bottom + 16, at === 0 ? "0 ms" : number(at), anchor);
  }
}

function drawsTrips(ledger, frame) {
  if (!countable(ledger.trip)) return false;
  const px = frame.x(ledger.zero + ledger.trip.ms) - frame.x(ledger.zero);
  return px >= MIN_TRIP_PX;
}

/** The legend's entries as list items. */
export function drawLegend(list, ledger) {
  const groups = Object.keys(GROUPS).filter((group) => ledger.stages.some((s) => s.group === group));
  const entries = groups.map((group) =>
    entry(make("rect", { class: `bar-${group}`, x: 0, y: 1, width: 12, height: 12, rx: 3 }), GROUPS[group]),
  );
  if (ledger.stages.some((stage) => stage.server.length)) {
    entries.push(entry(make("path", { class: "server-mark", d: diamondAt(7, 7) }), "The same at the server"));
  }
  if (countable(ledger.trip)) {
    const rule = make("path", { class: "trip", d: "M7 0v14" });
    entries.push(entry(rule, `One round trip (${ms(ledger.trip.ms)})`));
  }
  list.replaceChildren(...entries);
}

/** How the two clocks relate, and what the axis leaves out. */
export function clockNote(ledger) {
  const said = [];
  if (ledger.clock?.error != null) {
    const { zero, error, exchanges } = ledger.clock;
    said.push(
      `The server counts from the first datagram it received. On this axis that is ` +
        `${ms(zero)} ± ${ms(error)}: ${exchanges} exchanges over HTTP compared the two clocks.`,
    );
  } else if (ledger.clock) {
    said.push(
      "The server counts from the first datagram it received, which is assumed here to lie half a round trip after the answer was applied.",
    );
  } else {
    said.push("The server's own times are not known.");
  }
  if (ledger.trip && !countable(ledger.trip)) {
    said.push(`A round trip of ${ms(ledger.trip.ms)} is too short to be drawn.`);
  }
  if (ledger.trip?.how === "http") said.push("The round trip was timed over HTTP: this browser tells none.");
  if (!ledger.trip) said.push("This browser did not tell the round-trip time.");
  if (ledger.cut > 0) said.push("The wait for the microphone is cut short in the picture.");
  return said.join(" ");
}

function inWords(ledger) {
  const stages = ledger.stages.map((s) => `${s.name} ${ms(s.end - s.start)}`);
  return `Timeline of this start, ${ms(ledger.end)} from the click: ${stages.join(", ")}. Exact figures are in the table below.`;
}

function niceStep(least) {
  let scale = 1;
  for (;;) {
    for (const step of STEPS) if (step * scale >= least) return step * scale;
    scale *= 10;
  }
}

function entry(shape, words) {
  const item = document.createElement("li");
  const svg = make("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" });
  svg.append(shape);
  item.append(svg, words);
  return item;
}

function make(name, attributes) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function line(svg, kind, x1, y1, x2, y2) {
  svg.append(make("line", { class: kind, x1: round(x1), y1: round(y1), x2: round(x2), y2: round(y2) }));
}

function text(svg, kind, x, y, words, anchor = "start") {
  const element = make("text", { class: kind, x: round(x), y: round(y), "text-anchor": anchor });
  element.textContent = words;
  svg.append(element);
}

function title(element, words) {
  const child = make("title", {});
  child.textContent = words;
  element.append(child);
}

function diamondAt(x, y) {
  return `M${round(x)} ${y - 6}l6 6l-6 6l-6-6z`;
}

function cutAt(x, y) {
  return `M${round(x)} ${y + 9}l6 -18m3 0l-6 18`;
}

function round(value) {
  return Math.round(value * 10) / 10;
}
