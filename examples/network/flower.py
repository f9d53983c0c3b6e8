"""`make demo-flower`: the same consortium over a Flower network with TLS and node keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from examples.network.flower_network import LINK, flower_network
from examples.network.https import demo
from examples.network.walk import over_engine
from hedgerow.deployment.rehearsal import Walk


def over_flower(walk: Walk) -> None:
    @contextmanager
    def engine(sockets: Mapping[str, Path]) -> Iterator[str]:
        print("starting a SuperLink and three SuperNodes ...", flush=True)
        with flower_network(walk.folder / "flower", sockets) as network:
            os.environ.update(network.environment())
            yield f"--flower {LINK}"

    over_engine(walk, engine)


if __name__ == "__main__":
    sys.exit(demo(over_flower))
