//go:build next

package main

import (
	"github.com/pion/dtls/v4/pkg/crypto/elliptic"
	pion "github.com/pion/webrtc/v5"
	"github.com/pion/webrtc/v5/pkg/media"
)

type (
	answerOptions   = pion.AnswerOptions
	codecCapability = pion.RTPCodecCapability
	dataChannel     = pion.DataChannel
	dataChannelInit = pion.DataChannelInit
	dataMessage     = pion.DataChannelMessage
	description     = pion.SessionDescription
	dtlsRole        = pion.DTLSRole
	offerOptions    = pion.OfferOptions
	peerConnection  = pion.PeerConnection
	connectionState = pion.PeerConnectionState
	receiver        = pion.RTPReceiver
	settings        = pion.SettingEngine
	sample          = media.Sample
	sampleTrack     = pion.TrackLocalStaticSample
	remoteTrack     = pion.TrackRemote
	configuration   = pion.Configuration
)

const (
	typeOffer      = pion.SDPTypeOffer
	typeAnswer     = pion.SDPTypeAnswer
	roleClient     = pion.DTLSRoleClient
	roleServer     = pion.DTLSRoleServer
	channelOpen    = pion.DataChannelStateOpen
	networkUDP4    = pion.NetworkTypeUDP4
	mimeOpus       = pion.MimeTypeOpus
	kindVideo      = pion.RTPCodecTypeVideo
	implementation = "github.com/pion/webrtc/v5"
)

func newConnection(engine settings) (*peerConnection, error) {
	return pion.NewAPI(pion.WithSettingEngine(engine)).NewPeerConnection(configuration{})
}

func newTrack() (*sampleTrack, error) {
	capability := codecCapability{MimeType: mimeOpus, ClockRate: 48000, Channels: 2}
	return pion.NewTrackLocalStaticSample(capability, "audio", "peer")
}

func gathered(pc *peerConnection) <-chan struct{} {
	return pion.GatheringCompletePromise(pc)
}

func udp4(engine *settings) {
	engine.SetNetworkTypes([]pion.NetworkType{networkUDP4})
}

func hybrid(engine *settings) error {
	engine.SetDTLSEllipticCurves(elliptic.X25519MLKEM768, elliptic.X25519, elliptic.P256)
	return nil
}
