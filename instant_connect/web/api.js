// The server's HTTP side, and nothing else of it:
//
//   GET    v1/client-config              what this page has to know
//   GET    v1/instant                    tickets for calls to come        ┐
//   POST   v1/realtime/calls?dcid=N      an offer; 201, Location, answer  │ instant-connect.js
//   DELETE <Location>                    the call is over                 ┘
//   PUT    <Location>                    another offer in mid-call; 200, the answer
//   GET    <Location>/stats              the server's view of the start
//
// Addresses are relative to the page, so that it works wherever the server mounts it. A server that
// wants a bearer token gets the one at the end of the page's own address, #token=...; a fragment is
// never sent by the browser itself.

import { CallFailure, refusal } from "./failure.js";
import { InstantConnect } from "./instant-connect.js";

const CONFIG_URL = "v1/client-config";
const DEFAULTS = { version: "", calls: "v1/realtime/calls", instant: null, dcid: 4, iceServers: [] };
const OFFER_TIMEOUT_MS = 15_000;
const STATS_TIMEOUT_MS = 3_000;

const token = takeToken();

function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  // out of sight: addresses are read over shoulders and kept in histories
  if (found !== null) history.replaceState(null, "", location.pathname + location.search);
  return found;
}

function headers(given = {}) {
  return token === null ? given : { ...given, Authorization: `Bearer ${token}` };
}

/** What the server says about itself; what it leaves out, or does not answer, has a default. */
export async function readConfig() {
  try {
    const response = await fetch(CONFIG_URL, { headers: headers() });
    if (!response.ok) return DEFAULTS;
    const told = await response.json();
    return {
      version: told.version ?? DEFAULTS.version,
      calls: told.endpoints?.calls ?? DEFAULTS.calls,
      instant: told.endpoints?.instant ?? DEFAULTS.instant,
      dcid: told.events?.dcid ?? DEFAULTS.dcid,
      iceServers: told.ice_servers ?? DEFAULTS.iceServers,
    };
  } catch {
    return DEFAULTS;
  }
}

/** What calls are made with, ready for the first one as soon as it can be. */
export function openConnect(config) {
  const connect = new InstantConnect({
    bundleUrl: config.instant && new URL(config.instant, document.baseURI).href,
    offerUrl: new URL(config.calls, document.baseURI).href,
    token,
    dcid: config.dcid,
    rtc: { iceServers: config.iceServers },
  });
  connect.prepare();
  return connect;
}

/** Take another offer of a call to the server and return its answer; throws CallFailure. */
export async function putOffer(call, offer, signal) {
  const url = new URL(call);
  let response;
  let body;
  try {
    response = await fetch(url, {
      method: "PUT",
      headers: headers({ "Content-Type": "application/sdp" }),
      body: offer,
      signal: withTimeout(signal, OFFER_TIMEOUT_MS),
    });
    body = await response.text();
  } catch (error) {
    // the caller's own signal is no failure: it knows why it has given up
    if (signal.aborted) throw error;
    throw new CallFailure(navigator.onLine === false ? "offline" : "unreachable", {
      detail: `${url.host}: ${error.message}`,
    });
  }
  if (!response.ok) throw refusal(response.status, `${response.status} ${said(body) || response.statusText}`);
  return body;
}

function said(body) {
  try {
    return JSON.parse(body).error?.message ?? "";
  } catch {
    return /^\s*</.test(body) ? "" : body;
  }
}

/** The server's view of a call, with when it was asked and answered on this page's clock, or null. */
export async function readStats(call) {
  const url = `${call}/stats`;
  let asked = performance.now();
  try {
    const response = await fetch(url, {
      headers: headers(),
      signal: withTimeout(undefined, STATS_TIMEOUT_MS),
    });
    if (!response.ok) return null;
    const stats = await response.json();
    let answered = performance.now();
    // the browser's own record of the exchange is nearer to the wire than this script
    const entry = performance.getEntriesByName(url).at(-1);
    if (entry?.requestStart > 0 && entry.responseStart > 0) {
      asked = entry.requestStart;
      answered = entry.responseStart;
    }
    return { stats, asked, answered };
  } catch {
    return null;
  }
}

function withTimeout(signal, ms) {
  const timeout = AbortSignal.timeout(ms);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}
