//! One connection: a socket on 127.0.0.1, str0m, and what it is told to do.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{json, Value};
use str0m::change::{SdpAnswer, SdpOffer, SdpPendingOffer};
use str0m::channel::{ChannelConfig, ChannelId, Reliability};
use str0m::config::DtlsVersion;
use str0m::media::{Direction, Frequency, MediaKind, MediaTime, Mid};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, IceConnectionState, Input, Output, Rtc};

use crate::{emit, now, reply};

const MOST_WAITING: usize = 1 << 22;
const FRAME: Duration = Duration::from_millis(20);
const TICKS: u64 = 960;
const LONGEST_WAIT: Duration = Duration::from_millis(2);

type Done = Result<Value, String>;

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub struct Peer {
    number: u64,
    rtc: Rtc,
    socket: UdpSocket,
    pending: Option<SdpPendingOffer>,
    wanted: Vec<ChannelConfig>,
    wants_audio: bool,
    wants_video: bool,
    labels: HashMap<String, ChannelId>,
    names: HashMap<ChannelId, String>,
    opened_here: Vec<ChannelId>,
    /// What did not fit into the buffer yet.
    waiting: VecDeque<(ChannelId, bool, Vec<u8>)>,
    mid: Option<Mid>,
    speech: VecDeque<Vec<u8>>,
    began: Option<(Instant, u64)>,
    heard: Vec<(u32, Vec<u8>)>,
    state: &'static str,
}

impl Peer {
    pub fn new(command: &Value) -> Result<Peer, String> {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(said)?;
        let mut rtc = Rtc::builder()
            .clear_codecs()
            .enable_opus(true, false)
            .enable_vp8(true)
            .set_dtls_version(DtlsVersion::Auto)
            .set_snap_enabled(command["snap"] == true)
            .set_sctp_max_buffered_amount(MOST_WAITING)
            .build(Instant::now());
        let address = socket.local_addr().map_err(said)?;
        rtc.add_local_candidate(Candidate::host(address, "udp").map_err(said)?);
        let channels = command["channels"].as_array().cloned().unwrap_or_default();
        Ok(Peer {
            number: command["pc"].as_u64().unwrap_or(0),
            rtc,
            socket,
            pending: None,
            wanted: channels.iter().map(config_of).collect(),
            wants_audio: command["audio"] == true,
            wants_video: command["video"] == true,
            labels: HashMap::new(),
            names: HashMap::new(),
            opened_here: Vec::new(),
            waiting: VecDeque::new(),
            mid: None,
            speech: VecDeque::new(),
            began: None,
            heard: Vec::new(),
            state: "new",
        })
    }

    /// Obey until told to close, or until nobody can tell anything.
    pub fn run(&mut self, commands: Receiver<Value>) {
        let mut buffer = vec![0; 2000];
        loop {
            let Some(due) = self.drain() else { return };
            match commands.try_recv() {
                Ok(command) => {
                    let closes = command["cmd"] == "close";
                    let result = self.obey(&command);
                    self.drain();
                    reply(&command["id"], result);
                    if closes {
                        self.mark("connection:closed", json!({}));
                        return;
                    }
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            if self.speak() || self.write_waiting() {
                continue;
            }
            let wait = due
                .saturating_duration_since(Instant::now())
                .clamp(Duration::from_micros(200), LONGEST_WAIT);
            if !self.receive(&mut buffer, wait) {
                return;
            }
        }
    }

    /// Let str0m say everything that it has to; returns when it wants to be asked again.
    fn drain(&mut self) -> Option<Instant> {
        loop {
            match self.rtc.poll_output() {
                Ok(Output::Timeout(due)) => return Some(due),
                Ok(Output::Transmit(out)) => {
                    let _ = self.socket.send_to(&out.contents, out.destination);
                }
                Ok(Output::Event(event)) => self.note(event),
                Err(error) => {
                    eprintln!("{error}");
                    self.mark("connection:failed", json!({}));
                    return None;
                }
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8], wait: Duration) -> bool {
        let _ = self.socket.set_read_timeout(Some(wait));
        let address = self.socket.local_addr().expect("a bound socket");
        let input = match self.socket.recv_from(buffer) {
            Ok((size, source)) => match (&buffer[..size]).try_into() {
                Ok(contents) => Input::Receive(
                    Instant::now(),
                    Receive {
                        proto: Protocol::Udp,
                        source,
                        destination: address,
                        contents,
                    },
                ),
                Err(_) => return true,
            },
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Input::Timeout(Instant::now())
            }
            // an ICMP error for an earlier datagram
            Err(_) => return true,
        };
        if let Err(error) = self.rtc.handle_input(input) {
            eprintln!("{error}");
            self.mark("connection:failed", json!({}));
            return false;
        }
        true
    }

    fn mark(&self, name: &str, mut more: Value) {
        more["pc"] = json!(self.number);
        more["ev"] = json!("mark");
        more["name"] = json!(name);
        more["t"] = json!(now());
        emit(more);
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Connected => self.become_("connected"),
            Event::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                self.become_("disconnected")
            }
            Event::Closed => self.become_("closed"),
            Event::ChannelOpen(id, label) => self.opened(id, label),
            Event::ChannelClose(id) => {
                if let Some(label) = self.names.remove(&id) {
                    self.mark(&format!("closed:{label}"), json!({}));
                }
            }
            Event::ChannelData(data) => {
                let label = self.names.get(&data.id).cloned().unwrap_or_default();
                let mut message = json!({"pc": self.number, "ev": "message", "label": label});
                if data.binary {
                    message["base64"] = json!(BASE64_STANDARD.encode(&data.data));
                } else {
                    message["text"] = json!(String::from_utf8_lossy(&data.data));
                }
                emit(message);
            }
            Event::MediaAdded(added) => self.mid = Some(added.mid),
            Event::MediaData(data) => {
                let at = data.time.rebase(Frequency::FORTY_EIGHT_KHZ).numer() as u32;
                self.heard.push((at, data.data.to_vec()));
            }
            _ => {}
        }
    }

    fn become_(&mut self, state: &'static str) {
        if self.state != state {
            self.state = state;
            self.mark(&format!("connection:{state}"), json!({}));
        }
    }

    fn opened(&mut self, id: ChannelId, label: String) {
        let config = self.rtc.channel(id).and_then(|c| c.config().cloned());
        let label = match &config {
            Some(config) if !config.label.is_empty() => config.label.clone(),
            _ => label,
        };
        self.labels.insert(label.clone(), id);
        self.names.insert(id, label.clone());
        if !self.opened_here.contains(&id) {
            let config = config.unwrap_or_default();
            let retransmits = match config.reliability {
                Reliability::MaxRetransmits { retransmits } => json!(retransmits),
                _ => Value::Null,
            };
            self.mark(
                &format!("announced:{label}"),
                json!({
                    "ordered": config.ordered,
                    "maxRetransmits": retransmits,
                    "protocol": config.protocol,
                }),
            );
        }
        self.mark(&format!("open:{label}"), json!({}));
    }

    // -- commands ---------------------------------------------------------------------------------

    fn obey(&mut self, command: &Value) -> Done {
        let text = |name: &str| command[name].as_str().unwrap_or_default().to_string();
        match command["cmd"].as_str().unwrap_or_default() {
            "offer" => self.offer(command["restart"] == true),
            "answer" => self.answer(&text("sdp"), command["setup"].as_str()),
            "accept" => self.accept(&text("sdp")),
            "open" => self.open(config_of(command)),
            "closeChannel" => {
                let id = self.channel(&text("label"))?;
                self.rtc.direct_api().close_data_channel(id);
                Ok(Value::Null)
            }
            "send" => self.send(command),
            "flood" => self.flood(command),
            "addAudio" => {
                self.wants_audio = true;
                Ok(Value::Null)
            }
            "say" => self.say(&text("path")),
            "heard" => self.write_heard(&text("path")),
            "close" => self.rtc.close().map(|_| Value::Null).map_err(said),
            other => Err(format!("no command {other}")),
        }
    }

    fn offer(&mut self, restart: bool) -> Done {
        let mut change = self.rtc.sdp_api();
        for config in self.wanted.drain(..) {
            let label = config.label.clone();
            let id = change.add_channel_with_config(config);
            self.opened_here.push(id);
            self.names.insert(id, label);
        }
        if self.wants_audio && self.mid.is_none() {
            let mid = change.add_media(MediaKind::Audio, Direction::SendRecv, None, None, None);
            self.mid = Some(mid);
        }
        if std::mem::take(&mut self.wants_video) {
            change.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
        }
        if restart {
            change.ice_restart(true);
        }
        let (offer, pending) = change.apply().ok_or("nothing has changed: no offer is made")?;
        self.pending = Some(pending);
        Ok(json!(offer.to_sdp_string()))
    }

    fn answer(&mut self, sdp: &str, setup: Option<&str>) -> Done {
        // it takes the client's role of what an offer leaves open: close it
        let sdp = match setup {
            Some("passive") => sdp.replace("a=setup:actpass", "a=setup:active"),
            Some("active") => sdp.replace("a=setup:actpass", "a=setup:passive"),
            _ => sdp.to_string(),
        };
        let offer = SdpOffer::from_sdp_string(&sdp).map_err(said)?;
        let answer = self.rtc.sdp_api().accept_offer(offer).map_err(said)?;
        for config in std::mem::take(&mut self.wanted) {
            self.open(config)?;
        }
        Ok(json!(answer.to_sdp_string()))
    }

    fn accept(&mut self, sdp: &str) -> Done {
        let pending = self.pending.take().ok_or("nothing was offered")?;
        let answer = SdpAnswer::from_sdp_string(sdp).map_err(said)?;
        let api = self.rtc.sdp_api();
        api.accept_answer(pending, answer).map_err(said)?;
        Ok(Value::Null)
    }

    fn open(&mut self, config: ChannelConfig) -> Done {
        let label = config.label.clone();
        let id = self.rtc.direct_api().create_data_channel(config);
        self.opened_here.push(id);
        self.names.insert(id, label);
        Ok(Value::Null)
    }

    fn channel(&self, label: &str) -> Result<ChannelId, String> {
        let found = self.labels.get(label).copied();
        found.ok_or_else(|| format!("no channel {label}"))
    }

    fn send(&mut self, command: &Value) -> Done {
        let id = self.channel(command["label"].as_str().unwrap_or_default())?;
        let (binary, data) = match command["text"].as_str() {
            Some(text) => (false, text.as_bytes().to_vec()),
            None => {
                let encoded = command["base64"].as_str().unwrap_or_default();
                (true, BASE64_STANDARD.decode(encoded).map_err(said)?)
            }
        };
        self.waiting.push_back((id, binary, data));
        Ok(Value::Null)
    }

    fn flood(&mut self, command: &Value) -> Done {
        let id = self.channel(command["label"].as_str().unwrap_or_default())?;
        let text = command["text"].as_str().unwrap_or_default();
        for number in 0..command["count"].as_u64().unwrap_or(0) {
            let data = format!("{text}{number}").into_bytes();
            self.waiting.push_back((id, false, data));
        }
        Ok(Value::Null)
    }

    /// Write one message that waits; tells whether there was one that fitted.
    fn write_waiting(&mut self) -> bool {
        let Some((id, binary, data)) = self.waiting.front() else {
            return false;
        };
        let Some(mut channel) = self.rtc.channel(*id) else {
            self.waiting.pop_front();
            return true;
        };
        match channel.write(*binary, data) {
            Ok(false) => false,
            Ok(true) => {
                self.waiting.pop_front();
                true
            }
            Err(error) => {
                eprintln!("{error}");
                self.waiting.pop_front();
                true
            }
        }
    }

    // -- sound ------------------------------------------------------------------------------------

    fn say(&mut self, path: &str) -> Done {
        let text = fs::read_to_string(path).map_err(said)?;
        let payloads: Vec<String> = serde_json::from_str(&text).map_err(said)?;
        for payload in payloads {
            let data = BASE64_STANDARD.decode(payload).map_err(said)?;
            self.speech.push_back(data);
        }
        self.began = Some((Instant::now(), 0));
        Ok(Value::Null)
    }

    /// Send a payload that is due; tells whether there was one.
    fn speak(&mut self) -> bool {
        let (Some((began, count)), Some(mid)) = (self.began, self.mid) else {
            return false;
        };
        let at = Instant::now();
        if at < began + FRAME * count as u32 {
            return false;
        }
        let Some(payload) = self.speech.pop_front() else {
            return false;
        };
        self.began = Some((began, count + 1));
        let Some(writer) = self.rtc.writer(mid) else {
            return false;
        };
        let Some(pt) = writer.payload_params().next().map(|params| params.pt()) else {
            return false;
        };
        let time = MediaTime::new(count * TICKS, Frequency::FORTY_EIGHT_KHZ);
        if let Err(error) = writer.write(pt, at, time, payload) {
            eprintln!("{error}");
        }
        true
    }

    fn write_heard(&self, path: &str) -> Done {
        let lines: Vec<String> = self
            .heard
            .iter()
            .map(|(at, data)| json!([at, BASE64_STANDARD.encode(data)]).to_string())
            .collect();
        fs::write(path, lines.join("\n")).map_err(said)?;
        Ok(Value::Null)
    }
}

fn config_of(options: &Value) -> ChannelConfig {
    let reliability = match options["maxRetransmits"].as_u64() {
        Some(count) => Reliability::MaxRetransmits {
            retransmits: count as u16,
        },
        None => Reliability::Reliable,
    };
    ChannelConfig {
        label: options["label"].as_str().unwrap_or_default().to_string(),
        ordered: options["ordered"] != false,
        reliability,
        negotiated: options["stream"].as_u64().map(|stream| stream as u16),
        protocol: options["protocol"].as_str().unwrap_or_default().to_string(),
    }
}
