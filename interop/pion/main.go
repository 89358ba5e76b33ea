// A peer of the interop matrix around Pion: JSON lines in, JSON lines out (interop/peers/lines.py).
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

const longestLine = 64 << 20

// command is one line of the driver's; which fields it has depends on Cmd.
type command struct {
	ID       int       `json:"id"`
	Cmd      string    `json:"cmd"`
	PC       int       `json:"pc"`
	Audio    bool      `json:"audio"`
	Video    bool      `json:"video"`
	Snap     bool      `json:"snap"`
	PQ       bool      `json:"pq"`
	Setup    string    `json:"setup"`
	Channels []channel `json:"channels"`
	Restart  bool      `json:"restart"`
	SDP      string    `json:"sdp"`
	Text     *string   `json:"text"`
	Base64   string    `json:"base64"`
	Count    int       `json:"count"`
	Path     string    `json:"path"`
	channel
}

// channel describes a data channel, as RTCDataChannelInit has it.
type channel struct {
	Label          string  `json:"label"`
	Ordered        *bool   `json:"ordered"`
	Negotiated     bool    `json:"negotiated"`
	Stream         *uint16 `json:"stream"`
	MaxRetransmits *uint16 `json:"maxRetransmits"`
	Protocol       string  `json:"protocol"`
}

var output sync.Mutex

func emit(message map[string]any) {
	line, err := json.Marshal(message)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

// now returns seconds of the clock that the driver reads as well.
func now() float64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		panic(err)
	}
	return float64(at.Sec) + float64(at.Nsec)/1e9
}

func (c *command) content() ([]byte, bool, error) {
	if c.Text != nil {
		return []byte(*c.Text), true, nil
	}
	data, err := base64.StdEncoding.DecodeString(c.Base64)
	return data, false, err
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == implementation {
			return "pion/webrtc " + module.Version
		}
	}
	return implementation
}

func obey(peers map[int]*peer, guard *sync.Mutex, c *command) (any, error) {
	if c.Cmd == "hello" {
		return map[string]string{"version": version()}, nil
	}
	if c.Cmd == "create" {
		made, err := create(c)
		if err != nil {
			return nil, err
		}
		guard.Lock()
		defer guard.Unlock()
		peers[c.PC] = made
		return nil, nil
	}
	guard.Lock()
	known := peers[c.PC]
	if c.Cmd == "close" {
		delete(peers, c.PC)
	}
	guard.Unlock()
	if known == nil {
		if c.Cmd == "close" {
			return nil, nil
		}
		return nil, fmt.Errorf("no connection %d", c.PC)
	}
	return known.obey(c)
}

func main() {
	peers, guard := map[int]*peer{}, &sync.Mutex{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	for lines.Scan() {
		c := &command{}
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		go func() {
			value, err := obey(peers, guard, c)
			if err != nil {
				emit(map[string]any{"re": c.ID, "error": err.Error()})
				return
			}
			emit(map[string]any{"re": c.ID, "value": value})
		}()
	}
}
