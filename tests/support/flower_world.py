"""A Flower network on the loopback with our services behind it, and faults in it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from examples.network.engine import BIN, running
from examples.network.flower import LINK, FlowerNetwork
from hedgerow.federation.transports.flower import FlowerExchange
from support.engine_world import EngineWorld, close
from support.network import World

AGAIN_SECONDS, STAYS_SECONDS = 5.0, 15.0
"""Between two starts of a SuperNode that ends, and after which it is believed to stay."""


class Flower(EngineWorld):
    """One network for many studies; each has a transport of its own."""

    network: FlowerNetwork

    def __init__(self, world: World, folder: Path) -> None:
        super().__init__(world, folder)
        self._runs: set[str] = set()

    def transport(self, folder: Path) -> FlowerExchange:
        return FlowerExchange(LINK, self.world.names, folder / "pipe")

    def words(self) -> tuple[str | Path, ...]:
        return ("--flower", LINK)

    def jobs(self) -> int:
        """Of which `flwr list` shows the newest: those that it has shown before count too."""
        words = [BIN / "flwr", "list", LINK, "--format", "json"]
        said = subprocess.run(words, capture_output=True, text=True, check=True)
        self._runs |= {str(one["run-id"]) for one in json.loads(said.stdout)["runs"]}
        return len(self._runs)

    def kill(self, who: str) -> None:
        if who == "job":
            self.network.kill_server_app()
        elif who == "server":
            self.network.kill_link_and_start_again()
        elif who == "executor":
            self.network.kill("site-1.executor")
            self.network.start_executor("site-1")
        else:
            self.network.kill("site-1")
            threading.Thread(target=self._keep_up, args=("site-1",), daemon=True).start()

    def _keep_up(self, name: str) -> None:
        """As a service that is always started again: a SuperLink believes in a death late."""
        while True:
            self.network.start_node(name)
            try:
                self.network.groups[name].wait(STAYS_SECONDS)
            except subprocess.TimeoutExpired:
                return
            time.sleep(AGAIN_SECONDS)


@contextmanager
def flower_world(folder: Path, *, executor: bool = True) -> Iterator[Flower]:
    flower = Flower(World(folder), folder)
    try:
        sockets = {site.name: site.socket for site in flower.world.sites}
        with (
            running(FlowerNetwork(folder / "f", sockets, executor)) as flower.network,
            patch.dict(os.environ, flower.network.environment()),
        ):
            yield flower
    finally:
        close(flower)
