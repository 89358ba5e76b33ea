"""Two registries on real associations, on a virtual network without DTLS between them."""

from __future__ import annotations

from typing import Any

from tests.sim.network import LinkConfig
from tests.sim.pair import Node, Pair
from warp.datachannel import ChannelMessage, ChannelRegistry, RegistryConfig
from warp.entropy import SeededEntropy
from warp.sctp import Association, SctpConfig, local_init

FAST = LinkConfig(delay_s=0.01)
NO_HEARTBEAT: dict[str, Any] = {"heartbeat_interval_s": None}


class Channels(Pair):
    """A DTLS client and a DTLS server whose association is up, by SNAP or by four packets."""

    def __init__(
        self,
        *,
        snap: bool = True,
        config: LinkConfig | None = None,
        seed: int = 0,
        registry: RegistryConfig | None = None,
        established: bool = True,
        **sctp: Any,
    ) -> None:
        settings = SctpConfig(**{**NO_HEARTBEAT, **sctp})
        inits = [local_init(settings, SeededEntropy(seed * 2 + n)) for n in range(2)]
        associations = [
            Association(
                settings, local_init=init if snap else None, entropy=SeededEntropy(seed * 2 + 7 + n)
            )
            for n, init in enumerate(inits)
        ]
        self.registries = [
            ChannelRegistry(association, registry, is_dtls_client=n == 0)
            for n, association in enumerate(associations)
        ]
        super().__init__(*self.registries, config=config or FAST, seed=seed)
        self.inits = inits
        self.snap = snap
        if established:
            self.start()

    def start(self) -> None:
        """What the peer connection does when DTLS is up."""
        for n, registry in enumerate(self.registries):
            if self.snap:
                registry.association.start_snap(self.inits[1 - n], self.now)
            else:
                registry.association.start(self.now)
            registry.receive(self.now)
        if not self.snap:
            assert self.run(until=lambda: all(r.association.established for r in self.registries))

    @property
    def ours(self) -> ChannelRegistry:
        return self.registries[0]

    @property
    def theirs(self) -> ChannelRegistry:
        return self.registries[1]

    def messages(self, node: Node, stream_id: int | None = None) -> list[str | bytes]:
        """What arrived at one side, on one stream if given."""
        return [
            event.data
            for _, event in node.named(ChannelMessage)
            if stream_id is None or event.channel.stream_id == stream_id
        ]

    def closed(self) -> bool:
        """Whether no channel is left on either side."""
        return not any(registry.channels for registry in self.registries)
