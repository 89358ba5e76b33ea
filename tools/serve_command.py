"""`warp serve`: a server to call, in one process or several."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warp_tools.backends import EMBEDDED, prepare_backend
from warp_tools.failure import CommandRefused

if TYPE_CHECKING:
    from warp_tools.serve import ServeConfig
    from warp_tools.web import Tls

Texts = list[str] | None
_KEYS = typer.Option(help="Key file of the cell (warp keys new); SIGHUP reads it again.")
_ROTATE = typer.Option(help="Hours between other keys, without a key file; 0: at SIGHUP only.")
_WORKERS = typer.Option(
    help="Processes that share the ports; limits of rates and calls count in each. SIGUSR1 drains."
)
_SERVER = typer.Option(help="Number of this server (of its first worker) within its cell.")
_ADVERTISE = typer.Option(help="Address that answers name; once for each.")
_ADVERTISE_PORT = typer.Option(help="UDP port that answers name, if a relay or NAT has another.")
_CORS = typer.Option(help="Origin of pages elsewhere that may call; *: any.")
_TOKEN = typer.Option(envvar="WARP_TOKEN", help="Bearer token that callers need.")
_TRIAL = typer.Option(help="Origin-trial token to send with the page.")
_BACKEND = typer.Option(
    envvar="WARP_BACKEND",
    help="Who answers: duplex-cpu (a voice; its models are fetched at first use) or echo.",
)
_RESPONSES = typer.Option(
    metavar="URL", help="A Responses service (https://host/v1) for work that takes its time."
)
_RESPONSES_KEY = typer.Option(envvar="WARP_RESPONSES_KEY", help="Its key.")
_INSTANT = typer.Option(help="Begin calls with their first datagram; give out bundles.")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port for the page and for offers.")] = 8080,
    udp_port: Annotated[int, typer.Option(help="The UDP port for all calls; 0: any.")] = 0,
    advertise: Annotated[Texts, _ADVERTISE] = None,
    advertise_port: Annotated[int, _ADVERTISE_PORT] = 0,
    cors_origin: Annotated[Texts, _CORS] = None,
    token: Annotated[str, _TOKEN] = "",
    origin_trial: Annotated[Texts, _TRIAL] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM): HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    http3: Annotated[bool, typer.Option("--http3", help="HTTP/3 as well; needs TLS.")] = False,
    instant: Annotated[bool, _INSTANT] = True,
    keys: Annotated[Path | None, _KEYS] = None,
    rotate_every: Annotated[float, _ROTATE] = 24.0,
    workers: Annotated[int, _WORKERS] = 1,
    server_id: Annotated[int, _SERVER] = 0,
    backend: Annotated[str, _BACKEND] = EMBEDDED,
    responses_url: Annotated[str, _RESPONSES] = "",
    responses_model: Annotated[str, typer.Option(help="The model to ask there.")] = "",
    responses_key: Annotated[str, _RESPONSES_KEY] = "",
) -> None:
    """Serve a page to call from, WHIP, /v1/realtime/calls and /v1/live; a voice answers."""
    from warp_tools.serve import ServeConfig

    config = ServeConfig(
        host=host,
        http_port=port,
        udp_port=udp_port,
        advertise=tuple(advertise or ()),
        advertise_port=advertise_port,
        cors_origins=tuple(cors_origin or ()),
        token=token,
        origin_trials=tuple(origin_trial or ()),
        tls=_tls(tls_cert, tls_key),
        http3=http3,
        instant=instant,
        keys=keys,
        rotate_every_s=rotate_every * 3600,
        workers=workers,
        server=server_id,
        backend=backend,
        responses_url=responses_url,
        responses_model=responses_model,
        responses_key=responses_key,
    )
    _run(config)


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    from warp_tools.web import Tls

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise CommandRefused("--tls-cert and --tls-key belong together")
    return Tls(certificate=certificate, key=key)


def _run(config: ServeConfig) -> None:
    if config.workers == 1:
        from warp_tools.serve import serve as run
    else:
        from warp_tools.workers import serve_workers as run
    # what is wrong is said before anything is fetched
    config.signalling(), config.media(), config.responses()
    prepare_backend(config.backend)
    asyncio.run(run(config, typer.echo))
