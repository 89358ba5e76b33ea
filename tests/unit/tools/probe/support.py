"""Calls within this process over a path with a delay, told as a probe would tell them."""

from __future__ import annotations

import heapq
import itertools
from typing import Any

from warp.contract import Flow
from warp.crypto import Certificate
from warp.datachannel import ChannelConfig, ChannelOpened
from warp.entropy import SeededEntropy
from warp.peer import ConnectionState, PeerConfig, PeerConnection, SendPermission
from warp.sdp import parse_description
from warp_tools.probe.attempt import Attempt
from warp_tools.probe.plan import EVERYTHING, ProbeConfig, Trial
from warp_tools.probe.wire import Note, hello_in

OURS, THEIRS = ("192.0.2.1", 1000), ("192.0.2.2", 2000)
WAY_S = 0.05
CONFIG = ProbeConfig(url="http://127.0.0.1:1")
FRAME = bytes((0xF8, 0xFF, 0xFE))


def certificate() -> Certificate:
    return Certificate.generate(SeededEntropy(1), 1_800_000_000.0)


def simulated(
    trial: Trial = EVERYTHING,
    server: PeerConfig | None = None,
    *,
    hold_s: float = 1.0,
    speaks: bool = True,
    silent_after: float | None = None,
) -> Attempt:
    """Hold a call with a server of ours, in virtual time; `speaks`: whether the server does."""
    done = Attempt(trial, asked_at=-0.02)
    config = server or PeerConfig(lite=True, early_data=True)
    caller = PeerConnection(
        trial.peer(CONFIG),
        certificate=certificate(),
        entropy=SeededEntropy(2),
        keylog=lambda line: done.keylog.add_line(line, 0),
        trace=done.trace,
    )
    callee = PeerConnection(config, certificate=certificate(), entropy=SeededEntropy(3))
    caller.add_local_address(OURS, 0.0)
    callee.add_local_address(THEIRS, 0.0)
    done.offer = caller.create_offer(0.0)
    caller.set_local_description("offer", done.offer, 0.0)
    callee.set_remote_description("offer", done.offer, 0.0)
    done.answer = callee.create_answer(0.0)
    callee.set_local_description("answer", done.answer, 0.0)
    caller.set_remote_description("answer", done.answer, 0.0)
    done.description = parse_description(done.answer)
    if done.description.data_section() is not None:
        caller.create_channel(ChannelConfig(label="warp-probe"), 0.0)
    _Path(done, caller, callee, hold_s, speaks, silent_after).run()
    done.stats = caller.stats()
    return done


class _Path:
    """Virtual time between two ends."""

    def __init__(
        self,
        done: Attempt,
        caller: PeerConnection,
        callee: PeerConnection,
        hold_s: float,
        speaks: bool,
        silent_after: float | None,
    ) -> None:
        self.done, self.caller, self.callee = done, caller, callee
        self.end = hold_s
        self.speaks = speaks
        self.silent_after = silent_after
        self.order = itertools.count()
        self.queue: list[tuple[float, int, Any, bytes, Flow]] = []
        self.lost: set[object] = set()
        self.next_frame = {id(caller): 0, id(callee): 0}

    def run(self) -> None:
        now = 0.0
        while now <= self.end:
            for peer in (self.caller, self.callee):
                peer.handle_timer(now)
                self._speak(peer, now)
                self._drain(peer, now)
            self._events(now)
            times = [self.queue[0][0]] if self.queue else []
            times += [t for p in (self.caller, self.callee) if (t := p.get_timer()) is not None]
            now = max(min([*times, now + 0.02]), now + 1e-4)
            while self.queue and self.queue[0][0] <= now:
                _, _, receiver, data, flow = heapq.heappop(self.queue)
                if receiver is self.caller:
                    self.done.notes.append(Note(now, False, flow, data, False))
                receiver.receive_datagram(data, flow, now)
                self._drain(receiver, now)

    def _drain(self, peer: PeerConnection, now: float) -> None:
        for data, flow in peer.datagrams_to_send(now):
            sent = peer is self.caller
            lost = self._is_lost(sent, data)
            if sent:
                self.done.notes.append(Note(now, True, flow, data, lost))
            if self.silent_after is not None and not sent and now > self.silent_after:
                continue
            back = Flow(flow.remote, flow.local)
            if lost and not sent:
                self.done.notes.append(Note(now, False, back, data, True))
            if not lost:
                other = self.callee if sent else self.caller
                heapq.heappush(self.queue, (now + WAY_S, next(self.order), other, data, back))

    def _is_lost(self, sent: bool, data: bytes) -> bool:
        loses = self.done.trial.loses
        due = sent if loses == "sent" else loses == "received" and not sent and hello_in(data)
        if not due or loses in self.lost:
            return False
        self.lost.add(loses)
        return True

    def _speak(self, peer: PeerConnection, now: float) -> None:
        if peer is self.callee and not self.speaks:
            return
        number = self.next_frame[id(peer)]
        if now < number * 0.02:
            return
        early = peer.media_permission is SendPermission.NON_PERSONAL
        if peer.send_audio(FRAME, number * 960, now, non_personal=early):
            self.next_frame[id(peer)] = number + 1

    def _events(self, now: float) -> None:
        for event in self.caller.events():
            if isinstance(event, ChannelOpened) and self.done.channel_at is None:
                self.done.channel_at = now
        self.callee.events()
        if self.caller.state is ConnectionState.CONNECTED and self.done.connected_at is None:
            self.done.connected_at = now
