// What this browser supports, in words. Before a call from an offer that goes nowhere, after a call
// from the descriptions and from what both ends measured.
//
// Each line: `{name, what, verdict, chip, words}`; verdict: used, yes, offered, older, no, unknown.

import { describePath } from "./paths.js";

const SPED_OPTIONS = ["sped", "googspedv1", "goog-sped-v1"];
const DTLS_NAMES = { FEFC: "1.3", FEFD: "1.2", FEFF: "1.0" };

/** What a description shows. */
export function readDescription(sdp) {
  const options = [...sdp.matchAll(/^a=ice-options:(.*)$/gm)].flatMap((m) => m[1].trim().split(/\s+/));
  return {
    snap: /^a=sctp-init:\S/m.test(sdp),
    sped: options.some((option) => SPED_OPTIONS.includes(option)),
  };
}

/** Find out without a call: an offer that nobody gets, and a provisional answer to ourselves. */
export async function probe() {
  if (!globalThis.RTCPeerConnection) return null;
  // `relay` without a relay: not one packet leaves
  const quiet = { iceTransportPolicy: "relay" };
  const [asking, answering] = [new RTCPeerConnection(quiet), new RTCPeerConnection(quiet)];
  try {
    asking.createDataChannel("probe", { negotiated: true, id: 0 });
    const offer = await asking.createOffer();
    const seen = readDescription(offer.sdp);
    await asking.setLocalDescription(offer);
    await answering.setRemoteDescription(offer);
    const answer = await answering.createAnswer();
    let provisional = true;
    try {
      await asking.setRemoteDescription({ type: "pranswer", sdp: answer.sdp });
    } catch {
      provisional = false;
    }
    return { ...seen, provisional };
  } catch {
    return null;
  } finally {
    asking.close();
    answering.close();
  }
}

/**
 * The lines to show. `probed` and `facts` may be null: not known yet. `tickets` is why there are none,
 * empty when there are some.
 */
export function describeSupport(probed, facts, tickets = null) {
  const offered = facts?.offer ? readDescription(facts.offer) : probed;
  const accepted = facts?.answer ? readDescription(facts.answer) : null;
  return [
    dtls(facts),
    postQuantum(facts),
    sped(offered, facts),
    snap(offered, accepted, facts),
    instant(facts, tickets),
    provisionalAnswer(probed),
  ];
}

function line(name, what, verdict, chip, words) {
  return { name, what, verdict, chip, words };
}

function dtls(facts) {
  const name = ["DTLS", "encryption of the call"];
  const version =
    DTLS_NAMES[facts?.transport?.tlsVersion?.toUpperCase()] ?? facts?.server?.dtls?.version;
  if (!version) return line(...name, "unknown", "After a call", "The version is agreed upon in a call.");
  const cipher = facts.transport?.dtlsCipher;
  const suite = cipher ? ` with ${cipher}` : "";
  if (version === "1.3") {
    return line(...name, "used", "1.3", `Negotiated DTLS 1.3${suite}: one round trip.`);
  }
  return line(...name, "older", version, `Negotiated DTLS ${version}${suite}: two round trips.`);
}

function postQuantum(facts) {
  const name = ["Post-quantum keys", "X25519MLKEM768"];
  const { group, post_quantum: hybrid } = facts?.server?.dtls ?? {};
  if (!group) {
    return line(...name, "unknown", "After a call", "Only the server sees which key exchange was chosen.");
  }
  return hybrid
    ? line(...name, "used", "Used", `Key exchange ${group}: a classical and a post-quantum one together.`)
    : line(...name, "no", "Not used", `Key exchange ${group}: classical. No hybrid one was agreed upon.`);
}

function sped(offered, facts) {
  const name = ["SPED", "DTLS inside connectivity checks"];
  const seen = facts?.server?.sped;
  if (seen?.used) {
    return line(...name, "used", "Used", "The handshake travelled inside the connectivity checks.");
  }
  if (offered?.sped) {
    const words = seen
      ? "Offered, but the server saw no DTLS in this browser's checks."
      : "Offered by this browser in its ICE options.";
    return line(...name, "offered", "Offered", words);
  }
  if (!offered) return unknown(name);
  return line(...name, "no", "Not offered",
    switchable("This browser does not offer it", "the field trial WebRTC-IceHandshakeDtls does."));
}

function snap(offered, accepted, facts) {
  const name = ["SNAP", "SCTP start inside the offer"];
  if (!offered) return unknown(name);
  if (!offered.snap) {
    return line(...name, "no", "Not offered",
      switchable("This browser does not offer it", "the origin trial WebRtcSctpSnap does."));
  }
  if (!facts?.answer) {
    return line(...name, "offered", "Offered", "The offer carries a=sctp-init.");
  }
  if (accepted.snap) {
    return line(...name, "used", "Used", "Offered and used: the channel opened without SCTP's own handshake.");
  }
  return line(...name, "offered", "Offered", "Offered, but the server's answer has no a=sctp-init.");
}

function instant(facts, tickets) {
  const name = ["Instant Connect", "a call that begins with its first packet"];
  const path = facts?.path ? describePath(facts) : null;
  if (path) return line(...name, path.verdict, path.chip, path.words);
  if (tickets === null) return unknown(name);
  return tickets
    ? line(...name, "no", "Not ready", `The next call takes the way of signalling: ${tickets}.`)
    : line(...name, "yes", "Ready", "The page holds tickets: the next call need not wait for signalling.");
}

function provisionalAnswer(probed) {
  const name = ["Provisional answers", "pranswer (RFC 9429)"];
  if (!probed) return unknown(name);
  return probed.provisional
    ? line(...name, "yes", "Supported", "An answer may be applied first and confirmed later on the same connection.")
    : line(...name, "no", "Not supported", "This browser refuses setRemoteDescription with type pranswer.");
}

/** What Chromium can be told to do, other browsers cannot. */
function switchable(words, remedy) {
  const brands = navigator.userAgentData?.brands ?? [];
  return brands.some(({ brand }) => brand === "Chromium") ? `${words} by itself; ${remedy}` : `${words}.`;
}

function unknown(name) {
  return line(...name, "unknown", "After a call", "Could not be found out without a call.");
}
