// Passes on what it hears: blocks of 128 samples gathered to 20 ms, the first channel.
const BLOCKS = 8;

class Recorder extends AudioWorkletProcessor {
  #parts = [];

  process([input]) {
    if (!input.length) return true;
    this.#parts.push(input[0].slice());
    if (this.#parts.length < BLOCKS) return true;
    const whole = new Float32Array(this.#parts.length * input[0].length);
    this.#parts.forEach((part, at) => whole.set(part, at * part.length));
    this.#parts = [];
    this.port.postMessage(whole, [whole.buffer]);
    return true;
  }
}

registerProcessor("recorder", Recorder);
