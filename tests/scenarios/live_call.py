"""Two peer connections that talk to each other without a network, and what they have said.

    call = LiveCall(WARP)            # signalled, nothing sent
    call.turns(3)                    # genuine datagrams, three times there and back
    call.inject("server", data)      # as if from the client's address
    call.said["client"]              # every genuine datagram of the client, to make damage from

Every delivery and every drain checks what must hold whatever arrives: nothing raised, few
datagrams, no timer that stands still.
"""

from __future__ import annotations

from tests.scenarios.start import OPUS, Start, meet, open_channel, signal
from tests.sim.pair import CLIENT, SERVER
from warp.contract import Address, Flow
from warp.peer import ConnectionState, PeerConnection, SendPermission

MAX_DATAGRAMS = 64
MAX_BYTES = 96 * 1024
PASSWORDS = {"client": "password-of-the-server", "server": "password-of-the-client"}
"""By the end that sends a request: the password is the other one's."""
OTHER = {"client": "server", "server": "client"}
STRANGER: Address = ("198.51.100.7", 6666)
ADDRESSES = {"client": CLIENT, "server": SERVER}


class LiveCall:
    """Both ends, their flows, and one clock that only `turn` moves."""

    def __init__(self, start: Start, *, signalled: bool = True) -> None:
        pair = meet(start)
        self.now = pair.now
        self.ends: dict[str, PeerConnection] = {
            "client": pair.client.endpoint,
            "server": pair.server.endpoint,
        }
        if signalled:
            signal(self.ends["client"], self.ends["server"], self.now)
        open_channel(start, pair)
        self.said: dict[str, list[bytes]] = {"client": [], "server": []}
        self._waiting: dict[str, list[bytes]] = {"client": [], "server": []}
        self._talked: set[str] = set()

    def flow(self, name: str, remote: Address | None = None) -> Flow:
        return Flow(ADDRESSES[name], remote or ADDRESSES[OTHER[name]])

    @property
    def connected(self) -> bool:
        return all(end.state is ConnectionState.CONNECTED for end in self.ends.values())

    def turn(self) -> bool:
        """One exchange and the next timer; False when nothing moves any more."""
        moved = False
        for name in self.ends:
            self.collect(name)
        for name, other in OTHER.items():
            waiting, self._waiting[other] = self._waiting[other], []
            for data in waiting:
                moved = True
                self.inject(name, data)
        if not moved:
            due = [end.get_timer() for end in self.ends.values()]
            moment = min((at for at in due if at is not None), default=None)
            if moment is None:
                return False
            self.now = max(self.now, moment)
            for name, end in self.ends.items():
                if (at := end.get_timer()) is not None and at <= self.now:
                    end.handle_timer(self.now)
                    left = end.get_timer()
                    assert left is None or left > self.now, f"{name}'s timer stands still"
        return True

    def turns(self, count: int) -> None:
        """So many exchanges, or fewer if all is silent."""
        for _ in range(count):
            if not self.turn():
                return

    def until_connected(self) -> bool:
        """Go on until both ends are connected or one has ended."""
        for _ in range(400):
            if self.connected or self.ended or not self.turn():
                break
        self.turns(6)
        return self.connected

    @property
    def ended(self) -> bool:
        over = (ConnectionState.CLOSED, ConnectionState.FAILED)
        return any(end.state in over for end in self.ends.values())

    def inject(self, name: str, data: bytes, remote: Address | None = None) -> None:
        """Deliver one datagram to an end, and look at what it does."""
        self.ends[name].receive_datagram(data, self.flow(name, remote), self.now)
        self.collect(name)

    def collect(self, name: str) -> None:
        """Drain an end: what goes to the peer waits for the next turn, the rest is lost."""
        end = self.ends[name]
        if end.media_permission is not SendPermission.NONE and name not in self._talked:
            self._talked.add(name)
            end.send_audio(OPUS, 0, self.now, marker=True, non_personal=True)
        out = end.datagrams_to_send(self.now)
        assert len(out) <= MAX_DATAGRAMS
        assert sum(len(data) for data, _ in out) <= MAX_BYTES
        for data, flow in out:
            if flow.remote == ADDRESSES[OTHER[name]]:
                self._waiting[name].append(data)
                self.said[name].append(data)
        end.events()
        assert end.datagrams_to_send(self.now) == []
        deadline = end.get_timer()
        if deadline is not None and deadline <= self.now:
            end.handle_timer(self.now)
            left = end.get_timer()
            assert left is None or left > self.now, f"{name}'s timer stands still"
