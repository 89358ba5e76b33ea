// Two clocks on one axis. The server counts from the first datagram of a call; this page from its
// own time origin. Each exchange over HTTP tells when the server said `now_ms`: somewhere between
// asking and being answered. The shortest exchange is the sharpest, as in NTP (RFC 5905 section 8).

/**
 * Where the server's zero lies on this page's clock: `{zero, error, exchanges}` in ms, or null.
 * `exchanges` are what readStats returned.
 */
export function alignClocks(exchanges) {
  let best = null;
  for (const { stats, asked, answered } of exchanges) {
    if (!Number.isFinite(stats.now_ms) || !(answered >= asked)) continue;
    const error = (answered - asked) / 2;
    if (best === null || error < best.error) best = { zero: asked + error - stats.now_ms, error };
  }
  return best && { ...best, exchanges: exchanges.length };
}
