"""Which keys belong to which epoch, in both directions (RFC 9147 section 6.1).

Called by the intake (read keys), by the flight and by the connection (write keys).

    epoch 0  plaintext hellos        epoch 2  handshake (1.3)      epoch 3, 4, …  application (1.3)
                                     epoch 1  everything after ChangeCipherSpec (1.2)
"""

from __future__ import annotations

from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.records import PlainWriteKeys, ReadKeys, WriteKeys

MAX_EPOCH = 0xFFFF  # RFC 9147 section 4.2.1 allows to stop here; it never wraps
KEEP_OLD_KEYS_S = 240.0  # twice the maximum segment lifetime (RFC 9147 section 5.8.1)


class EpochTable:
    """The installed keys. Epoch 0 writes from the start; reading it needs none."""

    __slots__ = ("_by_bits", "_read", "_write", "newest_read", "newest_write", "plain")

    def __init__(self) -> None:
        self.plain = PlainWriteKeys()
        self._write: dict[int, WriteKeys] = {0: self.plain}
        self._read: dict[int, ReadKeys] = {}
        self._by_bits: list[ReadKeys | None] = [None, None, None, None]
        self.newest_read = 0
        self.newest_write: WriteKeys = self.plain

    def install_read(self, keys: ReadKeys) -> None:
        """Accept records of one more epoch."""
        epoch = keys.epoch
        if epoch > MAX_EPOCH:
            raise misbehaved(
                Alert.UNEXPECTED_MESSAGE, DtlsRule.UNEXPECTED_MESSAGE, "RFC 9147 section 4.2.1"
            )
        self._read[epoch] = keys
        if epoch > self.newest_read:
            self.newest_read = epoch
        # the two bits of a header mean the newest epoch that they fit, never a future one
        # (RFC 9147 section 4.2.2)
        self._by_bits[epoch & 3] = keys

    def install_write(self, keys: WriteKeys) -> None:
        """Be able to send in one more epoch; the newest is the one for data and ACKs."""
        self._write[keys.epoch] = keys
        if keys.epoch >= self.newest_write.epoch:
            self.newest_write = keys

    def read_by_bits(self, bits: int) -> ReadKeys | None:
        """Return the keys that a unified header's two bits mean."""
        return self._by_bits[bits]

    def read_keys(self, epoch: int) -> ReadKeys | None:
        """Return the read keys of an epoch."""
        return self._read.get(epoch)

    def write_keys(self, epoch: int) -> WriteKeys:
        """Return the write keys of an epoch that is installed."""
        return self._write[epoch]

    def forget_read_below(self, epoch: int) -> None:
        """Drop the read keys of all epochs before `epoch`."""
        for old in [number for number in self._read if number < epoch]:
            keys = self._read.pop(old)
            if self._by_bits[old & 3] is keys:
                self._by_bits[old & 3] = None

    def forget_write_below(self, epoch: int) -> None:
        """Drop the write keys of all epochs before `epoch`: nothing is left to resend in them."""
        for old in list(self._write):
            if old < epoch:
                del self._write[old]
