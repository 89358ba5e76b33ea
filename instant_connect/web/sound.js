// Listens to streams for the meters and for the first audible sample. Nothing here plays: the
// <audio> element does.

const AUDIBLE = 0.01; // peak of a sample (full scale 1): -40 dB, above comfort noise
const LOOK_EVERY_MS = 10;
const FLOOR_DB = -60;

export class Ear {
  #analyser;
  #source;
  #samples;
  #watch = null;

  constructor(context, stream) {
    this.#source = context.createMediaStreamSource(stream);
    this.#analyser = context.createAnalyser();
    this.#analyser.fftSize = 2048; // 43 ms at 48 kHz: more than lies between two looks
    this.#source.connect(this.#analyser);
    this.#samples = new Float32Array(this.#analyser.fftSize);
  }

  /** Loudness now, 0 (silence, -60 dB) to 1 (full scale). */
  level() {
    this.#analyser.getFloatTimeDomainData(this.#samples);
    let sum = 0;
    for (const sample of this.#samples) sum += sample * sample;
    const rms = Math.sqrt(sum / this.#samples.length);
    if (rms === 0) return 0;
    return Math.min(1, Math.max(0, 1 - (20 * Math.log10(rms)) / FLOOR_DB));
  }

  /** Call `found(time)` once, with when the first audible sample passed (performance.now()). */
  watchFirstSound(found) {
    const rate = this.#analyser.context.sampleRate;
    this.#watch = setInterval(() => {
      this.#analyser.getFloatTimeDomainData(this.#samples);
      const at = this.#samples.findIndex((sample) => Math.abs(sample) > AUDIBLE);
      if (at < 0) return;
      this.#stopWatching();
      found(performance.now() - ((this.#samples.length - at) / rate) * 1000);
    }, LOOK_EVERY_MS);
  }

  #stopWatching() {
    clearInterval(this.#watch);
    this.#watch = null;
  }

  close() {
    this.#stopWatching();
    this.#source.disconnect();
  }
}

/**
 * The context that Ears listen in, or null where there is no Web Audio: then there are no meters.
 * Opening one takes tens of milliseconds, which is why a page does it before they are counted; it
 * runs only between `resume` in a person's gesture and `suspend`.
 */
export function openSound() {
  const Context = globalThis.AudioContext ?? globalThis.webkitAudioContext;
  return Context ? new Context({ latencyHint: "interactive" }) : null;
}
