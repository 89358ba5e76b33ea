// werift as a peer of the interop matrix.
import { createRequire } from "node:module";
import { content, mark, message, serve, speak, writeHeard } from "./lines.js";

const require = createRequire(process.env.PEER_MODULES);
const { MediaStreamTrack, RTCPeerConnection, RTCRtpCodecParameters, RtpHeader, RtpPacket } =
  require("werift");

const LARGEST = 1 << 21;
const OPUS = 111;
const VP8 = 96;
const TICKS = 960;
const MOST_WAITING = 2048;

class Peer {
  constructor(number, { audio, video, channels }) {
    this.number = number;
    this.channels = new Map();
    this.heardPackets = [];
    this.pc = new RTCPeerConnection({
      iceServers: [],
      iceUseIpv6: false,
      iceAdditionalHostAddresses: ["127.0.0.1"],
      maxMessageSize: LARGEST,
      codecs: {
        audio: [
          new RTCRtpCodecParameters({
            mimeType: "audio/opus",
            clockRate: 48000,
            channels: 2,
            payloadType: OPUS,
          }),
        ],
        video: [new RTCRtpCodecParameters({ mimeType: "video/VP8", clockRate: 90000, payloadType: VP8 })],
      },
    });
    this.pc.connectionStateChange.subscribe((state) => this.mark(`connection:${state}`));
    this.pc.onDataChannel.subscribe((channel) => {
      const { label, ordered, maxRetransmits, protocol } = channel;
      this.mark(`announced:${label}`, { ordered, maxRetransmits, protocol });
      this.follow(channel);
    });
    this.pc.onTrack.subscribe((track) => this.listen(track));
    if (audio) this.addAudio();
    if (video) this.pc.addTransceiver("video", { direction: "recvonly" });
    for (const channel of channels) this.open(channel);
  }

  mark(name, more) {
    mark(this.number, name, more);
  }

  // -- descriptions ------------------------------------------------------------------------------

  async offer({ restart }) {
    await this.pc.setLocalDescription(await this.pc.createOffer({ iceRestart: restart }));
    return this.described();
  }

  async answer({ sdp, setup }) {
    await this.pc.setRemoteDescription({ type: "offer", sdp });
    const made = await this.pc.createAnswer();
    // by itself it is the client, whatever the offer says; it plays the role that is set here
    const text = setup ? made.sdp.replaceAll(/a=setup:\w+/g, `a=setup:${setup}`) : made.sdp;
    await this.pc.setLocalDescription({ type: "answer", sdp: text });
    return this.described();
  }

  async described() {
    while (this.pc.iceGatheringState !== "complete") {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    return this.pc.localDescription.sdp;
  }

  async accept({ sdp }) {
    await this.pc.setRemoteDescription({ type: "answer", sdp });
  }

  // -- channels ----------------------------------------------------------------------------------

  open({ label, ordered, negotiated, stream, maxRetransmits, protocol = "" }) {
    const options = { ordered, protocol };
    if (negotiated) Object.assign(options, { negotiated, id: stream });
    if (maxRetransmits !== undefined) options.maxRetransmits = maxRetransmits;
    this.follow(this.pc.createDataChannel(label, options));
  }

  follow(channel) {
    const { label } = channel;
    this.channels.set(label, channel);
    const tell = (state) => {
      if (state === "open") this.mark(`open:${label}`);
      if (state === "closed") this.mark(`closed:${label}`);
    };
    channel.stateChanged.subscribe(tell);
    channel.onMessage.subscribe((data) => message(this.number, label, data));
    tell(channel.readyState);
  }

  closeChannel({ label }) {
    this.channels.get(label).close();
  }

  send({ label, ...rest }) {
    this.channels.get(label).send(content(rest));
  }

  async flood({ label, count, text }) {
    const channel = this.channels.get(label);
    for (let number = 0; number < count; number += 1) {
      channel.send(`${text}${number}`);
      // it is busy with what waits, and answers nobody meanwhile
      while (channel.bufferedAmount > MOST_WAITING) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
  }

  // -- sound -------------------------------------------------------------------------------------

  addAudio() {
    this.track = new MediaStreamTrack({ kind: "audio" });
    this.pc.addTransceiver(this.track, { direction: "sendrecv" });
  }

  listen(track) {
    track.onReceiveRtp.subscribe(({ header, payload }) => {
      this.heardPackets.push([header.timestamp, Buffer.from(payload)]);
    });
  }

  say({ path }) {
    const { track } = this;
    this.silence = speak(path, (payload, number) => {
      const header = new RtpHeader({
        payloadType: OPUS,
        sequenceNumber: number,
        timestamp: TICKS * number,
        marker: number === 0,
      });
      track.writeRtp(new RtpPacket(header, payload));
    });
  }

  heard({ path }) {
    writeHeard(path, this.heardPackets);
  }

  async close() {
    this.silence?.();
    await this.pc.close();
    this.mark("connection:closed");
  }
}

serve("werift", (number, options) => new Peer(number, options));
