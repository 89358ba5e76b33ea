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
        "_local_key",
        "_remote_key",
        "_username_attribute",
        "local",
        "remote",
        "remote_is_lite",
    )

    def __init__(self, local: IceCredentials) -> None:
        self.local = local
        self._local_key: HmacSha1 | None = None
        # USERNAME of the peer's checks; its end is unknown as long as `remote` is
        self._incoming = f"{local.ufrag}:".encode()
        self.remote: IceCredentials | None = None
        self._remote_key: HmacSha1 | None = None
        self.remote_is_lite = False
        self._username_attribute = b""

    # the passwords are ASCII: SASLprep leaves them alone (RFC 8489 section 9.1.1)

    @property
    def local_key(self) -> HmacSha1:
        """What the peer's checks are signed with, and our answers; a lite peer sends none."""
        key = self._local_key
        if key is None:
            key = self._local_key = HmacSha1(self.local.pwd.encode())
        return key

    @property
    def remote_key(self) -> HmacSha1 | None:
        """What our own checks are signed with, and their answers; a lite agent never asks."""
        if self._remote_key is None and self.remote is not None:
            self._remote_key = HmacSha1(self.remote.pwd.encode())
        return self._remote_key

    @property
    def username_attribute(self) -> bytes:
        """USERNAME of our own checks, as it stands in them: remote ufrag, colon, local ufrag
        (section 7.2.2); a lite agent never asks."""
        if not self._username_attribute and self.remote is not None:
            username = f"{self.remote.ufrag}:{self.local.ufrag}".encode()
            self._username_attribute = encode_attributes([(Attribute.USERNAME, username)])
        return self._username_attribute

    def set_remote(self, remote: IceCredentials, lite: bool) -> None:
        """Take the peer's half. Raises `UsageError` when it cannot be used."""
        if self.remote is None:
            if len(remote.ufrag) + 1 + len(self.local.ufrag) > MAX_USERNAME_BYTES:
                raise InvalidConfig("both ufrags together have at most 507 characters")
            self.remote = remote
            self._incoming += remote.ufrag.encode()
        elif self.remote != remote:
            raise InvalidState("the peer's credentials changed: call restart first")
        self.remote_is_lite = lite

    def admit(self, username: bytes) -> bool:
        """Tell whether a request's USERNAME belongs here.

        Before the peer's ufrag is known only our own half counts (RFC 8445 section 7.3).
        """
        if self.remote is None:
            return username.startswith(self._incoming)
        return username == self._incoming
