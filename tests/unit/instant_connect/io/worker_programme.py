"""What the workers of a test run: a server and nothing around it, or something that goes wrong.

python worker_programme.py HOW DESCRIPTOR
"""

from __future__ import annotations

import asyncio
import signal
import sys

from instant_connect.host import HostConfig
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.io.membership import Membership


async def serve(descriptor: int) -> None:
    membership = await Membership.join(descriptor)
    config = InstantConfig(host=HostConfig(server=membership.number))
    port = membership.settings["port"]
    server = await listen_instant(
        "127.0.0.1", port, keyring=membership.keyring, config=config, reuse_port=True
    )
    cluster = membership.cluster(server)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, membership.drain)
    membership.ready()
    following = asyncio.create_task(membership.follow(server, cluster))
    await membership.serving.wait()
    epochs = server.host.entrance.keyring
    membership.say(f"serving with {sorted(membership.sockets)} and key {epochs.current.key_id}")
    await membership.stop.wait()
    await following
    membership.say(f"ended with key {server.host.entrance.keyring.current.key_id}")
    await server.close()
    cluster.close()
    membership.close()


async def refuse(descriptor: int) -> None:
    membership = await Membership.join(descriptor)
    membership.fail("the port is taken")
    membership.close()


async def stay(descriptor: int) -> None:
    """Ready and deaf."""
    membership = await Membership.join(descriptor)
    membership.ready()
    await asyncio.sleep(3600)


def main() -> None:
    how, descriptor = sys.argv[1], int(sys.argv[2])
    if how == "die":
        sys.exit(3)
    programmes = {"serve": serve, "refuse": refuse, "stay": stay}
    asyncio.run(programmes[how](descriptor))


if __name__ == "__main__":
    main()
