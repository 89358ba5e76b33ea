"""Two of our agents on the virtual network; the ICE stories start from here."""

from __future__ import annotations

from typing import Any

from tests.sim.network import LinkConfig
from tests.sim.pair import CLIENT, SERVER, Pair
from warp.contract import Address
from warp.entropy import SeededEntropy
from warp.ice import IceAgent, IceConfig, IceCredentials, IceRole, PairSelected, host_candidate

ALICE = IceCredentials("alice", "password-of-alice-012345")
BOB = IceCredentials("bob0", "password-of-bob-01234567")
CELLULAR: Address = ("198.51.100.7", 40000)


class IceCall(Pair):
    """Alice (client, controlling unless told otherwise) and Bob (server)."""

    def __init__(
        self,
        *,
        lite: bool = False,
        roles: tuple[IceRole, IceRole] = (IceRole.CONTROLLING, IceRole.CONTROLLED),
        config: LinkConfig | None = None,
        seed: int = 0,
        riders: tuple[Any, Any] = (None, None),
        **options: Any,
    ) -> None:
        self.lite = lite
        agents = [
            IceAgent(
                IceConfig(lite=is_lite, **options),
                role=role,
                local=credentials,
                entropy=SeededEntropy(f"{seed}{credentials.ufrag}".encode()),
                rider=rider,
            )
            for is_lite, role, credentials, rider in zip(
                (False, lite), roles, (ALICE, BOB), riders, strict=True
            )
        ]
        super().__init__(*agents, config=config, seed=seed)
        self.alice, self.bob = agents
        self.began = self.now

    def begin(self, *, client_candidate: bool = True, local: Address = CLIENT) -> IceCall:
        """Signal everything at once and start both."""
        now = self.now
        self.alice.add_local_candidate(host_candidate(local), now)
        self.bob.add_local_candidate(host_candidate(SERVER), now)
        self.introduce(ALICE, BOB)
        self.alice.add_remote_candidate(host_candidate(SERVER), now)
        if client_candidate:
            self.bob.add_remote_candidate(host_candidate(local), now)
        self.alice.start(now)
        self.bob.start(now)
        return self

    def introduce(self, alice: IceCredentials, bob: IceCredentials) -> None:
        """Give each side the other's credentials."""
        self.alice.set_remote_credentials(bob, self.now, lite=self.lite)
        self.bob.set_remote_credentials(alice, self.now)

    def both_selected(self) -> bool:
        """Whether both have selected a pair."""
        return None not in (self.alice.selected_flow, self.bob.selected_flow)

    def connect(self, timeout_s: float = 20.0) -> IceCall:
        """Begin and run until both have selected."""
        self.begin()
        assert self.run(until=self.both_selected, timeout_s=timeout_s)
        return self

    def selections(self, name: str) -> list[float]:
        """When a side selected, in seconds since the beginning."""
        return [at - self.began for at, _ in self.nodes[name].named(PairSelected)]
