"""One end of a BoGo test: our DTLS between a runner's commands and its exit status.

Called by the zygote in a process of its own, with the command line that the runner wrote. After
the handshake everything is echoed with its bits inverted, as the runner expects.

    exit status 0: it went well · 1: it failed, the reason is on standard error · 89: not for us ·
    90: no failure that any test can want
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interop.bogo.link import NANOSECONDS, NEVER, Link, LinkError, Opcode
from interop.bogo.options import Options, Unimplemented, parse_options
from warp.contract import Event
from warp.crypto import Certificate, NamedGroup, fingerprint_of
from warp.dtls import (
    CloseNotify,
    Connected,
    DtlsConfig,
    DtlsConnection,
    DtlsRole,
    DtlsState,
    DtlsVersion,
    HandshakeCompleted,
    Terminated,
    offer,
)
from warp.dtls.context import DtlsTimer
from warp.dtls.extensions import Extensions
from warp.dtls.hello import RETRY_REQUEST_RANDOM
from warp.dtls.messages import HandshakeType
from warp.dtls.records import HANDSHAKE
from warp.entropy import SystemEntropy

FAILED = 1
UNIMPLEMENTED = 89
MUST_FAIL = 90

_FUDGE_S = 0.015  # the runner wants timers that are so near to fire, as coarse clocks need it
_WALL_TIME_S = 1.8e9
_NOBODY = ("sha-256", ":".join(["00"] * 32))
_FIRST_WORDS = b"hello"
_INVERT = bytes(value ^ 0xFF for value in range(256))
_PROTOCOL_TIMERS = (DtlsTimer.RETRANSMIT, DtlsTimer.BURST, DtlsTimer.ACK, DtlsTimer.DEADLINE)
_PSK_KEY_EXCHANGE_MODES = 45
_WITH_KEY_AGREEMENT = b"\x01\x01"
_DEFAULT_GROUPS = (NamedGroup.X25519, NamedGroup.SECP256R1, NamedGroup.SECP384R1)


def ask_for_tickets() -> None:
    """Let our clients say that they would resume a session (RFC 8446 section 4.2.9).

    Else a server hands out no tickets, whose acknowledgement is part of the tests.
    """
    plain = offer._lasting_extensions

    def with_modes(*config: Any) -> Extensions:
        return {**plain(*config), _PSK_KEY_EXCHANGE_MODES: _WITH_KEY_AGREEMENT}

    offer._lasting_extensions = with_modes  # type: ignore[assignment]


class ShimFailure(Exception):
    """We have refused to go on, which may be what the test is about."""


class RunnerGone(Exception):
    """The runner has given up waiting for us, which never is."""


def main(arguments: Sequence[str]) -> int:
    """Run one test and return the exit status."""
    if "-is-handshaker-supported" in arguments:
        print("No", flush=True)
        return 0
    try:
        ask_for_tickets()
        options = parse_options(arguments)
        certificate, config = load_certificate(options), make_config(options)
        for _ in range(options.resumptions + 1):
            link = Link(port=options.port, shim_id=options.shim_id, ipv6=options.ipv6)
            try:
                Exchange(options, config, certificate, link).run()
            except ShimFailure:
                link.drain()  # the runner must not miss our alert
                raise
            finally:
                link.close()
    except Unimplemented as reason:
        print(f"not implemented: {reason}", file=sys.stderr, flush=True)
        return UNIMPLEMENTED
    except ShimFailure as failure:
        print(failure, file=sys.stderr, flush=True)
        return FAILED
    except (RunnerGone, LinkError) as failure:
        print(failure, file=sys.stderr, flush=True)
        return MUST_FAIL
    return 0


def load_certificate(options: Options) -> Certificate:
    """Return our identity; without one in the options, one that can sign nothing."""
    if not options.credentials:
        certificate = Certificate.generate(SystemEntropy(), _WALL_TIME_S)
        object.__setattr__(certificate, "schemes", ())
        return certificate
    credential = options.credentials[0]
    try:
        certificate = Certificate.from_pem(
            Path(credential.certificate_file).read_bytes(), Path(credential.key_file).read_bytes()
        )
    except ValueError as error:
        raise Unimplemented(str(error)) from error
    if credential.schemes:
        chosen = tuple(scheme for scheme in certificate.schemes if scheme in credential.schemes)
        object.__setattr__(certificate, "schemes", chosen)
    return certificate


def make_config(options: Options) -> DtlsConfig:
    """Return the configuration: ours, save for what the runner measures BoringSSL by."""
    versions = options.versions
    if not versions:
        raise Unimplemented("none of our versions is enabled")
    groups = tuple(options.groups) or _DEFAULT_GROUPS
    return DtlsConfig(
        versions=versions,
        groups=groups,
        share_groups=groups[:1],
        srtp_profiles=options.srtp_profiles,
        request_client_certificate=options.require_certificate or options.verify_peer,
        mtu=options.mtu,
        initial_rto_s=options.initial_rto_s,
        max_rto_s=60.0,  # RFC 9147 section 5.8.2; in a call nobody waits so long
        max_timeouts=12,
        deadline_s=None,  # the timeouts are the limit: an hour of them, on a clock that costs none
        boringssl_timing=True,  # the runner reads nothing while it turns the clock
        dense_flights=True,  # it counts the bytes that a record leaves free
        strict_plaintext=True,  # it wants an alert where a forgery would end the call
    )


class Exchange:
    """One connection, from its first datagram to its end."""

    def __init__(
        self, options: Options, config: DtlsConfig, certificate: Certificate, link: Link
    ) -> None:
        self._options = options
        self._link = link
        self._now = 0.0
        self._retried = False
        self._over = False
        self._dtls = DtlsConnection(
            DtlsRole.SERVER if options.server else DtlsRole.CLIENT,
            config,
            certificate=certificate,
            entropy=SystemEntropy(),
        )
        if options.reject_peer:
            self._dtls.set_peer_fingerprints([_NOBODY], self._now)

    def run(self) -> None:
        """Go on until the runner closes the connection. Raises ShimFailure."""
        self._dtls.start(self._now)
        self._flush()
        while not self._over:
            command = self._link.receive()
            if command is None:
                break
            self._handle(*command)
        if self._dtls.state is DtlsState.CONNECTED:
            self._dtls.close(self._now)
            self._flush()
        elif not self._over:
            raise RunnerGone(f"the runner has gone: {self._dtls.state.value}")

    def _handle(self, opcode: Opcode, body: bytes) -> None:
        if opcode is Opcode.PACKET:
            self._dtls.receive_datagram(body, self._now)
            self._settle()
        elif opcode is Opcode.TIMEOUT:
            self._now += int.from_bytes(body, "big") / NANOSECONDS
            self._link.acknowledge_timeout()
            self._handle_timers()
        elif opcode is Opcode.MTU:
            self._dtls.set_mtu(int.from_bytes(body, "big"))
        else:
            self._check_timeout(int.from_bytes(body, "big"))

    def _handle_timers(self) -> None:
        """Let what is due happen, one thing after the other and each in datagrams of its own."""
        while (deadline := self._dtls.get_timer()) is not None:
            if deadline > self._now + _FUDGE_S:
                return
            self._dtls.handle_timer(deadline)
            self._settle()

    def _settle(self) -> None:
        """Answer what has come of a datagram or of time."""
        while events := self._dtls.events():
            for event in events:
                self._take(event)
        for data in self._dtls.received_data():
            if self._dtls.can_send:
                self._dtls.send_data(data.translate(_INVERT), self._now)
                self._before_read()
        self._flush()

    def _take(self, event: Event) -> None:
        if isinstance(event, HandshakeCompleted):
            self._believe()
        elif isinstance(event, Connected):
            self._begin()
        elif isinstance(event, CloseNotify):
            self._over = True
        elif isinstance(event, Terminated):
            self._flush()
            raise ShimFailure(str(event.error))

    def _believe(self) -> None:
        """Take the peer for who it says it is: the runner's certificates are known by nobody."""
        der = self._dtls.peer_certificate
        if der is not None:
            self._dtls.set_peer_fingerprints([("sha-256", fingerprint_of(der))], self._now)

    def _begin(self) -> None:
        """Say what is to be said right after the handshake."""
        options = self._options
        retried = self._retried and self._dtls.version is DtlsVersion.DTLS13
        expected = options.expect_retry_request
        if expected is not None and expected is not retried:
            raise ShimFailure(f"HelloRetryRequest: {retried}, expected: {expected}")
        if options.export_length:
            material = self._dtls.export_keying_material(
                options.export_label.encode(), options.export_length
            )
            self._dtls.send_data(material, self._now)
        if options.writes_first:
            self._dtls.send_data(_FIRST_WORDS, self._now)
        self._before_read()
        if options.shuts_down:
            self._dtls.close(self._now)
            self._over = True

    def _before_read(self) -> None:
        self._flush()  # what was written before leaves before
        if self._options.key_update_before_read:
            self._dtls.update_keys(self._now)
            if not self._dtls.flight_outstanding:
                raise ShimFailure("the numbers of epochs or messages have come to their end")

    def _check_timeout(self, expected_ns: int) -> None:
        timers = self._dtls._context.timers
        deadlines = [timers.deadline(reason) for reason in _PROTOCOL_TIMERS]
        left = min((deadline - self._now for deadline in deadlines if deadline), default=None)
        actual_ns = NEVER if left is None else round(left * 1e6) * 1000
        if actual_ns != expected_ns:
            raise ShimFailure(f"timeout in {actual_ns} ns, expected in {expected_ns} ns")

    def _flush(self) -> None:
        datagrams = self._dtls.datagrams_to_send(self._now)
        self._retried |= any(map(_is_retry, datagrams))
        self._link.send(datagrams)


def _is_retry(datagram: bytes) -> bool:
    """Tell whether a datagram of ours is a HelloRetryRequest, or a second ClientHello."""
    if datagram[0] == HANDSHAKE and datagram[13] == HandshakeType.CLIENT_HELLO:
        return datagram[18] == 1  # its message_seq
    return RETRY_REQUEST_RANDOM in datagram


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
