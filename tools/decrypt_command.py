"""The command `warp pcap decrypt`: its options; what it does is imported when it is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from warp_tools.failure import CommandRefused, ToolFailure

BAD_INPUT = 2
_OGG = ("", ".ogg", ".oga", ".opus")


def decrypt(
    capture: Annotated[
        Path, typer.Argument(metavar="FILE", help="pcap or pcapng; - is standard input.")
    ],
    keylog: Annotated[
        Path | None,
        typer.Option(help="SSLKEYLOGFILE of either end; else what the pcapng itself carries."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the packets in the clear: pcapng for Wireshark.")
    ] = None,
    audio: Annotated[
        Path | None,
        typer.Option(help="Write Opus, a file for each source: FILE-1-client-5a3c9f01.ogg."),
    ] = None,
    messages: Annotated[
        Path | None, typer.Option(help="Write messages of data channels: JSON lines.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Open DTLS, data channels and media of a capture with the secrets of either end.

    Records of DTLS 1.2 and 1.3, the SCTP and messages in them, and with an exporter secret (or the
    master secret of 1.2) SRTP. Each connection is named, and why a part of it stayed shut.

    Exit status: 0 everything protected was opened, 3 not all of it (or datagrams were cut), 1
    nothing could be, 2 not a capture, no key log, no place to write to or a wrong command line.
    """
    from warp_tools.capture.reader import CaptureError
    from warp_tools.decrypt import NOTHING_OPENED, DecryptConfig
    from warp_tools.decrypt import decrypt as run
    from warp_tools.decrypt.view import lines

    config = DecryptConfig(
        capture=capture, keylog=keylog, plain=out, audio=_ogg(audio), messages=messages
    )
    try:
        report = run(config)
    except CaptureError as error:
        typer.echo(f"warp: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        for line in lines(report, config):
            typer.echo(line)
    if report.exit_status == NOTHING_OPENED:
        reasons = [reason for outcome in report.outcomes for reason in outcome.reasons()]
        raise ToolFailure(f"nothing could be opened: {reasons[0]}")
    raise typer.Exit(report.exit_status)


def _ogg(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in _OGG:
        raise CommandRefused(f"--audio writes Ogg Opus: end {path} in .ogg or .opus")
    return path
