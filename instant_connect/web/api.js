// The server's HTTP side, and nothing else of it:
//
//   GET    v1/client-config              what this page has to know
//   POST   v1/realtime/calls?dcid=N      an offer; 201, Location, the answer
//   PUT    <Location>                    another offer in mid-call; 200, the answer
//   GET    <Location>/stats              the server's view of the start
//   DELETE <Location>                    the call is over
//
// Addresses are relative to the page, so that it works wherever the server mounts it. A server that
// wants a bearer token gets the one at the end of the page's own address, #token=...; a fragment is
// never sent by the browser itself.

import { CallFailure } from "./failure.js";

const CONFIG_URL = "v1/client-config";
const DEFAULTS = { version: "", calls: "v1/realtime/calls", dcid: 4, iceServers: [] };
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
      dcid: told.events?.dcid ?? DEFAULTS.dcid,
      iceServers: told.ice_servers ?? DEFAULTS.iceServers,
    };
  } catch {
    return DEFAULTS;
  }
}

/** Take an offer to the server. Returns `{answer, location}`; throws CallFailure. */
export async function postOffer(config, offer, signal) {
  const url = new URL(config.calls, document.baseURI);
  url.searchParams.set("dcid", config.dcid);
  const [response, answer] = await sendOffer("POST", url, offer, signal);
  const call = response.headers.get("Location");
  return { answer, location: call && new URL(call, response.url).href };
}

/** Take another offer of a call to the server and return its answer; throws CallFailure. */
export async function putOffer(call, offer, signal) {
  const [, answer] = await sendOffer("PUT", new URL(call), offer, signal);
  return answer;
}

async function sendOffer(method, url, offer, signal) {
  let response;
  let body;
  try {
    response = await fetch(url, {
      method,
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
  if (!response.ok) throw refusal(response, body);
  return [response, body];
}

function refusal(response, body) {
  const detail = `${response.status} ${said(body) || response.statusText}`;
  const wait = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const retryAfter = Number.isFinite(wait) ? wait : null;
  if (response.status === 503 || response.status === 429) {
    return new CallFailure("server-full", { detail, retryAfter });
  }
  if (response.status === 401 || response.status === 403) {
    return new CallFailure("not-allowed", { detail });
  }
  if (response.status === 404) return new CallFailure("unknown-call", { detail });
  return new CallFailure(response.status >= 500 ? "server-fault" : "refused", { detail });
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

/** Tell the server that the call is over; also while the page is being left. */
export async function endCall(call) {
  try {
    await fetch(call, { method: "DELETE", headers: headers(), keepalive: true });
  } catch {
    // DTLS says goodbye as well, and a server that is gone needs none
    return;
  }
}

function withTimeout(signal, ms) {
  const timeout = AbortSignal.timeout(ms);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}
