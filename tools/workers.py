"""`warp serve --workers`: the parent of the processes that share a UDP port.

parent: ports, keys ─▶ Supervisor ─▶ python -m warp_tools.worker, once for each
        SIGHUP ─▶ other keys for all      SIGUSR1 ─▶ no new calls, and the end with the last one
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

from instant_connect.crew import CrewConfig
from instant_connect.io.supervisor import Supervisor, WorkersFailed
from instant_connect.keyring import Keyring
from warp.entropy import SystemEntropy
from warp.errors import UsageError
from warp.io.interfaces import bind_each, expand_host
from warp_tools.failure import CommandRefused, ToolFailure
from warp_tools.interruption import listen_for_interruption
from warp_tools.keys import load_keyring
from warp_tools.rotation import KeyChanges
from warp_tools.serve import Say, ServeConfig
from warp_tools.web import Tls, open_quic_port, open_web_port

COMMAND = (sys.executable, "-m", "warp_tools.worker")


async def serve_workers(config: ServeConfig, say: Say) -> None:
    """Serve with several processes until interrupted."""
    try:
        crew = CrewConfig(workers=config.workers, first=config.server)
    except UsageError as error:
        raise CommandRefused(f"--workers, --server-id: {error}") from error
    config.signalling(), config.media()  # what is wrong with them is said once
    if config.tls is not None:
        config.tls.check()
    keyring = _keyring(config)
    udp_port = find_udp_port(config.host, config.udp_port)
    listener = open_web_port(config.host, config.http_port)
    try:
        if config.http3:
            open_quic_port(listener, reuse_port=True).close()
        await _run(config, crew, keyring, udp_port, listener, say)
    finally:
        listener.close()


async def _run(
    config: ServeConfig,
    crew: CrewConfig,
    keyring: Keyring,
    udp_port: int,
    listener: Any,
    say: Say,
) -> None:
    supervisor = Supervisor(
        COMMAND,
        crew,
        keyring=keyring,
        settings=settings_of(config, udp_port),
        sockets={"web": listener},
        say=say,
    )
    stop = listen_for_interruption()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, supervisor.drain)
    changes = KeyChanges(
        file=config.keys,
        every_s=config.rotate_every_s,
        present=lambda: supervisor.keyring,
        replace=supervisor.replace_keys,
        rotate=supervisor.rotate,
        say=say,
    )

    async def announce() -> None:
        await supervisor.serving.wait()
        url = config.url(listener.getsockname()[1])
        where = f"calls on UDP {udp_port}, {config.workers} workers"
        say(f"{config.backend} at {url} ({where}; Ctrl-C ends them)")

    tasks = [loop.create_task(changes.follow()), loop.create_task(announce())]
    try:
        await supervisor.run(stop)
    except WorkersFailed as error:
        raise ToolFailure(str(error)) from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _keyring(config: ServeConfig) -> Keyring:
    if config.keys is not None:
        return load_keyring(config.keys)
    return Keyring.generate(SystemEntropy(), time.time())


def find_udp_port(host: str, port: int) -> int:
    """Return a UDP port that nobody has. Raises ToolFailure, one line, when this one is taken.

    Workers share it by SO_REUSEPORT: without asking first, they would share it with a stranger.
    """
    try:
        sockets = bind_each(expand_host(host, loopback=True), port)
    except UsageError as error:
        raise CommandRefused(str(error)) from error
    number: int = sockets[0].getsockname()[1]
    for sock in sockets:
        sock.close()
    return number


def settings_of(config: ServeConfig, udp_port: int) -> dict[str, Any]:
    """Return what every worker is told, as JSON values; the token is among them."""
    tls = config.tls
    return {
        "host": config.host,
        "udp_port": udp_port,
        "advertise": config.advertise,
        "advertise_port": config.advertise_port,
        "cors_origins": config.cors_origins,
        "token": config.token,
        "origin_trials": config.origin_trials,
        "tls": None if tls is None else [str(tls.certificate), str(tls.key)],
        "http3": config.http3,
        "backend": config.backend,
        "responses_url": config.responses_url,
        "responses_model": config.responses_model,
        "responses_key": config.responses_key,
    }


def config_of(settings: dict[str, Any]) -> ServeConfig:
    """Return the configuration of a worker."""
    told = dict(settings)
    tls = told.pop("tls")
    for name in ("advertise", "cors_origins", "origin_trials"):
        told[name] = tuple(told[name])
    if tls is not None:
        told["tls"] = Tls(certificate=Path(tls[0]), key=Path(tls[1]))
    return ServeConfig(**told)
