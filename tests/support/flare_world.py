"""A provisioned FLARE network on the loopback with our services behind it, and faults in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.network.engine import running
from examples.network.flare import ADMIN, FlareNetwork
from hedgerow.federation.transports.flare import FlareExchange
from support.effort import LONG
from support.engine_world import EngineWorld, close
from support.network import World


class Flare(EngineWorld):
    """One network for many studies; each has a transport of its own."""

    network: FlareNetwork

    def transport(self, folder: Path) -> FlareExchange:
        return FlareExchange(self.network.admin_kit, ADMIN, self.world.names, 3, folder / "pipe")

    def words(self) -> tuple[str | Path, ...]:
        return ("--flare", self.network.admin_kit, "--flare-user", ADMIN)

    def jobs(self) -> int:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        session = new_secure_session(ADMIN, str(self.network.admin_kit), timeout=LONG)
        try:
            return len(session.list_jobs())
        finally:
            session.close()

    def kill(self, who: str) -> None:
        """The server with its watchdog, which would give up after a few kills; or a job."""
        if who == "server":
            self.network.kill_and_start_again("localhost")
            return
        for process in self.network.processes("site-1"):  # before the first exchange there is none
            if "worker_process" in str(process.cmdline()):
                process.kill()


@contextmanager
def flare_world(folder: Path) -> Iterator[Flare]:
    flare = Flare(World(folder), folder)
    try:
        sockets = {site.name: site.socket for site in flare.world.sites}
        with running(FlareNetwork(folder / "f", sockets)) as flare.network:
            yield flare
    finally:
        close(flare)
