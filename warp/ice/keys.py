"""Both sides' credentials of one ICE generation, as the keys that checks are signed with."""

from __future__ import annotations

from warp.crypto import HmacSha1
from warp.errors import InvalidConfig, InvalidState
from warp.ice.credentials import MAX_USERNAME_BYTES, IceCredentials
from warp.stun import Attribute, encode_attributes


class Keys:
    """Credentials of a generation; the remote half comes with the peer's description."""

    __slots__ = (
        "_incoming",
        "_incoming_prefix",
        "_remote_key",
        "local",
        "local_key",
        "remote",
        "remote_is_lite",
        "username_attribute",
    )

    def __init__(self, local: IceCredentials) -> None:
        self.local = local
        # the passwords are ASCII: SASLprep leaves them alone (RFC 8489 section 9.1.1)
        self.local_key = HmacSha1(local.pwd.encode())
        self._incoming_prefix = f"{local.ufrag}:".encode()
        self._incoming: bytes | None = None
        self.remote: IceCredentials | None = None
        self._remote_key: HmacSha1 | None = None
        self.remote_is_lite = False
        self.username_attribute = b""
        """USERNAME of our own checks, as it stands in them: remote ufrag, colon, local ufrag
        (section 7.2.2)."""

    @property
    def remote_key(self) -> HmacSha1 | None:
        """What our own checks are signed with, and their answers; a lite agent never asks."""
        if self._remote_key is None and self.remote is not None:
            self._remote_key = HmacSha1(self.remote.pwd.encode())
        return self._remote_key

    def set_remote(self, remote: IceCredentials, lite: bool) -> None:
        """Take the peer's half. Raises `UsageError` when it cannot be used."""
        if self.remote is not None and self.remote != remote:
            raise InvalidState("the peer's credentials changed: call restart first")
        username = f"{remote.ufrag}:{self.local.ufrag}".encode()
        if len(username) > MAX_USERNAME_BYTES:
            raise InvalidConfig("both ufrags together have at most 507 characters")
        if self.remote is None:
            self.remote = remote
            self.username_attribute = encode_attributes([(Attribute.USERNAME, username)])
            self._incoming = self._incoming_prefix + remote.ufrag.encode()
        self.remote_is_lite = lite

    def admit(self, username: bytes) -> bool:
        """Tell whether a request's USERNAME belongs here.

        Before the peer's ufrag is known only our own half counts (RFC 8445 section 7.3).
        """
        if self._incoming is not None:
            return username == self._incoming
        return username.startswith(self._incoming_prefix)
