// libdatachannel (node-datachannel) as a peer of the interop matrix.
import { createRequire } from "node:module";
import { content, mark, message, serve, speak, writeHeard } from "./lines.js";

const require = createRequire(process.env.PEER_MODULES);
const datachannel = require("node-datachannel");

const LARGEST = 1 << 21;
const OPUS = 111;
const VP8 = 96;
const TICKS = 960;
const HEADER = 12;

class Peer {
  constructor(number, { audio, video, channels }) {
    this.number = number;
    this.channels = new Map();
    this.heardPackets = [];
    this.pc = new datachannel.PeerConnection(`peer-${number}`, {
      iceServers: [],
      bindAddress: "127.0.0.1",
      maxMessageSize: LARGEST,
      disableAutoNegotiation: true,
      // else a call that begins without audio can't get any
      forceMediaTransport: true,
    });
    this.pc.onStateChange((state) => this.mark(`connection:${state}`));
    this.pc.onDataChannel((channel) => {
      // the binding tells neither order nor retransmissions
      this.mark(`announced:${channel.getLabel()}`, { ordered: null, protocol: channel.getProtocol() });
      this.follow(channel);
      if (channel.isOpen()) this.mark(`open:${channel.getLabel()}`);
    });
    this.pc.onTrack((track) => this.listen(track));
    if (audio) this.addAudio();
    if (video) this.addVideo();
    for (const channel of channels) this.open(channel);
  }

  mark(name, more) {
    mark(this.number, name, more);
  }

  // -- descriptions ------------------------------------------------------------------------------

  // Set a local description and return it once every candidate is in it.
  async describe(type) {
    this.pc.setLocalDescription(type);
    // the handler of the gathering state runs too late for who asks behind it
    while (this.pc.gatheringState() !== "complete" || !this.pc.localDescription()) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    return this.pc.localDescription().sdp;
  }

  offer({ restart }) {
    if (restart) throw new Error("libdatachannel restarts no ICE");
    return this.describe("offer");
  }

  answer({ sdp, setup }) {
    // it takes the client's role of what an offer leaves open: close it
    const left = { passive: "active", active: "passive" }[setup];
    const offer = left ? sdp.replaceAll("a=setup:actpass", `a=setup:${left}`) : sdp;
    this.pc.setRemoteDescription(offer, "offer");
    return this.describe("answer");
  }

  accept({ sdp }) {
    this.pc.setRemoteDescription(sdp, "answer");
  }

  // -- channels ----------------------------------------------------------------------------------

  open({ label, ordered, negotiated, stream, maxRetransmits, protocol }) {
    const options = { unordered: !ordered };
    if (negotiated) Object.assign(options, { negotiated, id: stream });
    if (maxRetransmits !== undefined) options.maxRetransmits = maxRetransmits;
    if (protocol) options.protocol = protocol;
    this.follow(this.pc.createDataChannel(label, options));
  }

  follow(channel) {
    const label = channel.getLabel();
    this.channels.set(label, channel);
    channel.onOpen(() => this.mark(`open:${label}`));
    channel.onClosed(() => this.mark(`closed:${label}`));
    channel.onMessage((data) => message(this.number, label, data));
  }

  closeChannel({ label }) {
    this.channels.get(label).close();
  }

  send({ label, ...rest }) {
    const data = content(rest);
    const channel = this.channels.get(label);
    if (typeof data === "string") channel.sendMessage(data);
    else channel.sendMessageBinary(data);
  }

  flood({ label, count, text }) {
    const channel = this.channels.get(label);
    for (let number = 0; number < count; number += 1) channel.sendMessage(`${text}${number}`);
  }

  // -- sound -------------------------------------------------------------------------------------

  addVideo() {
    const video = new datachannel.Video("video", "SendRecv");
    video.addVP8Codec(VP8);
    this.pc.addTrack(video);
  }

  addAudio() {
    const audio = new datachannel.Audio("audio", "SendRecv");
    audio.addOpusCodec(OPUS);
    this.ssrc = 1 + (this.number % 0x7fffffff);
    audio.addSSRC(this.ssrc, "peer", "peer", "audio");
    this.track = this.pc.addTrack(audio);
    this.listen(this.track);
  }

  listen(track) {
    // the answerer speaks on the track that the offer has brought
    this.track = track;
    track.onMessage((packet) => {
      if ((packet[1] & 0x7f) === OPUS) {
        const extended = packet[0] & 0x10;
        const csrcs = packet[0] & 0x0f;
        let at = HEADER + 4 * csrcs;
        if (extended) at += 4 + 4 * packet.readUInt16BE(at + 2);
        this.heardPackets.push([packet.readUInt32BE(4), packet.subarray(at)]);
      }
    });
  }

  say({ path }) {
    const { track, ssrc } = this;
    this.silence = speak(path, (payload, number) => {
      const packet = Buffer.alloc(HEADER + payload.length);
      packet.writeUInt8(0x80, 0);
      packet.writeUInt8(OPUS | (number === 0 ? 0x80 : 0), 1);
      packet.writeUInt16BE(number, 2);
      packet.writeUInt32BE(TICKS * number, 4);
      packet.writeUInt32BE(ssrc, 8);
      payload.copy(packet, HEADER);
      track.sendMessageBinary(packet);
    });
  }

  heard({ path }) {
    writeHeard(path, this.heardPackets);
  }

  close() {
    this.silence?.();
    this.pc.close();
    this.mark("connection:closed");
  }
}

serve(`libdatachannel ${datachannel.getLibraryVersion()}`, (number, options) => new Peer(number, options));
