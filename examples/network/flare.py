"""`make demo-flare`: the same consortium over a FLARE network that is provisioned and locked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from examples.network.flare_network import ADMIN, flare_network
from examples.network.https import demo
from examples.network.walk import over_engine
from hedgerow.deployment.rehearsal import Walk


def over_flare(walk: Walk) -> None:
    @contextmanager
    def engine(sockets: Mapping[str, Path]) -> Iterator[str]:
        print("provisioning and starting FLARE ...", flush=True)
        with flare_network(walk.folder / "flare", sockets) as network:
            yield f"--flare {network.admin_kit.relative_to(walk.folder)} --flare-user {ADMIN}"

    over_engine(walk, engine)


if __name__ == "__main__":
    sys.exit(demo(over_flare))
