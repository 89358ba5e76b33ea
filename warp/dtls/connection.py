"""A DTLS connection: the five verbs around a handshake and the records that follow it.

RFC 9147, RFC 6347, RFC 5764 (keys for SRTP). Called by the peer's transport. It owns states,
alerts and application data; the handshake lives in driver and handshake, retransmission in
flight, keys in epochs.

    datagram ─▶ one record of data in the newest epoch? ─▶ received_data()           (hot path)
        └▶ Intake ─▶ handshake ─▶ HandshakeDriver          ├▶ alert ─▶ close, fail
                  ├▶ data ─▶ Inbox (held until verified)   └▶ ACK ─▶ Flight, KeyUpdater
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from warp.contract import Event
from warp.crypto import Certificate
from warp.dtls import alerts
from warp.dtls.alerts import AlertEffect
from warp.dtls.config import (
    DEFAULT_MAX_TIMEOUTS,
    SRTP_KEYING_LENGTHS,
    SRTP_LABEL,
    DtlsConfig,
    DtlsRole,
)
from warp.dtls.context import Context, DtlsTimer
from warp.dtls.driver import HandshakeDriver
from warp.dtls.events import CloseNotify, Connected, PeerDataReceived, Terminated
from warp.dtls.faults import Alert, DtlsRule, HandshakeFault, misbehaved
from warp.dtls.handshake import Handshake, Outcome
from warp.dtls.inbox import Inbox
from warp.dtls.intake import MAX_RECORD, Record
from warp.dtls.records import (
    ACK,
    ALERT,
    APPLICATION_DATA,
    FATAL,
    HANDSHAKE,
    MAX_CONTENT,
    WARNING,
    DtlsDiscard,
    ReadKeys,
    WriteKeys,
)
from warp.dtls.states import OVER, TRANSITIONS, DtlsInput, DtlsState
from warp.dtls.suites import DtlsVersion
from warp.dtls.version import AwaitClientHello, start_client
from warp.entropy import Entropy
from warp.errors import (
    Discard,
    HandshakeTimedOut,
    InvalidState,
    MessageTooLarge,
    PeerAlerted,
    WarpError,
)
from warp.trace import Trace

_NEVER: Final = 1 << 62


class DtlsConnection:
    """One DTLS association, client or server, over whatever path ICE has found."""

    __slots__ = (
        "_closed_at",
        "_context",
        "_data_read",
        "_data_seen",
        "_data_write",
        "_driver",
        "_farewell",
        "_handshake",
        "_inbox",
        "_rekey_at",
        "_state",
        "role",
    )

    def __init__(
        self,
        role: DtlsRole,
        config: DtlsConfig,
        *,
        certificate: Certificate,
        entropy: Entropy,
        trace: Trace | None = None,
        keylog: Callable[[str], object] | None = None,
    ) -> None:
        self.role: Final = role
        self._context: Final = Context(role, config, trace)
        self._handshake: Final = Handshake(self._context, certificate, entropy, keylog)
        self._driver: Final = HandshakeDriver(self._handshake, AwaitClientHello(self._handshake))
        self._inbox: Final = Inbox()
        self._state = DtlsState.IDLE
        self._data_read: ReadKeys | None = None  # 1.3: where the next data most likely comes
        self._data_write: WriteKeys | None = None  # set once data may be sent
        self._rekey_at = _NEVER
        self._data_seen = False
        self._closed_at: tuple[int, int] | None = None  # the peer's close_notify
        self._farewell: tuple[bytes, int] = (b"", 0)  # our fatal alert, and how often to repeat it

    # what it is ---------------------------------------------------------------------------------

    @property
    def state(self) -> DtlsState:
        """Where the connection stands."""
        return self._state

    @property
    def outcome(self) -> Outcome:
        """Version, suite, group and SRTP profile, each None until it is known."""
        return self._handshake.outcome

    @property
    def version(self) -> DtlsVersion | None:
        """The version, once chosen."""
        return self._handshake.outcome.version

    @property
    def srtp_profile(self) -> int | None:
        """The SRTP protection profile, if one was agreed on."""
        return self._handshake.outcome.srtp_profile

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate (DER), once shown."""
        return self._handshake.identity.der

    @property
    def can_send(self) -> bool:
        """Tell whether `send_data` would be accepted."""
        return self._data_write is not None

    @property
    def overhead(self) -> int:
        """Bytes that a record adds to application data, 0 before keys exist."""
        return 0 if self._data_write is None else self._data_write.overhead

    @property
    def flight_outstanding(self) -> bool:
        """Tell whether a flight of ours is not acknowledged."""
        return self._handshake.flight.awaits_reply

    @property
    def discards(self) -> dict[DtlsDiscard, int]:
        """How often something was worth nothing, by reason."""
        return dict(self._context.discards)

    # the five verbs -----------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin: a client sends its ClientHello, a server waits for one. Once only."""
        if self._state is not DtlsState.IDLE:
            raise InvalidState("the connection was started before")
        self._become(DtlsInput.START, "started", now)
        if self.role is DtlsRole.CLIENT:
            self._driver.expect(start_client(self._handshake, now))

    def receive_datagram(self, data: bytes, now: float) -> None:
        """Take in one datagram. Never raises for what a peer sent."""
        keys = self._data_read
        if (
            keys is not None
            and 21 < len(data) <= MAX_RECORD
            and data[0] == 0x2C | (keys.epoch & 3)
            and (data[3] << 8 | data[4]) == len(data) - 5
        ):
            try:
                content_type, sequence, content = keys.open(data, 0, len(data))
            except Discard as discard:
                self._handshake.intake.count(discard, now)
                return
            except HandshakeFault as fault:
                self._fail(fault.alert, fault.error, now)
                return
            if content_type == APPLICATION_DATA:
                self._inbox.ready.append(content)
                return
            self._receive((Record(content_type, keys.epoch, sequence, content),), now)
            return
        if self._state is DtlsState.IDLE and self.role is DtlsRole.SERVER:
            self.start(now)
        if not self._listening(now):
            return
        self._receive(self._handshake.intake.receive(data, now), now)

    def datagrams_to_send(self, now: float) -> list[bytes]:
        """Drain what has to leave, in order."""
        return self._context.outbox.drain()

    def get_timer(self) -> float | None:
        """Return the next deadline (absolute), or None. Pure."""
        return self._context.timers.due

    def handle_timer(self, now: float) -> None:
        """Let time pass. Early, late and repeated calls are harmless."""
        for reason in self._context.timers.pop_expired(now):
            if reason is DtlsTimer.RETRANSMIT:
                self._handle_retransmission(now)
            elif reason is DtlsTimer.BURST:
                self._handshake.flight.handle_burst_timer(now)
            elif reason is DtlsTimer.ACK:
                self._driver.send_ack(now)
            elif reason is DtlsTimer.DEADLINE:
                self._end(HandshakeTimedOut("no handshake before its deadline"), now)
            else:
                self._data_read = None  # which may be of an epoch that is forgotten now
                self._handshake.forget_old_keys(now)

    def events(self) -> Sequence[Event]:
        """Drain what has happened, in order."""
        out, self._context.events = self._context.events, []
        return out

    # application data ---------------------------------------------------------------------------

    def send_data(self, data: bytes, now: float) -> None:
        """Send one record of application data (at most 2^14 bytes; it is never fragmented).

        Raises InvalidState before the keys exist and after the end, MessageTooLarge.
        """
        keys = self._data_write
        if keys is None:
            raise InvalidState(f"no data can be sent: {self._state.value}")
        if len(data) > MAX_CONTENT:
            raise MessageTooLarge(f"{len(data)} bytes do not fit into a record of {MAX_CONTENT}")
        self._context.outbox.other.append(keys.seal(APPLICATION_DATA, data))
        if keys.next_sequence >= self._rekey_at:
            self._renew_keys(now)

    def received_data(self) -> list[bytes]:
        """Drain decrypted application data, in order of arrival, from a peer that is verified."""
        return self._inbox.drain() if self._inbox.ready else []

    def take_handshake_datagrams(self, now: float) -> tuple[list[bytes], bool]:
        """Drain only the datagrams of handshake flights; the rest waits for datagrams_to_send.

        The flag tells whether they begin a new instance of a flight: a new flight, or the same
        one sealed anew, so that earlier copies need not be repeated any more.
        """
        outbox = self._context.outbox
        return outbox.take_flight() if outbox.flight else ([], False)

    def update_keys(self, now: float, *, request: bool = False) -> None:
        """Change our keys (DTLS 1.3); with `request`, ask the peer to change its own too."""
        updater = self._handshake.key_updater
        if updater is None or self._state is not DtlsState.CONNECTED:
            raise InvalidState("keys can be changed on a connected DTLS 1.3 connection only")
        updater.start(now, request=request)

    def close(self, now: float) -> None:
        """Say goodbye and stop. Harmless when it is over already."""
        if self._state in OVER:
            return
        if self._handshake.epochs.newest_write.epoch:
            self._seal_alert(bytes((WARNING, Alert.CLOSE_NOTIFY)))
        self._become(DtlsInput.CLOSE, "closed by us", now)
        self._stop()

    # what the layers around it tell -------------------------------------------------------------

    def set_peer_fingerprints(self, fingerprints: Iterable[tuple[str, str]], now: float) -> None:
        """Say who the peer must be: `(algorithm, "AB:CD:…")` pairs of its description."""
        try:
            self._handshake.identity.set_fingerprints(tuple(fingerprints))
        except HandshakeFault as fault:
            self._fail(fault.alert, fault.error, now)
            return
        self._verify(now)

    def set_rtt(self, rtt_s: float, now: float) -> None:
        """Base the first retransmission timeout on a measured round trip time."""
        self._context.set_rtt(rtt_s)
        self._handshake.flight.rtt_changed(now)

    def set_mtu(self, mtu: int) -> None:
        """Limit the UDP payload of handshake datagrams that are built from now on, in bytes."""
        self._context.set_mtu(mtu)

    def suspend_timers(self, suspended: bool, now: float) -> None:
        """Stop or resume retransmission by timer, while something else repeats our flights."""
        if suspended == self._context.suspended:
            return  # a timer that runs is not put off
        self._context.suspended = suspended
        if suspended:
            self._context.timers.cancel(DtlsTimer.RETRANSMIT)
        else:
            self._handshake.flight.resume(now)

    def export_keying_material(self, label: bytes, length: int) -> bytes:
        """Return keying material (RFC 5705, RFC 8446 section 7.5), without a context.

        Raises InvalidState before the peer is verified. A 1.3 server may export right after its
        Finished (EarlyWriteReady), at its own risk.
        """
        exporter = self._handshake.outcome.exporter
        early = self.role is DtlsRole.SERVER and self.version is DtlsVersion.DTLS13
        verified = self._state is DtlsState.CONNECTED or (
            self._state is DtlsState.CLOSED and self._handshake.identity.verified
        )
        if exporter is None or not (verified or (early and self._state is not DtlsState.FAILED)):
            raise InvalidState(f"no keys to export: {self._state.value}")
        return exporter.export(label, length)

    def srtp_keying_material(self) -> bytes:
        """Return client key, server key, client salt, server salt (RFC 5764 section 4.2)."""
        length = SRTP_KEYING_LENGTHS.get(self.srtp_profile or 0)
        if length is None:
            raise InvalidState("no SRTP profile was agreed on")
        return self.export_keying_material(SRTP_LABEL, length)

    # receiving ----------------------------------------------------------------------------------

    def _listening(self, now: float) -> bool:
        """Tell whether records still mean anything; repeat our farewell to who does not know."""
        if self._state is DtlsState.FAILED:
            body, left = self._farewell
            if left:
                self._farewell = (body, left - 1)
                self._seal_alert(body)
        elif self._state is not DtlsState.IDLE and (
            self._state is not DtlsState.CLOSED or self._closed_at is not None
        ):
            return True
        self._context.discard(DtlsDiscard.CLOSED, now)
        return False

    def _receive(self, records: Iterable[Record], now: float) -> None:
        handshake = self._handshake
        try:
            for record in records:
                self._receive_record(record, now)
                while handshake.fresh_keys:
                    handshake.fresh_keys = False
                    for held in handshake.intake.release(now):
                        self._receive_record(held, now)
                self._advance(now)
            if self._state not in OVER:
                self._driver.finish_datagram(now)
        except HandshakeFault as fault:
            self._fail(fault.alert, fault.error, now)

    def _receive_record(self, record: Record, now: float) -> None:
        if self._state in OVER:
            if record.content_type == APPLICATION_DATA:
                self._receive_late_data(record, now)
            return
        if record.content_type == APPLICATION_DATA:
            self._receive_data(record, now)
        elif record.content_type == HANDSHAKE:
            self._data_read = None  # a new epoch may look like the one that data came in last
            self._driver.receive_record(record, now)
        elif record.content_type == ACK:
            self._driver.receive_ack(record, now)
            self._refresh_write_keys()
        elif record.content_type == ALERT:
            self._receive_alert(record, now)
        elif record.epoch and self.version is DtlsVersion.DTLS13:
            raise misbehaved(
                Alert.UNEXPECTED_MESSAGE, DtlsRule.UNEXPECTED_RECORD, "RFC 9147 section 4.1"
            )
        elif self.version is not DtlsVersion.DTLS12:
            self._context.discard(DtlsDiscard.CHANGE_CIPHER_SPEC, now)

    def _receive_data(self, record: Record, now: float) -> None:
        if record.epoch < 3 and self.version is DtlsVersion.DTLS13:
            raise misbehaved(
                Alert.UNEXPECTED_MESSAGE, DtlsRule.UNEXPECTED_RECORD, "RFC 9147 section 6.1"
            )
        if not self._data_seen:
            self._data_seen = True
            self._context.events.append(PeerDataReceived())
        if self._state is DtlsState.CONNECTED:
            self._inbox.ready.append(record.content)
            if self.version is DtlsVersion.DTLS13:
                self._data_read = self._handshake.epochs.read_keys(record.epoch)
        elif not self._inbox.hold(record.content):
            self._context.discard(DtlsDiscard.BUFFER_FULL, now)

    def _receive_late_data(self, record: Record, now: float) -> None:
        """Deliver what the peer sent before its close_notify and the network delivers after it."""
        if (
            self._closed_at is not None
            and (record.epoch, record.sequence) < self._closed_at
            and self._handshake.identity.verified
        ):
            self._inbox.ready.append(record.content)
        else:
            self._context.discard(DtlsDiscard.AFTER_CLOSE, now)

    def _receive_alert(self, record: Record, now: float) -> None:
        effect = alerts.judge(record, self._handshake)
        if effect is AlertEffect.DISBELIEVE:
            self._context.discard(DtlsDiscard.UNAUTHENTICATED_ALERT, now)
        elif effect is AlertEffect.FAIL:
            description = record.content[1]
            self._end(PeerAlerted(description, alerts.name_of(description)), now)
        elif effect is AlertEffect.CLOSE:
            self._closed_at = (record.epoch, record.sequence)
            self._seal_alert(bytes((WARNING, Alert.CLOSE_NOTIFY)))
            self._become(DtlsInput.CLOSE, "closed by the peer", now)
            self._stop()
            self._context.events.append(CloseNotify())

    # progress -----------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        """Take note of what the handshake has made possible."""
        if self._state is DtlsState.HANDSHAKING:
            if self._handshake.outcome.completed:
                self._become(DtlsInput.COMPLETE, "handshake complete", now)
                self._handshake.intake.stop_holding()
                self._handshake.forget_idle_write_keys()
                self._verify(now)
            elif (
                self._data_write is None
                and self._context.config.early_data
                and self.role is DtlsRole.SERVER
                and self._handshake.epochs.newest_write.epoch >= 3
            ):
                self._data_write = self._handshake.epochs.newest_write

    def _verify(self, now: float) -> None:
        """Connect, if the handshake is complete and the peer is who it should be."""
        if self._state is not DtlsState.UNVERIFIED or not self._handshake.identity.verified:
            return
        self._become(DtlsInput.VERIFY, "peer verified", now)
        self._refresh_write_keys()
        self._inbox.release()
        outcome = self._handshake.outcome
        if outcome.version is not None and outcome.suite is not None and outcome.group is not None:
            self._context.events.append(
                Connected(outcome.version, outcome.suite, outcome.group, outcome.srtp_profile)
            )

    def _refresh_write_keys(self) -> None:
        if self._state is DtlsState.CONNECTED:
            self._data_write = self._handshake.epochs.newest_write
            updater = self._handshake.key_updater
            self._rekey_at = _NEVER if updater is None else updater.next_limit

    def _renew_keys(self, now: float) -> None:
        """Ask for new keys before these have protected too much; stop when they have."""
        updater = self._handshake.key_updater
        if updater is None:
            return
        self._rekey_at = updater.hard_limit
        try:
            updater.renew(now)
        except HandshakeFault as fault:
            self._fail(fault.alert, fault.error, now)

    def _handle_retransmission(self, now: float) -> None:
        flight, limit = self._handshake.flight, self._context.config.max_timeouts
        if limit is not None and flight.timeouts >= limit:
            self._end(HandshakeTimedOut("the peer answers none of our repetitions"), now)
        elif self._handshake.outcome.completed and flight.timeouts >= DEFAULT_MAX_TIMEOUTS:
            flight.stop()  # a peer that works without ever acknowledging: consent is the judge
        else:
            flight.handle_timeout(now)

    # the end ------------------------------------------------------------------------------------

    def _fail(self, alert: Alert, error: WarpError, now: float) -> None:
        """Tell the peer what is wrong, then end."""
        if self._state in OVER:
            return
        self._farewell = (bytes((FATAL, alert)), alerts.MAX_REPEATS)
        self._seal_alert(self._farewell[0])
        self._end(error, now)

    def _end(self, error: WarpError, now: float) -> None:
        if self._state in OVER:
            return
        self._become(DtlsInput.FAIL, str(error), now)
        self._inbox.drop()
        self._stop()
        self._context.events.append(Terminated(error))

    def _stop(self) -> None:
        self._context.timers.cancel_all()
        self._handshake.flight.stop()
        self._handshake.intake.stop_holding()
        self._data_read = None
        self._data_write = None

    def _seal_alert(self, body: bytes) -> None:
        keys = self._handshake.epochs.newest_write
        self._context.outbox.other.append(keys.seal(ALERT, body))

    def _become(self, cause: DtlsInput, why: str, now: float) -> None:
        state = TRANSITIONS[self._state, cause]
        if self._context.trace is not None:
            data = {"from": self._state.name, "to": state.name, "why": why}
            self._context.emit(now, "state", data)
        self._state = state
