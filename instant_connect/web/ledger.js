// The round-trip ledger of one start: from moments on two clocks to stages on one axis, rows of a
// table, and the figures on top. Pure: numbers in, numbers out; timeline.js draws it.
//
// Time zero is the click. Round trips are counted from when the offer left: what comes before is
// this device's own time.

import { alignClocks } from "./clock.js";

// where connectivity begins depends on the path: see `began`
const BEGAN = "began";
const STAGES = [
  { id: "microphone", name: "Microphone", group: "device", from: ["click"], to: ["microphone"] },
  { id: "offer", name: "Offer", group: "device", from: ["begun", "microphone"], to: ["posted"] },
  { id: "attempt", name: "Ticket, not taken", group: "device", from: ["attempted"], to: ["answered"], path: "stale" },
  { id: "signalling", name: "Signalling (HTTP)", group: "signalling", from: ["posted"], to: ["answered"], server: ["offer_read"] },
  { id: "ice", name: "Connectivity (ICE)", group: "connection", from: [BEGAN], to: ["ice"], server: ["first_check"] },
  { id: "dtls", name: "Encryption (DTLS)", group: "connection", from: ["ice"], to: ["dtls"], server: ["dtls_connected"] },
  { id: "channel", name: "Events channel", group: "connection", from: ["dtls"], to: ["channel"], server: ["channel_open"] },
  { id: "sound", name: "Sound to you", group: "sound", from: ["dtls"], to: ["audible", "packet"], server: ["first_media_sent"] },
  { id: "voice", name: "Sound to the server", group: "sound", from: ["dtls"], to: ["server:first_media_received"], server: ["first_media_received"] },
];

const STEPS = {
  click: "Button pressed",
  microphone: "Microphone opened",
  offered: "Offer written",
  posted: "Offer sent",
  attempted: "Own answer applied, checks leave",
  answered: "Answer received",
  applied: "Answer applied",
  ice: "Path found (ICE connected)",
  dtls: "Encryption agreed (DTLS connected)",
  channel: "Events channel open",
  packet: "First audio packet received",
  audible: "First audible sample",
};

const SERVER_STEPS = {
  offer_read: "Offer read",
  offer_answered: "Answer written",
  first_check: "First check received",
  dtls_negotiated: "ClientHello complete",
  early_write: "Sound may leave",
  first_media_sent: "First audio packet sent",
  pair: "Path confirmed",
  dtls_connected: "DTLS connected",
  channel_open: "Events channel open",
  first_media_received: "First audio packet received",
};

const LONG_QUESTION = 1.5; // a microphone prompt longer than this times the rest is cut

/**
 * Build the ledger of a call from its `marks` and `facts`. All times in ms after the click.
 * `{zero, end, stages, rows, figures, trip: {ms, from, how} | null, clock, cut}`.
 */
export function buildLedger(marks, facts) {
  const found = alignClocks(facts.exchanges) ?? assumedClock(marks, facts);
  const clock = found && { ...found, zero: found.zero - marks.click };
  const here = (name) => (name in marks ? marks[name] - marks.click : undefined);
  const there = serverTimes(facts.server, clock?.zero ?? null);
  const began = beganAt(facts.path, here);
  const at = (name) => {
    if (name === BEGAN) return began;
    return name.startsWith("server:") ? there[name.slice(7)] : here(name);
  };
  const sped = Boolean(facts.server?.sped?.used);
  const shown = STAGES.filter(({ path }) => path === undefined || path === facts.path);
  const stages = shown.map((stage) => place(stage, at, there, sped)).filter(Boolean);
  const trip = roundTrip(facts, here("posted"));
  const end = Math.max(0, ...stages.flatMap((stage) => [stage.end, ...stage.server.map((m) => m.at)]));
  const cut = cutAt(stages, end);
  return { zero: cut, end, stages, rows: rows(here, there, trip), figures: figures(here, there, trip, facts.path), trip, clock, cut };
}

const BESIDE = ["instant", "attached"];

/** When the checks began that led somewhere: with our own answer, or with the server's. */
function beganAt(path, here) {
  return path === "stale" ? here("answered") : (here("attempted") ?? here("answered"));
}

/** The length of a round trip: from connectivity checks, else from the shortest HTTP exchange. */
function roundTrip({ transport, exchanges }, from) {
  if (from === undefined) return null;
  if (transport?.rttMs != null) return { ms: transport.rttMs, from, how: "checks" };
  if (!exchanges.length) return null;
  const shortest = Math.min(...exchanges.map(({ asked, answered }) => answered - asked));
  return { ms: shortest, from, how: "http" };
}

function assumedClock(marks, { server, transport }) {
  if (!server || !("applied" in marks)) return null;
  return { zero: marks.applied + (transport?.rttMs ?? 0) / 2, error: null, exchanges: 0 };
}

function serverTimes(server, zero) {
  if (!server || zero === null) return {};
  const told = {
    offer_read: server.signalling?.offer_read_ms,
    offer_answered: server.signalling?.answered_ms,
    ...server.milestones_ms,
  };
  const known = Object.entries(told).filter(([, ms]) => Number.isFinite(ms));
  return Object.fromEntries(known.map(([name, ms]) => [name, ms + zero]));
}

function place(stage, at, there, sped) {
  // with SPED the handshake rides in the checks: both begin together
  const from = stage.id === "dtls" && sped ? [BEGAN] : stage.from;
  const end = stage.to.map(at).find((value) => value !== undefined);
  const begin = from.map(at).find((value) => value !== undefined);
  if (end === undefined || begin === undefined) return null;
  const server = (stage.server ?? [])
    .filter((name) => name in there)
    .map((name) => ({ name: SERVER_STEPS[name], at: there[name] }));
  return { id: stage.id, name: stage.name, group: stage.group, start: Math.min(begin, end), end, server };
}

/** Where the axis begins: 0, or shortly before the microphone was given after a long question. */
function cutAt(stages, end) {
  const microphone = stages.find((stage) => stage.id === "microphone");
  // whatever was there before it must stay in the picture
  const beside = (stage) => stage.group === "connection" && stage.end < microphone.end;
  if (!microphone || stages.some(beside)) return 0;
  const rest = end - microphone.end;
  return microphone.end > rest * LONG_QUESTION && rest > 0 ? microphone.end - rest * 0.2 : 0;
}

function rows(here, there, trip) {
  const all = [
    ...Object.keys(STEPS).map((id) => ({ id, step: STEPS[id], side: "browser", at: here(id) })),
    ...Object.keys(SERVER_STEPS).map((id) => ({ id, step: SERVER_STEPS[id], side: "server", at: there[id] })),
  ].filter((row) => row.at !== undefined);
  const posted = here("posted");
  return all
    .sort((one, other) => one.at - other.at)
    .map((row) => ({
      ...row,
      afterOffer: posted === undefined ? null : row.at - posted,
      trips: countable(trip) ? (row.at - trip.from) / trip.ms : null,
    }));
}

function figures(here, there, trip, path) {
  const [posted, dtls, channel] = ["posted", "dtls", "channel"].map(here);
  const heard = here("audible") ?? here("packet");
  const first = beganAt(path, here);
  const how = BESIDE.includes(path) ? "signalling beside them" : "signalling included";
  const found = [];
  if (first !== undefined) {
    const known = there.first_check;
    const aside = known === undefined ? "before anything is known of the path" : `at the server after ${ms(known)}`;
    found.push({ id: "check", name: "Click to first check", ms: first, aside });
  }
  if (dtls !== undefined) {
    found.push({ id: "click", name: "Click to connected", ms: dtls, aside: waited(here("microphone"), dtls) });
    found.push({ id: "network", name: "Offer to connected", ms: dtls - posted, aside: trips(dtls - posted, trip, how) });
  }
  if (heard !== undefined && dtls !== undefined) {
    const after = heard - dtls;
    found.push({ id: "sound", name: here("audible") === undefined ? "Click to first audio packet" : "Click to first sound", ms: heard,
      aside: after >= 0 ? `${ms(after)} after connected` : `${ms(-after)} before connected` });
  } else if (channel !== undefined) {
    found.push({ id: "channel", name: "Click to open channel", ms: channel, aside: trips(channel - posted, trip, how) });
  }
  return found;
}

/** What the microphone took of the time until `dtls`, if it was not still asked for then. */
function waited(microphone, dtls) {
  return microphone > dtls ? `the microphone came at ${ms(microphone)}` : `${ms(microphone)} of it for the microphone`;
}

const COUNTABLE_MS = 10; // below this, a computer's own delays outweigh the path's

/** Whether round trips of this length can be told from the computers' own delays. */
export function countable(trip) {
  return trip !== null && trip.ms >= COUNTABLE_MS;
}

function trips(duration, trip, how) {
  if (trip === null) return how;
  if (!countable(trip)) return `${how}; one round trip takes ${ms(trip.ms)}`;
  return `${(duration / trip.ms).toFixed(1)} round trips of ${ms(trip.ms)}, ${how}`;
}

/** Milliseconds for people: whole ones from 10 on, one decimal below. */
export function ms(value) {
  return `${number(value)} ms`;
}

export function number(value) {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  const rounded = Math.abs(value) < 9.95 ? Math.round(value * 10) / 10 : Math.round(value);
  return rounded.toLocaleString("en", { maximumFractionDigits: 1 });
}
