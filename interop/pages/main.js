// What a test may call by name: see interop/browser.py.
import * as audio from "./audio.js";
import * as peer from "./peer.js";

globalThis.interop = { ...peer, ...audio };
