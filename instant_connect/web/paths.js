// The way that a call took, in words. Pure.

const WAYS = {
  instant: {
    verdict: "used",
    chip: "Instant",
    words: "The call began with its first packet. Signalling has not answered.",
  },
  attached: {
    verdict: "used",
    chip: "Instant, attached",
    words: "The call began with its first packet; signalling went its way at the same time and joined it.",
  },
  stale: {
    verdict: "older",
    chip: "Stale",
    words: "The server did not take the ticket; signalling was under way already and took over.",
  },
};

/** `{verdict, chip, words}` of a call's `facts`, or null as long as its way is not known. */
export function describePath({ path, why }) {
  if (path !== "signalled") return WAYS[path] ?? null;
  const words = "The call was signalled first, then came its first packet";
  return { verdict: "no", chip: "Signalled", words: why ? `${words}: ${why}.` : `${words}.` };
}
