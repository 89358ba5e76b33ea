// What both programs have in common: JSON lines in, JSON lines out (interop/peers/lines.py).
import { createReadStream, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const FRAME_MS = 20;

// Seconds of the clock that the driver reads as well (CLOCK_MONOTONIC).
export const now = () => Number(process.hrtime.bigint()) / 1e9;

export function emit(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

export function mark(pc, name, more = {}) {
  emit({ pc, ev: "mark", name, t: now(), ...more });
}

export function message(pc, label, data) {
  if (typeof data === "string") emit({ pc, ev: "message", label, text: data });
  else emit({ pc, ev: "message", label, base64: Buffer.from(data).toString("base64") });
}

// Return the content of `send`: a text, or octets.
export function content({ text, base64 }) {
  return text ?? Buffer.from(base64, "base64");
}

// Send the Opus payloads of a file, one every 20 ms: send(payload, number). Returns how to stop.
export function speak(path, send) {
  const payloads = JSON.parse(readFileSync(path, "utf8"));
  const began = now();
  let number = 0;
  const timer = setInterval(() => {
    while (number < payloads.length && 1000 * (now() - began) >= FRAME_MS * number) {
      send(Buffer.from(payloads[number], "base64"), number);
      number += 1;
    }
    if (number === payloads.length) clearInterval(timer);
  }, FRAME_MS / 2);
  return () => clearInterval(timer);
}

// Write what was heard: [[timestamp, payload], ...], one a line.
export function writeHeard(path, packets) {
  const lines = packets.map(([at, payload]) => JSON.stringify([at, payload.toString("base64")]));
  writeFileSync(path, lines.join("\n"));
}

// Obey until standard input ends. make(number, options): a connection; commands are its methods.
export function serve(version, make) {
  const known = new Map();
  async function obey({ cmd, pc, ...rest }) {
    if (cmd === "hello") return { version };
    if (cmd === "create") {
      known.set(pc, await make(pc, rest));
      return null;
    }
    const connection = known.get(pc);
    if (cmd === "close") {
      known.delete(pc);
      return connection ? ((await connection.close()) ?? null) : null;
    }
    if (!connection) throw new Error(`no connection ${pc}`);
    return (await connection[cmd](rest)) ?? null;
  }
  createInterface({ input: createReadStream(null, { fd: 0 }) })
    .on("line", async (line) => {
      const { id, ...command } = JSON.parse(line);
      try {
        emit({ re: id, value: await obey(command) });
      } catch (error) {
        emit({ re: id, error: String(error?.stack ?? error).slice(0, 800) });
      }
    })
    .on("close", () => process.exit(0));
}
