"""A call within this process, without a network, before the first real one.

Whatever is made at the first use (tables, ciphers, a codec) would count as the server's slowness:
a round trip is some tens of milliseconds. Called by `run`.
"""

from __future__ import annotations

from typing import Final

from warp.contract import Flow
from warp.crypto import Certificate
from warp.datachannel import ChannelConfig
from warp.entropy import SystemEntropy
from warp.errors import InternalError
from warp.peer import ConnectionState, PeerConfig, PeerConnection
from warp_tools.probe.attempt import speech

_OURS: Final = ("192.0.2.1", 1)
_THEIRS: Final = ("192.0.2.2", 2)
_STEPS: Final = 40
_STEP_S: Final = 0.01


def rehearse(certificate: Certificate) -> None:
    """Make everything once that a call needs. Raises InternalError if we do not get on even with
    ourselves.
    """
    speech()
    caller, callee = (
        PeerConnection(PeerConfig(lite=lite), certificate=certificate, entropy=SystemEntropy())
        for lite in (False, True)
    )
    caller.add_local_address(_OURS, 0.0)
    callee.add_local_address(_THEIRS, 0.0)
    offer = caller.create_offer(0.0)
    caller.set_local_description("offer", offer, 0.0)
    callee.set_remote_description("offer", offer, 0.0)
    answer = callee.create_answer(0.0)
    callee.set_local_description("answer", answer, 0.0)
    caller.set_remote_description("answer", answer, 0.0)
    caller.create_channel(ChannelConfig(label="rehearsal"), 0.0)
    for step in range(_STEPS):
        now = step * _STEP_S
        for sender, receiver in ((caller, callee), (callee, caller)):
            sender.handle_timer(now)
            for data, flow in sender.datagrams_to_send(now):
                receiver.receive_datagram(data, Flow(flow.remote, flow.local), now)
            if sender.state is ConnectionState.CONNECTED:
                sender.send_audio(speech()[0], step * 960, now)
    if caller.state is not ConnectionState.CONNECTED:
        raise InternalError("a call within this process did not connect")
    for peer in (caller, callee):
        peer.close(_STEPS * _STEP_S)
