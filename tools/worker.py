"""One process of `warp serve --workers`: a server that shares its ports with others.

Started by `warp_tools.workers` with the number of an inherited descriptor, and of no use by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

from instant_connect.io import signalling_app
from instant_connect.io.forwarding import Forwarding
from instant_connect.io.membership import Membership
from instant_connect.io.server import InstantServer
from warp.errors import InternalError, InvalidConfig
from warp.io import prepare_process
from warp_tools.failure import FAILED, ToolFailure
from warp_tools.main import fail
from warp_tools.serve import EchoServer, ServeConfig, bearer, open_answering
from warp_tools.web import open_quic_port, run_web
from warp_tools.workers import config_of

if TYPE_CHECKING:
    from warp_tools.voice_server import VoiceServer

    Answering = EchoServer | VoiceServer


async def work(descriptor: int) -> int:
    """Serve until the parent says stop, or is gone; return the exit status."""
    membership = await Membership.join(descriptor)
    config = config_of(membership.settings)
    try:
        answering = await open_answering(
            config, membership.keyring, number=membership.number, reuse_port=True
        )
    except ToolFailure as failure:
        membership.fail(str(failure))
        return FAILED
    answering.say = membership.say
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, membership.drain)
    await _serve(membership, config, answering)
    return 0


async def _serve(membership: Membership, config: ServeConfig, answering: Answering) -> None:
    server = answering.server
    if not isinstance(server, InstantServer):
        raise InternalError("workers share the port of an instant server")
    cluster = membership.cluster(server)
    forwarding = Forwarding(cluster, membership.number)
    app = signalling_app(
        server,
        accept=answering.receive_call,
        config=config.signalling(),
        authorize=bearer(config.token),
        forward=forwarding.forward,
        room=answering.lack,
        more_metrics=answering.metrics,
    )
    loop = asyncio.get_running_loop()
    prepare_process()
    following = loop.create_task(membership.follow(server, cluster))
    ending = loop.create_task(_end(membership, answering))
    membership.ready()
    serving = loop.create_task(membership.serving.wait())
    await asyncio.wait({serving, following}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if membership.serving.is_set():
            listener = membership.sockets["web"]
            quic = open_quic_port(listener, reuse_port=True) if config.http3 else None
            web = forwarding.wrap(app, app.state.open)
            await run_web(web, listener, membership.stop, config.tls, quic=quic)
    finally:
        serving.cancel()
        membership.stop.set()
        await ending
        await forwarding.close()
        cluster.close()
        await asyncio.gather(serving, following, return_exceptions=True)
        membership.close()


async def _end(membership: Membership, answering: Answering) -> None:
    """Take leave of all calls as soon as the end is told, whatever HTTP has still to do."""
    await membership.stop.wait()
    await answering.close()


def main() -> None:
    """Run as a worker."""
    with contextlib.suppress(KeyboardInterrupt):
        try:
            descriptor = int(sys.argv[1])
            status = asyncio.run(work(descriptor))
        except (IndexError, ValueError, InvalidConfig) as error:
            fail(f"a worker is started by warp serve --workers ({error})", FAILED)
        sys.exit(status)


if __name__ == "__main__":
    main()
