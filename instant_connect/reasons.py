"""Why a first datagram comes to nothing: an enum, so that tests compare and dashboards count it.

Every member is a silent drop, but for those that admission chooses to answer (`admission`).
"""

from __future__ import annotations

from warp.names import Name


class InstantDiscard(Name):
    """Why a datagram that names no session made none."""

    # what it is
    NOT_FOR_US = "neither a check nor the beginning of a handshake"
    BAD_MESSAGE = "not a STUN message that can be read"
    NO_FINGERPRINT = "a check without FINGERPRINT"
    FLOODED = "too many from this address prefix while too many come in all"
    # what its ufrag says (section numbers of ours: see drafts/instant-connect)
    UFRAG_LENGTH = "the ufrag is too short or too long for a ticket"
    BASE64 = "the ufrag is not canonical base64"
    VERSION = "a ticket of another version"
    KEY_ID = "sealed under keys that we do not have, or no longer"
    OTHER_CELL = "a ticket of another cell"
    FORGED = "the ticket does not open"
    EXPIRED = "the ticket has expired"
    PROFILE = "the ticket names a profile or flags that we do not know"
    ATTEMPT = "the client's part of the ufrag does not read"
    PAYLOAD_TYPE = "the payload type is not in 96..127"
    WRONG_INTEGRITY = "MESSAGE-INTEGRITY is absent or wrong"
    # what we know of it
    USED_UP = "the ticket has made as many sessions as it may"
    ENDED = "the session of this ufrag has ended"
    NO_HELLO = "checks for a long time, and no handshake: of a session that is gone"
    OFFER_FORGOTTEN = "the offer that this ufrag answers is not held here any more"
    # what we can do for it
    TABLE_FULL = "no room to remember another ticket"
    OVERLOADED = "no room for another session"
    TICKET_BUSY = "too many unfinished sessions on this ticket"
    PREFIX_BUSY = "too many unfinished sessions from this address prefix"
    NOT_ADMITTED = "the application takes no session on this ticket"
    NOBODY = "no server of the cell takes it"
    # what it came in
    BAD_HANDOVER = "not a message of another server of the port"
    BAD_ENVELOPE = "not an envelope of a relay that has our keys"
