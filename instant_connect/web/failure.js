// What went wrong, in plain words, and what to do about it. Thrown by every module that starts a
// call; shown by app.js. `detail` is what a machine said, for whoever reports the fault.

const MAX_DETAIL = 240;

const WORDS = {
  "no-webrtc": [
    "This browser cannot make calls",
    "Use a current version of Chrome, Edge, Firefox or Safari. If WebRTC is switched off in the settings, switch it on.",
  ],
  "insecure-page": [
    "The microphone needs a secure address",
    "Browsers give the microphone only to pages at https:// or on localhost. Open this page at such an address.",
  ],
  "microphone-denied": [
    "The microphone is blocked",
    "Allow the microphone for this page: choose the icon beside the address, set Microphone to Allow, then start again.",
  ],
  "microphone-missing": [
    "No microphone was found",
    "Connect a microphone or a headset, make sure that the system lists it, then start again.",
  ],
  "microphone-busy": [
    "The microphone cannot be opened",
    "Another program may be using it. Close that program or unplug and reconnect the microphone, then start again.",
  ],
  "offline": [
    "This device is offline",
    "Connect to a network, then start again.",
  ],
  "unreachable": [
    "The server cannot be reached",
    "It may have been stopped, or the network is down. Check both, then start again.",
  ],
  "server-full": [
    "The server is full",
    "All of its lines are taken. Wait a moment, then start again.",
  ],
  "server-fault": [
    "The server had a fault",
    "Start again. If that does not help, tell whoever runs the server what is said below.",
  ],
  "refused": [
    "The server did not accept this call",
    "Reload the page and start again. If that does not help, tell whoever runs the server what is said below.",
  ],
  "not-allowed": [
    "This server does not let everybody call",
    "Open this page at the address that whoever runs the server has given you; it ends in #token=….",
  ],
  "unknown-call": [
    "The server does not know this call",
    "It may have been restarted. Reload the page and start again.",
  ],
  "microphone-lost": [
    "The microphone was disconnected",
    "The call goes on and you hear the server, but it does not hear you. Reconnect the microphone, then call again.",
  ],
  "bad-answer": [
    "The server's answer cannot be used",
    "Page and server may be of different versions. Reload the page, then start again.",
  ],
  "no-path": [
    "No packets come through",
    "The server answered, but nothing arrives over UDP. A firewall or VPN may block it: try another network.",
  ],
  "lost": [
    "The connection was lost",
    "The network changed or the server went away. Start again to call anew.",
  ],
  "page-fault": [
    "Something unexpected happened in this page",
    "Reload the page and start again.",
  ],
};

export class CallFailure extends Error {
  /** `kind` is a key of the list above. */
  constructor(kind, { detail = "", retryAfter = null } = {}) {
    super(kind);
    this.name = "CallFailure";
    this.kind = kind;
    this.detail = oneLine(detail);
    this.retryAfter = retryAfter;
  }

  get title() {
    return WORDS[this.kind][0];
  }

  get advice() {
    const seconds = this.retryAfter;
    if (this.kind === "server-full" && seconds > 0) {
      return `All of its lines are taken. Wait ${seconds} second${seconds === 1 ? "" : "s"}, then start again.`;
    }
    return WORDS[this.kind][1];
  }
}

export function failureOf(error) {
  if (error instanceof CallFailure) return error;
  return new CallFailure("page-fault", { detail: String(error?.message ?? error) });
}

/** What instant-connect.js throws, for a person. */
export function connectFailure(error) {
  const { kind, status, retryAfter, message: detail } = error;
  switch (kind) {
    case "no-webrtc":
      return new CallFailure("no-webrtc");
    case "offline":
      return new CallFailure("offline");
    case "unreachable":
      return new CallFailure("unreachable", { detail });
    case "refused":
      return refusal(status, detail, retryAfter);
    case "bad-answer":
      return new CallFailure("bad-answer", { detail });
    case "no-path":
      return new CallFailure("no-path");
    default:
      return failureOf(error);
  }
}

/** What a status of the server's means for a call (RFC 9110 section 15). */
export function refusal(status, detail, retryAfter = null) {
  if (status === 503 || status === 429) return new CallFailure("server-full", { detail, retryAfter });
  if (status === 401 || status === 403) return new CallFailure("not-allowed", { detail });
  if (status === 404) return new CallFailure("unknown-call", { detail });
  return new CallFailure(status >= 500 ? "server-fault" : "refused", { detail });
}

/** What getUserMedia (W3C Media Capture and Streams, section 10.2) means for a person. */
export function microphoneFailure(error) {
  const detail = `${error.name}: ${error.message}`;
  switch (error.name) {
    case "NotAllowedError":
    case "SecurityError":
      return new CallFailure("microphone-denied", { detail });
    case "NotFoundError":
    case "OverconstrainedError":
      return new CallFailure("microphone-missing", { detail });
    case "NotReadableError":
    case "AbortError":
      return new CallFailure("microphone-busy", { detail });
    default:
      return new CallFailure("page-fault", { detail });
  }
}

function oneLine(text) {
  const line = String(text).replace(/\s+/g, " ").trim();
  return line.length > MAX_DETAIL ? `${line.slice(0, MAX_DETAIL - 1)}…` : line;
}
