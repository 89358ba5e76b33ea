// Tells, once, that something can be heard: the first sample above the noise of a codec.
const AUDIBLE = 0.01;

class Onset extends AudioWorkletProcessor {
  process([input]) {
    if (!input.length || !input[0].some((value) => Math.abs(value) > AUDIBLE)) return true;
    this.port.postMessage("heard");
    return false;
  }
}

registerProcessor("onset", Onset);
