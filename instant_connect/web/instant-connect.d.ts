// Types of instant-connect.js: what a page may use, and nothing else.

/** Which way a call went. */
export type Path =
  /** By its first packet; signalling has not answered (yet). */
  | "instant"
  /** By its first packet, and signalling has joined it. */
  | "attached"
  /** By signalling, since there was no ticket to try. */
  | "signalled"
  /** By signalling, after the server did not take the ticket. */
  | "stale";

/** Moments of a start, in the order in which they usually come; not every path has all. */
export type Mark =
  | "begun"
  /** The offer is written. */
  | "offered"
  | "posted"
  /** Our own answer is applied: checks leave. */
  | "attempted"
  | "answered"
  /** The answer that counts is applied. */
  | "applied"
  /** The first check is answered. */
  | "ice"
  /** Connected. */
  | "dtls"
  /** The events channel is open. */
  | "channel";

export interface Options {
  /** Where bundles come from (`GET /v1/instant`). Without one every call is signalled. */
  bundleUrl?: string;
  /** Where offers go (`POST /v1/realtime/calls`), relative to the page. */
  offerUrl: string;
  /** A bearer token, or what returns one; asked before every request. */
  token?: string | (() => string | Promise<string>);
  /** In place of the global one. */
  fetch?: typeof fetch;
  /** For signalled calls. With TURN servers, or with `relay`, every call is signalled. */
  rtc?: RTCConfiguration;
  /** Label of the negotiated events channel: "oai-events". */
  label?: string;
  /** Its stream id where no bundle says it: 4. */
  dcid?: number;
  /** How long a call may take to connect: 20000. */
  timeoutMs?: number;
}

export interface Wish {
  /** What is spoken. A promise may be kept while the call begins; nothing: see `Call.pc`. */
  track?: MediaStreamTrack | Promise<MediaStreamTrack>;
  /** In place of `track`: its first audio track. */
  stream?: MediaStream;
  /** Channels beside the events channel, on which `onMessage` hears as well. */
  channels?: ({ label: string } & RTCDataChannelInit)[];
  /** Gives the call up until it is connected. */
  signal?: AbortSignal;
  /** What the server says. It may come twice: the later one takes the earlier one's place. */
  onTrack?: (event: RTCTrackEvent) => void;
  onMessage?: (data: string | ArrayBuffer | Blob, channel: RTCDataChannel) => void;
  /** A moment has been reached, for the first time; `at` by `performance.now()`. */
  onMark?: (name: Mark, at: number) => void;
}

export interface Call {
  /** "instant" becomes "attached" when signalling joins; else it stays. */
  readonly path: Path;
  readonly pc: RTCPeerConnection;
  readonly events: RTCDataChannel;
  /** The events channel and those wished for, by label. */
  readonly channels: Readonly<Record<string, RTCDataChannel>>;
  readonly marks: Readonly<Partial<Record<Mark, number>>>;
  /** The call's address at the server, once signalling has told it: PUT, PATCH, DELETE. */
  readonly location: string | null;
  /** Hang up; with `tell: false` without telling signalling. */
  close(options?: { tell?: boolean }): Promise<void>;
}

/** What went wrong, in plain words. */
export class InstantError extends Error {
  readonly kind: "no-webrtc" | "offline" | "unreachable" | "refused" | "bad-answer" | "no-path";
  /** What the server answered with; 0 if it did not. */
  readonly status: number;
  /** Seconds after which the server wants to be asked again. */
  readonly retryAfter: number | null;
}

export class InstantConnect {
  constructor(options: Options);
  /** Why the next call would not be instant, in plain words; empty when it would. */
  readonly problem: string;
  /** Get ready ahead of the click; resolves to whether the next call can be instant. */
  prepare(): Promise<boolean>;
  /** Fetch other tickets now; it is done by itself when it is time. Never rejects. */
  refresh(): Promise<void>;
  /**
   * Call; resolves once it is connected, whichever way. Rejects with an InstantError, or with what
   * `signal` was aborted or `track` was rejected with, and then nothing is left open.
   */
  connect(wish?: Wish): Promise<Call>;
  /** Stop refreshing; calls go on. */
  close(): void;
}

/** Server ufrag, own answer and headers of one attempt; `connect` calls it. */
export function writeAttempt(
  bundle: object,
  ticket: { t: string; pwd: string },
  offer: string,
  nonce?: Uint8Array,
): Promise<{ ufrag: string; answer: string; headers: Record<string, string> }>;
