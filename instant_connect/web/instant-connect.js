// Instant Connect in a page: a call that begins with its first packet. One module, no dependency.
//
//   ahead of time    GET bundle ─▶ tickets, each good for one call
//   first connection    offer ─▶ our own answer; its ufrag is a ticket and who we are ─▶ checks leave
//   second connection   offer ─▶ POST, as ever ─┬▶ the same session: attached, the first has the call
//                                               └▶ another answer: stale, the second takes it over
//
// Two connections with one certificate, not one that takes a provisional answer (RFC 9429 section
// 4.1.10.1): one that sends checks already sends those with other credentials when its next check is
// due, in Chromium up to 62 ms later. Layouts are the server's: `instant_connect/ufrag.py`,
// `attempt.py`, `profile.py`. Local descriptions are applied as the browser wrote them. Types:
// instant-connect.d.ts.

const TICKET_BYTES = 63;
const SNAP = 1; // flag: tag and TSN of our INIT follow
const SPED_OPTIONS = ["sped", "googspedv1", "goog-sped-v1"];
const MARGIN_MS = 2000; // a ticket that expires sooner is not worth an attempt
const LEAST_MS = 1000; // between two bundles, whatever they say
const RETRY_MS = 5000; // first wait for a bundle that did not come; it doubles
const RETRY_MOST_MS = 300_000;
const POST_TIMEOUT_MS = 15_000;
const POST_AGAIN_MS = 30_000; // for so long a call that lives asks signalling to join it
const SIGN_MS = 3000; // for so long a call whose signalling has failed may be without a sign of life
const GOODBYE_MS = 1000;

/** What went wrong, in plain words. `kind` is for machines, `status` the server's if it answered. */
export class InstantError extends Error {
  constructor(kind, message, status = 0, retryAfter = null) {
    super(message);
    Object.assign(this, { name: "InstantError", kind, status, retryAfter });
  }
}

export class InstantConnect {
  #options;
  #ability = null; // {certificate, udp}
  #bundle = null; // {terms, tickets, isFresh}
  #why; // there is no bundle
  #fetching = null;
  #failures = 0;
  #due = Infinity;
  #timer;
  #life = new AbortController();

  constructor(options) {
    this.#options = { label: "oai-events", dcid: 4, timeoutMs: 20_000, rtc: {}, ...options };
    this.#why = options.bundleUrl ? "prepare() has not been called" : "the server offers no tickets";
    const listen = (target, type, wait) =>
      target?.addEventListener?.(type, () => this.#look(wait), { signal: this.#life.signal });
    listen(globalThis, "online", 0);
    listen(navigator.connection, "change", 0);
    listen(document, "visibilitychange");
  }

  /** Why the next call would not be instant, in plain words; empty when it would. */
  get problem() {
    if (!this.#bundle) return this.#why;
    if (!this.#bundle.tickets.length) return "no ticket is left";
    if (!this.#bundle.isFresh()) return "the tickets have expired";
    if (!this.#ability) return "this browser did not let us prepare a call";
    const { iceTransportPolicy, iceServers = [] } = this.#options.rtc;
    const urls = iceServers.flatMap((server) => server.urls);
    if (iceTransportPolicy === "relay" || urls.some((url) => /^turns?:/.test(url))) return "calls are relayed";
    return this.#ability.udp ? "" : "this browser sends nothing over UDP";
  }

  /** Get ready ahead of the click. Resolves to whether the next call can be instant. */
  async prepare() {
    await this.refresh();
    return !this.problem;
  }

  /** Fetch other tickets now; never rejects. */
  refresh() {
    return (this.#fetching ??= this.#fetch().finally(() => (this.#fetching = null)));
  }

  /** Stop refreshing. Calls go on. */
  close() {
    this.#life.abort();
    clearTimeout(this.#timer);
  }

  /**
   * Call. Resolves to a Call once it is connected, whichever way; rejects with an InstantError, or
   * with what `signal` was aborted or `track` rejected with, and then nothing is left open.
   */
  async connect(wish = {}) {
    const call = new Call(this.#options, wish);
    const { terms, tickets } = (!this.problem && this.#bundle) || {};
    const refuse = () => {
      this.#bundle = null;
      this.#why = "the server did not take the last ticket";
    };
    try {
      return await call.start(this.#ability, terms, tickets?.pop(), refuse);
    } finally {
      this.#look(0);
    }
  }

  async #fetch() {
    if (!this.#options.bundleUrl) return;
    // what was found without a network need not hold with one
    const exploring = this.#ability?.udp ? this.#ability : explore().catch(() => null);
    let wait = Math.min(RETRY_MOST_MS, RETRY_MS * 2 ** this.#failures);
    try {
      const asked = [performance.now(), Date.now()];
      const response = await request(this.#options, this.#options.bundleUrl, { cache: "no-store" });
      const [bundle, lifeMs] = readBundle(JSON.parse(await response.text()), asked);
      this.#bundle = bundle;
      this.#failures = 0;
      wait = Math.max(LEAST_MS, Math.min(1000 * (bundle.terms.refresh_after_s ?? 300), lifeMs / 2));
    } catch (error) {
      this.#failures += 1;
      this.#why = `no tickets: ${error.message}`;
      // a server that has none, or none for us, is not asked again by itself
      if (isFinal(error)) wait = Infinity;
    }
    this.#ability = await exploring;
    this.#look(wait);
  }

  /** Refresh as soon as it is time and somebody looks: a page in the background needs no tickets. */
  #look(wait) {
    if (!this.#options.bundleUrl || this.#life.signal.aborted) return;
    const now = performance.now();
    if (wait !== undefined) this.#due = now + wait;
    clearTimeout(this.#timer);
    if (document.hidden || this.#due === Infinity) return;
    if (this.#due > now) this.#timer = setTimeout(() => this.#look(), this.#due - now);
    else this.refresh();
  }
}

/** A certificate for all calls of this page, and whether a connection that nobody calls finds UDP. */
async function explore() {
  const certificate = await RTCPeerConnection.generateCertificate({ name: "ECDSA", namedCurve: "P-256" });
  const pc = new RTCPeerConnection({ certificates: [certificate], bundlePolicy: "max-bundle" });
  try {
    pc.createDataChannel("", { negotiated: true, id: 0 });
    const udp = new Promise((resolve) => {
      pc.onicecandidate = ({ candidate }) => {
        if (!candidate || candidate.protocol === "udp") resolve(Boolean(candidate));
      };
    });
    await pc.setLocalDescription(await pc.createOffer());
    return { certificate, udp: await udp };
  } finally {
    pc.close();
  }
}

// -- a call ------------------------------------------------------------------------------------

class Call {
  path = "signalled";
  marks = {};
  location = null;
  pc;
  #options;
  #wish;
  #ways = new Map(); // connection: its channels
  #end = {};
  #heard; // resolves with the first sign of life
  #hear;
  #over = new AbortController();

  constructor(options, wish) {
    this.#options = options;
    this.#wish = wish;
    this.#heard = new Promise((resolve) => (this.#hear = resolve));
    this.#mark("begun");
  }

  get channels() {
    return this.#ways.get(this.pc);
  }

  get events() {
    return this.channels[this.#options.label];
  }

  async close({ tell = true } = {}) {
    this.#over.abort();
    const { location } = this;
    this.location = null;
    const told = tell && location && this.#forget(location);
    // told first: once its connection is closed, the server has no call that could be ended
    if (this.marks.dtls) await told;
    for (const pc of this.#ways.keys()) pc.close();
  }

  async start(ability, terms, ticket, refuse) {
    const { signal } = this.#wish;
    signal?.throwIfAborted();
    if (!globalThis.RTCPeerConnection) throw new InstantError("no-webrtc", "This browser cannot make calls.");
    const ended = new Promise((resolve, reject) => (this.#end = { resolve, reject }));
    const abort = () => this.#end.reject(signal.reason);
    signal?.addEventListener("abort", abort);
    const late = () => this.#end.reject(this.marks.answered ? noPath() : unreachable("no answer in time"));
    const timer = setTimeout(late, this.#options.timeoutMs);
    try {
      this.#begin(ability, terms, ticket, refuse).catch(this.#end.reject);
      await ended;
    } catch (error) {
      this.close();
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
    return this;
  }

  async #begin(ability, terms, ticket, refuse) {
    const certificates = ability ? { certificates: [ability.certificate] } : {};
    const dcid = terms?.dcid ?? this.#options.dcid;
    // servers for reflexive and relayed addresses are of use to signalled calls only
    const first = this.#open({ ...certificates, ...(!ticket && this.#options.rtc) }, dcid);
    this.pc = first;
    const offer = await first.createOffer();
    this.#mark("offered");
    const described = first.setLocalDescription(offer);
    // what cannot be written (no Opus, no WebCrypto) goes by signalling
    const attempt = ticket && (await writeAttempt(terms, ticket, offer.sdp).catch(() => null));
    if (!attempt) {
      // together: a connection that is closed meanwhile never says that it is described
      const [posted] = await Promise.all([this.#post(offer.sdp, dcid), described]);
      return this.#apply(first, posted);
    }
    this.path = "instant";
    await described;
    // an answer of ours that this browser does not take leaves signalling's
    const applied = first.setRemoteDescription({ type: "answer", sdp: attempt.answer });
    const tried = () => {
      this.#mark("attempted");
      return attempt.ufrag;
    };
    const trying = applied.then(tried, () => null);
    // after that, since the first packets are not to wait for it
    const second = this.#open(certificates, dcid);
    const other = await second.createOffer();
    const posting = this.#postAgain(other.sdp, dcid, attempt.headers);
    await second.setLocalDescription(other);
    await this.#settle(first, second, await trying, await posting, refuse);
  }

  /** Attempt and signalling come together. Who is connected is not changed for another. */
  async #settle(first, second, ufrag, posted, refuse) {
    if (this.#over.signal.aborted) return;
    // nothing is heard of the attempt, and signalling has said why
    if (posted.error && !this.marks.ice) throw posted.error;
    const joined = ufrag && posted.ufrag === ufrag;
    if (posted.sdp && !joined && first.connectionState !== "connected") {
      this.path = ufrag ? "stale" : "signalled";
      refuse();
      this.pc = second;
      await this.#apply(second, posted);
      first.close();
      return;
    }
    if (joined) Object.assign(this, { path: "attached", location: posted.location });
    else if (posted.location) this.#forget(posted.location);
    second.close();
    this.#mark("applied");
    if (first.connectionState === "failed") throw noPath();
  }

  async #apply(pc, { sdp, location }) {
    this.location = location;
    await pc.setRemoteDescription({ type: "answer", sdp }).catch((error) => {
      throw new InstantError("bad-answer", `The server's answer cannot be used: ${error.message}`);
    });
    this.#mark("applied");
  }

  #open(config, dcid) {
    const { track, stream, channels = [], onTrack, onMessage } = this.#wish;
    const { label } = this.#options;
    const pc = new RTCPeerConnection({ bundlePolicy: "max-bundle", ...config });
    const spoken = track ?? stream?.getAudioTracks()[0];
    const { sender } = pc.addTransceiver(spoken?.kind ? spoken : "audio", stream && { streams: [stream] });
    // a microphone may open while the call begins
    const speak = (track) => pc.signalingState !== "closed" && sender.replaceTrack(track);
    spoken?.then?.(speak).catch(this.#end.reject);
    const opened = [{ label, negotiated: true, id: dcid }, ...channels].map(({ label, ...init }) => {
      const channel = pc.createDataChannel(label, init);
      channel.onmessage = ({ data }) => onMessage?.(data, channel);
      return [label, channel];
    });
    opened[0][1].onopen = () => this.#mark("channel");
    pc.ontrack = (event) => onTrack?.(event);
    pc.oniceconnectionstatechange = pc.onconnectionstatechange = () => this.#look(pc);
    this.#ways.set(pc, Object.fromEntries(opened));
    return pc;
  }

  #look(pc) {
    if (pc !== this.pc) return;
    if (["connected", "completed"].includes(pc.iceConnectionState)) {
      this.#mark("ice");
      this.#hear();
    }
    if (pc.connectionState === "connected") {
      this.#mark("dtls");
      this.#end.resolve();
    }
    // as long as signalling has not answered, it may know a way
    if (pc.connectionState === "failed" && this.marks.applied) this.#end.reject(noPath());
  }

  #mark(name, at = performance.now()) {
    if (this.marks[name]) return;
    this.marks[name] = at;
    this.#wish.onMark?.(name, at);
  }

  // -- signalling ------------------------------------------------------------------------------

  async #post(offer, dcid, headers) {
    const url = new URL(this.#options.offerUrl, document.baseURI);
    url.searchParams.set("dcid", dcid);
    this.#mark("posted");
    const response = await request(this.#options, url, {
      method: "POST",
      headers: { "Content-Type": "application/sdp", ...headers },
      body: offer,
      signal: AbortSignal.any([this.#over.signal, AbortSignal.timeout(POST_TIMEOUT_MS)]),
    });
    const sdp = await response.text();
    this.#mark("answered");
    const location = response.headers.get("Location");
    const ufrag = /^a=ice-ufrag:(\S+)/m.exec(sdp)?.[1];
    return { sdp, ufrag, location: location && new URL(location, url).href };
  }

  /** Post beside an attempt, again for a while if need be; returns `{error}` in the end. */
  async #postAgain(offer, dcid, headers) {
    const until = performance.now() + POST_AGAIN_MS;
    for (let wait = 500; ; wait *= 2) {
      try {
        return await this.#post(offer, dcid, headers);
      } catch (error) {
        wait = Math.max(wait, 1000 * (error.retryAfter ?? 0));
        // a call that lives can wait for signalling, and whether this one does shows soon
        if (!this.marks.ice) await Promise.race([this.#heard, pause(SIGN_MS)]);
        const pointless = isFinal(error) || !this.marks.ice || this.#over.signal.aborted;
        if (pointless || performance.now() + wait > until) return { error };
        await pause(wait);
      }
    }
  }

  #forget(location) {
    const told = request(this.#options, location, { method: "DELETE", keepalive: true });
    // DTLS says goodbye as well, and a server that is gone needs none
    return Promise.race([told.catch(() => null), pause(GOODBYE_MS)]);
  }
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function unreachable(why) {
  return new InstantError("unreachable", `The server cannot be reached: ${why}`);
}

function noPath() {
  return new InstantError("no-path", "No packets come through over UDP: a firewall or VPN may block them.");
}

function isFinal({ status }) {
  return status >= 400 && status < 500 && status !== 429;
}

/** Fetch with the token; throws an InstantError for whatever is no success. */
async function request({ fetch: own, token }, url, { headers, ...init }) {
  const bearer = await (typeof token === "function" ? token() : token);
  const all = { ...headers, ...(bearer && { Authorization: `Bearer ${bearer}` }) };
  let response;
  try {
    response = await (own ?? fetch)(url, { ...init, headers: all });
  } catch (error) {
    if (navigator.onLine === false) throw new InstantError("offline", "This device is offline.");
    throw unreachable(error.message);
  }
  if (response.ok) return response;
  const { status, headers: told } = response;
  const body = await response.json().catch(() => null);
  const wait = Number.parseInt(told.get("Retry-After"), 10);
  const words = `The server answered ${status}: ${body?.error?.message ?? response.statusText}`;
  throw new InstantError("refused", words, status, Number.isFinite(wait) ? wait : null);
}

// -- bundle, ufrag, answer (pure) --------------------------------------------------------------

/** What a bundle holds, and for how long (ms); throws for what is none. `asked`: ticks and wall, ms. */
function readBundle(terms, asked) {
  // its own two times tell how long it lasts: a clock of ours that is wrong does not matter
  const lifeMs = 1000 * (terms.expires_at - terms.issued_at);
  const { v, setup, fingerprint, tickets } = terms;
  if (v !== 1 || setup !== "passive" || !addressesOf(terms).length || !fingerprint || !tickets || !(lifeMs > 0)) {
    throw new Error("the bundle is of another version, or not complete");
  }
  // ticks may stand still while a computer sleeps
  const ageMs = () => Math.max(performance.now() - asked[0], Date.now() - asked[1]);
  const isFresh = () => ageMs() < lifeMs - MARGIN_MS;
  return [{ terms, tickets: [...tickets], isFresh }, lifeMs];
}

/** The UDP addresses of a bundle, best first. */
function addressesOf({ candidates }) {
  const found = candidates.map((line) => /^udp \[?([0-9a-f.:]+)]? (\d+)$/i.exec(line));
  return found.filter(Boolean).map(([, host, port]) => ({ host, port }));
}

/**
 * What an attempt consists of: `{answer, ufrag, headers}`, from a bundle as it came, one of its
 * tickets and our offer. Throws when the offer has more or less than Opus and a data section.
 */
export async function writeAttempt(terms, { t, pwd }, sdp, nonce = crypto.getRandomValues(new Uint8Array(8))) {
  const offer = readOffer(sdp);
  const ticket = bytesOf(t);
  if (ticket.length !== TICKET_BYTES || !(offer.opus >= 96 && offer.opus < 128)) throw new RangeError("unusable");
  const init = terms.snap ? offer.init : null;
  const parts = [...ticket, init ? SNAP : 0, offer.opus, ...nonce, ...offer.fingerprint];
  if (init) parts.push(...init.subarray(4, 8), ...init.subarray(16, 20));
  const ufrag = textOf(parts).replace(/=+$/, "");
  const key = await crypto.subtle.importKey("raw", utf8(pwd), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = async (label) => new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8(label + ufrag)));
  const [proof, sctp] = await Promise.all([mac("IC1 attach"), init && mac("IC1 sctp")]);
  const id = new DataView(nonce.buffer, nonce.byteOffset).getBigUint64(0) >> 1n;
  return {
    ufrag,
    answer: writeAnswer(terms, offer, { ufrag, pwd, id, init: sctp && serverInit(terms.sctp_init, sctp) }),
    headers: {
      "Instant-Ufrag": ufrag,
      "Instant-Proof": textOf(proof.subarray(0, 24)),
    },
  };
}

/** The template with the tag and the TSN of one session. */
function serverInit(template, numbers) {
  const init = bytesOf(template);
  init.set(numbers.subarray(0, 4), 4);
  if (!init.subarray(4, 8).some(Boolean)) init[7] = 1; // a tag is never 0 (RFC 9260 section 3.3.2)
  init.set(numbers.subarray(4, 8), 16);
  return textOf(init);
}

/** What counts of our own offer. */
function readOffer(sdp) {
  const [session, audio, data, ...more] = sdp.split(/^(?=m=)/m);
  if (!audio?.startsWith("m=audio") || !data?.startsWith("m=application") || more.length) {
    throw new RangeError("an offer has one audio section, then one for data");
  }
  const find = (pattern, text = sdp) => pattern.exec(text)?.[1];
  const init = find(/^a=sctp-init:(\S+)/m, data);
  const bytes = init && bytesOf(init);
  return {
    opus: Number(find(/^a=rtpmap:(\d+) opus\/48000/im, audio)),
    mids: [audio, data].map((section) => find(/^a=mid:(\S+)/m, section)),
    options: [...(find(/^a=ice-options:(.*)/m) ?? "").trim().split(" ")],
    fingerprint: find(/^a=fingerprint:sha-256 (\S+)/im).split(":").map((octet) => parseInt(octet, 16)),
    init: bytes?.length >= 20 && bytes.subarray(4, 8).some(Boolean) ? bytes : null,
  };
}

/** The answer of session profile 1, as the server would write it. */
function writeAnswer(terms, offer, { ufrag, pwd, id, init }) {
  const { fingerprint, ice_options: known = [], max_message_size: size = 65_536 } = terms;
  const addresses = addressesOf(terms);
  const { host = "0.0.0.0", port = 9 } = addresses[0] ?? {};
  const allowed = ["trickle", ...(known.includes("sped") ? SPED_OPTIONS : [])];
  const options = offer.options.filter((option) => allowed.includes(option));
  const where = `c=IN IP${host.includes(":") ? 6 : 4} ${host}`;
  const transport = [
    `a=ice-ufrag:${ufrag}`,
    `a=ice-pwd:${pwd}`,
    ...(options.length ? [`a=ice-options:${options.join(" ")}`] : []),
    `a=fingerprint:${fingerprint}`,
    "a=setup:passive",
  ];
  const lines = [
    "v=0",
    `o=- ${id} 1 IN IP4 127.0.0.1`,
    "s=-",
    "t=0 0",
    `a=group:BUNDLE ${offer.mids.join(" ")}`,
    "a=ice-lite",
    `m=audio ${port} UDP/TLS/RTP/SAVPF ${offer.opus}`,
    where,
    ...addresses.map(({ host, port }, n) => `a=candidate:${n + 1} 1 udp ${2130706431 - 256 * n} ${host} ${port} typ host`),
    ...transport,
    `a=mid:${offer.mids[0]}`,
    "a=sendrecv",
    "a=msid:-",
    "a=rtcp-mux",
    `a=rtpmap:${offer.opus} opus/48000/2`,
    `a=fmtp:${offer.opus} minptime=10;useinbandfec=1`,
    `m=application ${port} UDP/DTLS/SCTP webrtc-datachannel`,
    where,
    ...transport,
    `a=mid:${offer.mids[1]}`,
    "a=sctp-port:5000",
    `a=max-message-size:${size}`,
    ...(init ? [`a=sctp-init:${init}`] : []),
  ];
  return `${lines.join("\r\n")}\r\n`;
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

function textOf(bytes) {
  return btoa(String.fromCharCode(...bytes));
}

function utf8(text) {
  return new TextEncoder().encode(text);
}
