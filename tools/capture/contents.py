"""What is in a datagram: STUN with its riders, DTLS with its records, RTP and RTCP headers.

RFC 7983 tells them apart. Called by the session finder for every datagram. Any bytes give a
value; what the capture cut off is missing in it, and `fault` says what could not be read.

    payload ─▶ classify ─┬▶ Stun (rider ─▶ Dtls)
                         ├▶ Dtls ─▶ records ─▶ pieces of handshake messages
                         └▶ Media
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warp.errors import Discard
from warp.peer import Kind, classify
from warp.rtp.packet import HEADER as RTP_HEADER
from warp.rtp.packet import HEADER_LENGTH as RTP_HEADER_LENGTH
from warp.sped import datagram_hash, decode_acknowledgement
from warp.stun import (
    BINDING,
    HEADER_BYTES,
    Attribute,
    Message,
    MessageClass,
    decode_error_code,
    decode_xor_address,
    is_stun,
    parse_message,
    split_username,
)
from warp_tools.capture.ip import Address
from warp_tools.capture.records import Record, read_records

GOOG_PING: Final = 0x080
_FINGERPRINT: Final = int(Attribute.FINGERPRINT)


class Stun(NamedTuple):
    """A STUN message. None means that the attribute is absent, or was cut off (`cut`)."""

    message_class: MessageClass
    method: int
    transaction: bytes
    username: tuple[str, str] | None
    """(receiver's ufrag, sender's ufrag)."""
    use_candidate: bool
    controlling: bool | None
    rider_bytes: int | None
    """Length of the DTLS datagram that it carries (SPED); 0: the attribute is there, empty."""
    acks: tuple[int, ...] | None
    """CRCs that it acknowledges (SPED)."""
    error: int | None
    google: bool
    """Whether GOOG-NETWORK-INFO is there: libwebrtc wrote this."""
    integrity: bool
    mapped: Address | None
    cut: bool
    fault: str | None

    @property
    def is_request(self) -> bool:
        """Whether it asks."""
        return self.message_class is MessageClass.REQUEST

    @property
    def speaks_sped(self) -> bool:
        """Whether either attribute of SPED is there."""
        return self.rider_bytes is not None or self.acks is not None


class Dtls(NamedTuple):
    """A DTLS datagram, direct or carried by a check."""

    crc: int
    size: int
    records: tuple[Record, ...]
    fault: str | None


class Media(NamedTuple):
    """An RTP packet's header, or an RTCP packet's; the rest is encrypted."""

    rtcp: bool
    kind: int
    """Payload type of RTP, packet type of RTCP."""
    ssrc: int
    sequence: int
    timestamp: int
    marker: bool


class Contents(NamedTuple):
    """One datagram. At most one of `stun` and `media`; `dtls` also beside `stun`."""

    kind: str
    """stun, dtls, rtp, rtcp, other."""
    stun: Stun | None = None
    dtls: Dtls | None = None
    media: Media | None = None


_OTHER: Final = Contents("other")


def read_contents(data: bytes, length: int) -> Contents:
    """Say what a datagram of `length` bytes holds, of which `data` was captured."""
    kind = classify(data)
    if kind is Kind.STUN:
        return _stun(data, length)
    if kind is Kind.DTLS:
        return Contents("dtls", dtls=read_dtls(data, length))
    if kind in (Kind.RTP, Kind.RTCP):
        media = _media(data, kind is Kind.RTCP)
        return _OTHER if media is None else Contents("rtcp" if media.rtcp else "rtp", media=media)
    return _OTHER


def read_dtls(data: bytes, length: int) -> Dtls:
    """Read a DTLS datagram."""
    found = read_records(data, length)
    return Dtls(datagram_hash(data), length, found.records, found.fault)


def _media(data: bytes, rtcp: bool) -> Media | None:
    if rtcp:
        if len(data) < 8:
            return None
        return Media(True, data[1], int.from_bytes(data[4:8], "big"), 0, 0, False)
    if len(data) < RTP_HEADER_LENGTH:
        return None
    _, second, sequence, timestamp, ssrc = RTP_HEADER.unpack_from(data)
    return Media(False, second & 0x7F, ssrc, sequence, timestamp, second > 0x7F)


def _stun(data: bytes, length: int) -> Contents:
    if not is_stun(data):
        return _OTHER
    message, cut, fault = _message(data, length)
    if message is None:
        return _OTHER
    stun, rider = _fields(message, cut, fault)
    if not rider:
        return Contents("stun", stun)
    return Contents("stun", stun, read_dtls(rider, len(rider)))


def _message(data: bytes, length: int) -> tuple[Message | None, bool, str | None]:
    """Parse a message; one that was cut is parsed up to its last whole attribute."""
    cut = len(data) < length
    try:
        return parse_message(data), False, None
    except Discard as discard:
        fault = None if cut else str(discard.reason.value)
    try:
        return parse_message(_whole_attributes(data)), cut, fault
    except Discard:
        return None, cut, fault


def _whole_attributes(data: bytes) -> bytes:
    """Return the message shortened to its whole attributes, without what is checked at its end."""
    at = HEADER_BYTES
    while at + 4 <= len(data):
        kind = data[at] << 8 | data[at + 1]
        end = at + 4 + ((data[at + 2] << 8 | data[at + 3]) + 3 & ~3)
        if end > len(data) or kind == _FINGERPRINT:
            break
        at = end
    return data[:2] + (at - HEADER_BYTES).to_bytes(2, "big") + data[4:at]


def _fields(message: Message, cut: bool, fault: str | None) -> tuple[Stun, bytes]:
    found: dict[int, bytes] = {}
    for kind, value in message.attributes:
        found.setdefault(kind, value)
    get = found.get
    username = get(Attribute.USERNAME)
    rider = get(Attribute.META_DTLS_IN_STUN)
    acks: tuple[int, ...] | None = None
    listed = get(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT)
    error, mapped, controlling = None, None, None
    try:
        if listed is not None:
            acks = ()
            acks = decode_acknowledgement(listed)
        if (code := get(Attribute.ERROR_CODE)) is not None:
            error = decode_error_code(code)[0]
        if (address := get(Attribute.XOR_MAPPED_ADDRESS)) is not None:
            mapped = decode_xor_address(address, message.transaction_id)
    except Discard as discard:
        fault = fault or str(discard.reason.value)
    if Attribute.ICE_CONTROLLING in found or Attribute.ICE_CONTROLLED in found:
        controlling = Attribute.ICE_CONTROLLING in found
    stun = Stun(
        message.message_class,
        message.method,
        message.transaction_id,
        None if username is None else split_username(username),
        Attribute.USE_CANDIDATE in found,
        controlling,
        None if rider is None else len(rider),
        acks,
        error,
        Attribute.GOOG_NETWORK_INFO in found,
        message.has_integrity,
        mapped,
        cut,
        fault,
    )
    return stun, rider or b""


def is_check(stun: Stun) -> bool:
    """Tell whether a message belongs to ICE: a Binding, or libwebrtc's short form of one."""
    return stun.method in (BINDING, GOOG_PING)
