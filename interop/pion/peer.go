package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

const (
	largestMessage = 1 << 21
	frame          = 20 * time.Millisecond
)

var errNoTrack = errors.New("there is no track to speak on")

type packet struct {
	timestamp uint32
	payload   []byte
}

// peer is one connection.
type peer struct {
	number   int
	pc       *peerConnection
	guard    sync.Mutex
	channels map[string]*dataChannel
	track    *sampleTrack
	heard    []packet
}

func create(c *command) (*peer, error) {
	engine := settings{}
	udp4(&engine)
	engine.SetIncludeLoopbackCandidate(true)
	engine.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	engine.SetSCTPMaxMessageSize(largestMessage)
	engine.EnableSctpSnap(c.Snap)
	if c.PQ {
		if err := hybrid(&engine); err != nil {
			return nil, err
		}
	}
	if c.Setup != "" {
		role := roleClient
		if c.Setup == "passive" {
			role = roleServer
		}
		if err := engine.SetAnsweringDTLSRole(role); err != nil {
			return nil, err
		}
	}
	pc, err := newConnection(engine)
	if err != nil {
		return nil, err
	}
	p := &peer{number: c.PC, pc: pc, channels: map[string]*dataChannel{}}
	pc.OnConnectionStateChange(func(state connectionState) { p.mark("connection:"+state.String(), nil) })
	pc.OnDataChannel(p.announced)
	pc.OnTrack(func(track *remoteTrack, _ *receiver) { p.listen(track) })
	if c.Audio {
		if err := p.addAudio(); err != nil {
			return nil, err
		}
	}
	if c.Video {
		if _, err := pc.AddTransceiverFromKind(kindVideo); err != nil {
			return nil, err
		}
	}
	for _, one := range c.Channels {
		if err := p.open(one); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *peer) mark(name string, more map[string]any) {
	message := map[string]any{"pc": p.number, "ev": "mark", "name": name, "t": now()}
	for key, value := range more {
		message[key] = value
	}
	emit(message)
}

func (p *peer) obey(c *command) (any, error) {
	switch c.Cmd {
	case "offer":
		return p.offer(c.Restart)
	case "answer":
		return p.answer(c.SDP)
	case "accept":
		return nil, p.pc.SetRemoteDescription(description{Type: typeAnswer, SDP: c.SDP})
	case "open":
		return nil, p.open(c.channel)
	case "closeChannel":
		return p.with(c.Label, func(dc *dataChannel) error { return dc.Close() })
	case "send":
		return p.with(c.Label, func(dc *dataChannel) error { return send(dc, c) })
	case "flood":
		return p.with(c.Label, func(dc *dataChannel) error { return flood(dc, c) })
	case "addAudio":
		return nil, p.addAudio()
	case "say":
		return nil, p.say(c.Path)
	case "heard":
		return nil, p.write(c.Path)
	case "close":
		return nil, p.pc.Close()
	}
	return nil, fmt.Errorf("no command %q", c.Cmd)
}

// -- descriptions ---------------------------------------------------------------------------------

func (p *peer) offer(restart bool) (any, error) {
	made, err := p.pc.CreateOffer(&offerOptions{ICERestart: restart})
	if err != nil {
		return nil, err
	}
	return p.setLocal(made)
}

func (p *peer) answer(sdp string) (any, error) {
	if err := p.pc.SetRemoteDescription(description{Type: typeOffer, SDP: sdp}); err != nil {
		return nil, err
	}
	made, err := p.pc.CreateAnswer(&answerOptions{})
	if err != nil {
		return nil, err
	}
	return p.setLocal(made)
}

func (p *peer) setLocal(made description) (any, error) {
	complete := gathered(p.pc)
	if err := p.pc.SetLocalDescription(made); err != nil {
		return nil, err
	}
	<-complete
	return p.pc.LocalDescription().SDP, nil
}

// -- channels -------------------------------------------------------------------------------------

func (p *peer) open(c channel) error {
	options := &dataChannelInit{Ordered: c.Ordered, MaxRetransmits: c.MaxRetransmits}
	if c.Negotiated {
		options.Negotiated, options.ID = &c.Negotiated, c.Stream
	}
	if c.Protocol != "" {
		options.Protocol = &c.Protocol
	}
	dc, err := p.pc.CreateDataChannel(c.Label, options)
	if err != nil {
		return err
	}
	p.follow(dc)
	return nil
}

func (p *peer) announced(dc *dataChannel) {
	p.mark("announced:"+dc.Label(), map[string]any{
		"ordered": dc.Ordered(), "maxRetransmits": dc.MaxRetransmits(), "protocol": dc.Protocol(),
	})
	p.follow(dc)
}

func (p *peer) follow(dc *dataChannel) {
	label := dc.Label()
	p.guard.Lock()
	p.channels[label] = dc
	p.guard.Unlock()
	dc.OnMessage(func(message dataMessage) {
		event := map[string]any{"pc": p.number, "ev": "message", "label": label}
		if message.IsString {
			event["text"] = string(message.Data)
		} else {
			event["base64"] = base64.StdEncoding.EncodeToString(message.Data)
		}
		emit(event)
	})
	dc.OnClose(func() { p.mark("closed:"+label, nil) })
	dc.OnOpen(func() { p.mark("open:"+label, nil) })
}

func (p *peer) with(label string, use func(*dataChannel) error) (any, error) {
	p.guard.Lock()
	dc := p.channels[label]
	p.guard.Unlock()
	if dc == nil {
		return nil, fmt.Errorf("no channel %q", label)
	}
	return nil, use(dc)
}

func send(dc *dataChannel, c *command) error {
	data, isText, err := c.content()
	if err != nil {
		return err
	}
	if isText {
		return dc.SendText(string(data))
	}
	return dc.Send(data)
}

func flood(dc *dataChannel, c *command) error {
	if c.Text == nil {
		return errors.New("flood needs a text")
	}
	for number := range c.Count {
		if err := dc.SendText(fmt.Sprintf("%s%d", *c.Text, number)); err != nil {
			return err
		}
	}
	return nil
}

// -- sound ----------------------------------------------------------------------------------------

func (p *peer) addAudio() error {
	track, err := newTrack()
	if err != nil {
		return err
	}
	p.track = track
	_, err = p.pc.AddTrack(track)
	return err
}

// say speaks Opus payloads, one every 20 ms.
func (p *peer) say(path string) error {
	if p.track == nil {
		return errNoTrack
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var payloads [][]byte
	if err := json.Unmarshal(text, &payloads); err != nil {
		return err
	}
	go func() {
		ticker := time.NewTicker(frame)
		defer ticker.Stop()
		for _, payload := range payloads {
			if err := p.track.WriteSample(sample{Data: payload, Duration: frame}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			<-ticker.C
		}
	}()
	return nil
}

func (p *peer) listen(track *remoteTrack) {
	go func() {
		for {
			rtp, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			p.guard.Lock()
			p.heard = append(p.heard, packet{rtp.Timestamp, append([]byte{}, rtp.Payload...)})
			p.guard.Unlock()
		}
	}()
}

// write writes what was heard: a timestamp and a payload a line.
func (p *peer) write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	p.guard.Lock()
	defer p.guard.Unlock()
	lines := json.NewEncoder(file)
	for _, one := range p.heard {
		if err := lines.Encode([]any{one.timestamp, one.payload}); err != nil {
			return err
		}
	}
	return nil
}
