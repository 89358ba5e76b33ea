// What the browser itself measured: W3C's getStats, reduced to what the page shows. Browsers leave
// out different parts; what is left out is null.

const LOOK_EVERY_MS = 30;
const PACKET_MS = 20; // Opus as WebRTC sends it

/** The transport of a connection as it is now. */
export async function readTransport(connection) {
  const report = await connection.getStats();
  let transport = null;
  const pairs = [];
  for (const entry of report.values()) {
    if (entry.type === "transport") transport ??= entry;
    if (entry.type === "candidate-pair") pairs.push(entry);
  }
  const pair =
    report.get(transport?.selectedCandidatePairId) ??
    pairs.find((entry) => entry.selected || (entry.nominated && entry.state === "succeeded"));
  return {
    tlsVersion: transport?.tlsVersion ?? null,
    dtlsCipher: transport?.dtlsCipher ?? null,
    dtlsState: transport?.dtlsState ?? null,
    iceState: transport?.iceState ?? connection.iceConnectionState,
    // Firefox counts the answers of the pair that was checked first, and may select another
    rttMs: roundTrip([pair ?? {}]) ?? roundTrip(pairs),
  };
}

function roundTrip(pairs) {
  const seconds = pairs.flatMap((pair) => [
    pair.currentRoundTripTime,
    pair.responsesReceived > 0 ? pair.totalRoundTripTime / pair.responsesReceived : NaN,
  ]);
  const known = seconds.filter((value) => Number.isFinite(value) && value > 0);
  return known.length ? Math.min(...known) * 1000 : null;
}

/**
 * Call `found(time)` once, with when the first audio packet came (performance.now()); none came
 * before `since`.
 */
export function watchFirstPacket(receiver, since, signal, found) {
  let looked = since;
  const timer = setInterval(async () => {
    const began = performance.now();
    const report = await receiver.getStats();
    if (signal.aborted) return;
    for (const entry of report.values()) {
      if (entry.type !== "inbound-rtp" || !(entry.packetsReceived > 0)) continue;
      clearInterval(timer);
      found(arrival(entry, looked, performance.now()));
      return;
    }
    looked = began;
  }, LOOK_EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

/** When the first packet came: told for the last one, and between two looks in any case. */
function arrival(entry, earliest, latest) {
  const last = entry.lastPacketReceivedTimestamp - performance.timeOrigin;
  if (!Number.isFinite(last)) return latest;
  const first = last - (entry.packetsReceived - 1) * PACKET_MS;
  return Math.min(latest, Math.max(earliest, first));
}
