// What was said, in two views: what is certain, and what may still change. Both are fed by events of
// the channel: `transcript.draft` ({item} or {removed}) and `transcript.final` ({item}), where an
// item is {id, rev, speaker, text, ahead, start_ms, end_ms, overlaps}. Bounded: the oldest go.

const MOST = 200;
const MOST_KNOWN = 1000;
const WHO = { user: "You", assistant: "Voice" };

export class Transcript {
  #section;
  #final;
  #draft;
  #none;
  #drafts = new Map(); // by id
  #known = new Set(); // ids of what is final

  constructor(section, final, draft, none) {
    this.#section = section;
    this.#final = final;
    this.#draft = draft;
    this.#none = none;
  }

  clear() {
    this.#drafts.clear();
    this.#known.clear();
    this.#final.replaceChildren();
    this.#draft.replaceChildren();
    this.#section.hidden = true;
  }

  /** Take a message of the channel; anything else than a transcript's is let be. */
  add(data) {
    const event = parse(data);
    if (event?.type === "transcript.draft") this.#revise(event);
    else if (event?.type === "transcript.final" && event.item) this.#commit(event.item);
  }

  #revise({ item, removed }) {
    if (removed) this.#drafts.delete(removed);
    // what has become final is not revised any more
    else if (item && !this.#known.has(item.id)) this.#drafts.set(item.id, item);
    this.#showDrafts();
  }

  #commit(item) {
    this.#drafts.delete(item.id);
    if (!this.#known.has(item.id)) {
      this.#known.add(item.id);
      if (this.#known.size > MOST_KNOWN) this.#known.delete(this.#known.values().next().value);
      this.#final.append(line(item));
      while (this.#final.childElementCount > MOST) this.#final.firstElementChild.remove();
      this.#final.scrollTop = this.#final.scrollHeight;
    }
    this.#showDrafts();
  }

  #showDrafts() {
    const items = [...this.#drafts.values()].sort((a, b) => a.start_ms - b.start_ms);
    this.#draft.replaceChildren(...items.slice(-MOST).map(line));
    this.#none.hidden = items.length > 0;
    this.#section.hidden = false;
  }
}

function line(item) {
  const row = document.createElement("li");
  row.dataset.speaker = item.speaker === "user" ? "user" : "assistant";
  const who = document.createElement("span");
  who.className = "who";
  who.textContent = WHO[item.speaker] ?? "Voice";
  const words = document.createElement("span");
  words.className = "words";
  words.textContent = item.text;
  if (item.ahead) {
    // written already, not heard yet
    const ahead = document.createElement("span");
    ahead.className = "ahead";
    ahead.textContent = ` ${item.ahead}`;
    words.append(ahead);
  }
  for (const note of item.overlaps ?? []) {
    const aside = document.createElement("small");
    aside.textContent = `${WHO[note.speaker] ?? "Voice"}, meanwhile: ${note.text}`;
    words.append(aside);
  }
  const time = document.createElement("time");
  time.textContent = clock(item.start_ms);
  row.append(time, who, words);
  return row;
}

function clock(ms) {
  const seconds = Math.floor((ms ?? 0) / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

function parse(data) {
  if (typeof data !== "string") return null;
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}
