"""`make demo-flare`: the same consortium over a FLARE network that is provisioned and locked."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from examples.network.flare_network import ADMIN, flare_network
from examples.network.https import show
from examples.network.walk import (
    SITES,
    agree,
    approve,
    found_sites,
    join,
    look_back,
    walking,
    write_rows,
)


def main() -> None:
    from hedgerow.kernels.warming import warm

    print("compiling loops, once ...", flush=True)
    warm()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with walking(folder, say=lambda text: print(text, flush=True)) as walk:
            write_rows(walk)
            agree(walk, found_sites(walk))
            approve(walk)
            join(walk)
            print("provisioning and starting FLARE ...", flush=True)
            sockets = {site: folder / site / "run/socket" for site in SITES}
            with flare_network(folder / "flare", sockets) as network:
                kit = network.admin_kit.relative_to(folder)
                walk.do(f"hedgerow study run study --flare {kit} --flare-user {ADMIN}")
            look_back(walk)
            show(folder)
    print(f"\nAll processes are stopped. {time.monotonic() - begun:.0f} s.")


if __name__ == "__main__":
    sys.exit(main())
