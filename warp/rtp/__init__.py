"""Media packets and their reports: RTP, RTCP, and what audio needs of them.

SRTP ──▶ RtpSession.receive_rtp ──▶ RtpRouter ──▶ AudioReceiver ──▶ frames()  ──▶ player
         (mid, SSRC, payload type)                │ ReorderBuffer, NackList, Reception
SRTCP ─▶ RtpSession.receive_rtcp ──▶ receivers, senders
frames ─▶ JitterBuffer.insert, take ──▶ steps of a player that owes sound all the time
SRTP ◀── AudioSender.packetize ◀── pacer
SRTP ◀── RtpSession.rtp_to_send  (what the peer missed)
SRTCP ◀─ RtpSession.rtcp_to_send (SR, RR, NACK, transport-wide feedback, BYE)
"""

from __future__ import annotations

from warp.rtp.config import PayloadKind, ReceiverConfig, SenderConfig, SessionConfig
from warp.rtp.events import FeedbackReceived, SourceBegan, SourceEnded, ToneBegan, ToneEnded
from warp.rtp.frame import AudioFrame
from warp.rtp.header_extensions import (
    ABS_SEND_TIME_URI,
    AUDIO_LEVEL_URI,
    MID_URI,
    TRANSPORT_CC_URI,
    ExtensionMap,
    HeaderExtensions,
    build_extensions,
    parse_extensions,
)
from warp.rtp.jitter import JitterBuffer
from warp.rtp.opus import has_fec, has_voice, is_dtx, packet_samples, parse_opus
from warp.rtp.packet import RtpDiscard, RtpPacket, is_rtcp, parse_rtp
from warp.rtp.playout import Action, JitterConfig, JitterCounts, Placing, Step
from warp.rtp.receiver import AudioReceiver
from warp.rtp.reception import ReceiverStats
from warp.rtp.red import RedBlock, build_red, parse_red
from warp.rtp.reorder import ReorderBuffer
from warp.rtp.router import RtpRouter
from warp.rtp.rtcp import ReportBlock, RtcpDiscard, build_rtcp, parse_rtcp
from warp.rtp.sender import AudioSender, SenderStats
from warp.rtp.session import RtpSession, draw_cname
from warp.rtp.telephone_event import TelephoneEvent, parse_telephone_event

__all__ = [
    "ABS_SEND_TIME_URI",
    "AUDIO_LEVEL_URI",
    "MID_URI",
    "TRANSPORT_CC_URI",
    "Action",
    "AudioFrame",
    "AudioReceiver",
    "AudioSender",
    "ExtensionMap",
    "FeedbackReceived",
    "HeaderExtensions",
    "JitterBuffer",
    "JitterConfig",
    "JitterCounts",
    "PayloadKind",
    "Placing",
    "ReceiverConfig",
    "ReceiverStats",
    "RedBlock",
    "ReorderBuffer",
    "ReportBlock",
    "RtcpDiscard",
    "RtpDiscard",
    "RtpPacket",
    "RtpRouter",
    "RtpSession",
    "SenderConfig",
    "SenderStats",
    "SessionConfig",
    "SourceBegan",
    "SourceEnded",
    "Step",
    "TelephoneEvent",
    "ToneBegan",
    "ToneEnded",
    "build_extensions",
    "build_red",
    "build_rtcp",
    "draw_cname",
    "has_fec",
    "has_voice",
    "is_dtx",
    "is_rtcp",
    "packet_samples",
    "parse_extensions",
    "parse_opus",
    "parse_red",
    "parse_rtcp",
    "parse_rtp",
    "parse_telephone_event",
]
