"""New keys for old connections: the KeyUpdate of both directions (RFC 9147 section 8).

Called by the established state (the peer's KeyUpdate), by the flight's ACKs (ours took effect)
and by the connection (before a key has protected too much).

    ours    KeyUpdate in epoch n ─▶ … ACK of it and of all before it ─▶ write in n + 1
    theirs  KeyUpdate in epoch n ─▶ ready to read n + 1, n stays readable ─▶ ACK, and ours if asked
"""

from __future__ import annotations

from typing import Final

from warp.crypto import AeadKind
from warp.dtls import messages
from warp.dtls.context import Context, DtlsTimer
from warp.dtls.epochs import KEEP_OLD_KEYS_S, MAX_EPOCH, EpochTable
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.flight import Flight
from warp.dtls.messages import HandshakeType
from warp.dtls.record13 import ReadKeys13
from warp.dtls.schedule13 import Schedule13
from warp.entropy import Entropy

# RFC 9147 section 4.5.3: AES-GCM bears 2^24.5 full records. We ask for new keys at a third of it.
AES_HARD_LIMIT: Final = 23_726_566
AES_SOFT_LIMIT: Final = 1 << 23
MAX_MESSAGE_SEQ: Final = 0xFFFF  # RFC 9147 section 5.2; it never wraps
NO_LIMIT: Final = 1 << 47  # ChaCha20-Poly1305: the sequence numbers end first


class KeyUpdater:
    """The traffic secrets of both directions, and whether an update of ours is under way."""

    __slots__ = (
        "_context",
        "_epochs",
        "_flight",
        "_read_keys",
        "_read_secret",
        "_schedule",
        "_write_secret",
        "hard_limit",
        "pending",
        "soft_limit",
    )

    def __init__(
        self,
        organs: tuple[Context, EpochTable, Flight],
        schedule: Schedule13,
        read_secret: bytes,
        write_secret: bytes,
        read_keys: ReadKeys13,
        entropy: Entropy,
    ) -> None:
        self._context, self._epochs, self._flight = organs
        self._schedule: Final = schedule
        self._read_secret = read_secret
        self._write_secret = write_secret
        self._read_keys = read_keys
        self.pending = False
        if schedule.aead is AeadKind.CHACHA20_POLY1305:
            self.soft_limit = self.hard_limit = NO_LIMIT
        else:
            # between three quarters and all of it, so that both sides do not ask at once
            jitter = int.from_bytes(entropy.random_bytes(2), "big")
            self.soft_limit = AES_SOFT_LIMIT - (AES_SOFT_LIMIT >> 2) * jitter // 0x10000
            self.hard_limit = AES_HARD_LIMIT

    def start(self, now: float, *, request: bool = False) -> None:
        """Send a KeyUpdate, unless one is under way; with `request`, ask for the peer's too.

        Nothing is sent either when the numbers of epochs or messages have come to their end: these
        keys are then the last ones.
        """
        epoch = self._epochs.newest_write.epoch
        if self.pending or epoch >= MAX_EPOCH or self._flight.next_message_seq > MAX_MESSAGE_SEQ:
            return
        self.pending = True
        self._flight.add(HandshakeType.KEY_UPDATE, messages.encode_key_update(request), epoch)
        self._flight.send(now, reply_expected=True)
        self._context.emit(now, "key_update_sent", {"epoch": epoch})

    @property
    def next_limit(self) -> int:
        """Sequence number from which `renew` is to be called."""
        return self.hard_limit if self.pending else self.soft_limit

    def renew(self, now: float) -> None:
        """Ask for new keys before these have protected too much. Raises HandshakeFault when the
        peer has never acknowledged that.
        """
        if self._epochs.newest_write.next_sequence >= self.hard_limit:
            raise misbehaved(
                Alert.INTERNAL_ERROR, DtlsRule.KEYS_EXHAUSTED, "RFC 9147 section 4.5.3"
            )
        self.start(now)

    def receive(self, body: bytes, now: float) -> None:
        """Take the peer's KeyUpdate: be ready for its next epoch. Raises HandshakeFault."""
        requested = messages.decode_key_update(body)
        self._read_secret = self._schedule.next_secret(self._read_secret)
        self._read_keys = self._schedule.read_keys(self._epochs.newest_read + 1, self._read_secret)
        self._epochs.install_read(self._read_keys)
        self._context.timers.arm(DtlsTimer.FORGET, now + KEEP_OLD_KEYS_S)
        self._context.emit(now, "key_update_received", {"requested": requested})
        if requested:
            self.start(now)

    def handle_acknowledged(self, now: float) -> None:
        """Switch to the new keys: the peer has our KeyUpdate and everything before it."""
        if not self.pending:
            return
        self.pending = False
        epoch = self._epochs.newest_write.epoch + 1
        self._write_secret = self._schedule.next_secret(self._write_secret)
        self._epochs.install_write(self._schedule.write_keys(epoch, self._write_secret))
        self._context.emit(now, "write_keys_updated", {"epoch": epoch})

    def forget_old_keys(self, now: float) -> None:
        """Drop read keys that the peer has left behind; wait longer while it may not have."""
        newest = self._epochs.newest_read
        if self._read_keys.used or newest == 3:
            self._epochs.forget_read_below(newest)
        else:
            self._epochs.forget_read_below(newest - 1)
            self._context.timers.arm(DtlsTimer.FORGET, now + KEEP_OLD_KEYS_S)
