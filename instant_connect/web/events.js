// What the server says on the events channel, for whoever wants to see it. Shown only once there is
// something; bounded, newest first. The transcript in it has a place of its own (transcript.js).

const MOST = 50;
const LONGEST = 400;

export class EventLog {
  #section;
  #list;
  #count;
  #heard = 0;

  constructor(section, list, count) {
    this.#section = section;
    this.#list = list;
    this.#count = count;
  }

  clear() {
    this.#heard = 0;
    this.#list.replaceChildren();
    this.#section.hidden = true;
  }

  /** Show one message: its type, or its text if it is not JSON. */
  add(data) {
    const item = document.createElement("li");
    const time = document.createElement("time");
    time.textContent = new Date().toLocaleTimeString("en-GB");
    const words = document.createElement("code");
    words.textContent = describe(data);
    item.append(time, words);
    this.#list.prepend(item);
    while (this.#list.childElementCount > MOST) this.#list.lastElementChild.remove();
    this.#heard += 1;
    this.#count.textContent = String(this.#heard);
    this.#section.hidden = false;
  }
}

function describe(data) {
  if (typeof data !== "string") return `${data.byteLength ?? data.size} bytes`;
  try {
    const { type } = JSON.parse(data);
    if (typeof type === "string") return type.slice(0, LONGEST);
  } catch {
    return data.slice(0, LONGEST);
  }
  return data.slice(0, LONGEST);
}
