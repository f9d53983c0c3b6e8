"""A FLARE network on the loopback: provisioned, locked, started, and stopped again by its pids.

For `make demo-flare` and for tests. Real consortia provision so that nobody sees another's key;
docs/network.md says how.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import hedgerow
from examples.network.https import demo
from examples.network.walk import over_engine
from hedgerow.deployment.rehearsal import Walk, free_port
from hedgerow.federation.transports.flare_locks import lock

ADMIN = "admin@coordinator.org"
PROJECT = """\
api_version: 3
name: hedgerow
description: loopback
participants:
  - {{name: localhost, type: server, org: coordinator, fed_learn_port: {port}}}
{sites}
  - {{name: {admin}, type: admin, org: coordinator, role: project_admin}}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
    args: {{template_file: [master_template.yml]}}
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
    args: {{config_folder: config, scheme: tcp}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""
START_SECONDS = 90.0


@dataclass
class FlareNetwork:
    """A server and sites, each in a process group of its own."""

    folder: Path
    sockets: Mapping[str, Path]
    """Site -> where its own service is knocked at."""
    groups: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    @property
    def kits(self) -> Path:
        return self.folder / "workspace/hedgerow/prod_00"

    @property
    def admin_kit(self) -> Path:
        return self.kits / ADMIN

    def provision(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        sites = "\n".join(
            f"  - {{name: {name}, type: client, org: {name.replace('-', '')}}}"
            for name in self.sockets
        )
        project = self.folder / "project.yml"
        project.write_text(PROJECT.format(port=self.port, sites=sites, admin=ADMIN))
        words = ["provision", "-p", str(project), "-w", str(self.folder / "workspace"), "--force"]
        subprocess.run(
            [sys.executable, "-m", "nvflare.cli", *words],
            check=True, stdout=subprocess.DEVNULL, env=self.environment(),
        )  # fmt: skip
        lock(self.kits / "localhost", None)
        for name, path in self.sockets.items():
            lock(self.kits / name, path)

    def start(self) -> None:
        self._start("localhost")
        for name in self.sockets:
            self._start(name)
        self.wait_for_sites()

    def _start(self, name: str) -> None:
        """As start.sh does, in a group of its own so that it can be ended with all it started."""
        log = (self.folder / f"{name}.log").open("ab")
        self.groups[name] = subprocess.Popen(
            ["bash", str(self.kits / name / "startup/start.sh")],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True, env=self.environment(),
        )  # fmt: skip
        log.close()

    def environment(self) -> dict[str, str]:
        """The present Python and hedgerow; nothing is written under the user's own HOME."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        ours = str(Path(hedgerow.__file__).parents[1])
        return {**os.environ, "PATH": path, "PYTHONPATH": ours, "HOME": str(self.folder)}

    def wait_for_sites(self) -> None:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        end = time.monotonic() + START_SECONDS
        while True:
            with suppress(Exception):  # whatever it raises while the server is not yet up
                session = new_secure_session(ADMIN, str(self.admin_kit), timeout=5.0)
                try:
                    if len(session.get_system_info().client_info) == len(self.sockets):
                        return
                finally:
                    session.close()
            if time.monotonic() > end:
                raise TimeoutError(f"FLARE's sites did not register; see {self.folder}/*.log")
            time.sleep(0.5)

    def kill_and_start_again(self, name: str) -> None:
        """SIGKILL of all that one participant runs; then a start, as by a service."""
        with suppress(ProcessLookupError):
            os.killpg(self.groups[name].pid, signal.SIGKILL)
        self.groups[name].wait()
        for process in self.processes(name):
            with suppress(psutil.Error):
                process.kill()
        (self.kits / name / "daemon_pid.fl").unlink(missing_ok=True)
        self._start(name)

    # ------------------------------------------------------------------------------------ stopping
    def processes(self, name: str) -> list[psutil.Process]:
        """Those of one participant that run now: FLARE daemonises, so they are found by kit."""
        kit = str(self.kits / name)
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if any(word.startswith(kit) for word in process.cmdline()):
                    found.append(process)
        return found

    def stop(self) -> None:
        """Everything that runs from this network's kits, and nothing else."""
        for name in (*self.sockets, "localhost"):
            (self.kits / name / "shutdown.fl").touch()
            group = self.groups.get(name)
            if group is not None:
                with suppress(ProcessLookupError):
                    os.killpg(group.pid, signal.SIGTERM)
        left = [p for name in (*self.sockets, "localhost") for p in self.processes(name)]
        for process in left:
            with suppress(psutil.Error):
                process.terminate()
        _, alive = psutil.wait_procs(left, timeout=5)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        for group in self.groups.values():
            with suppress(ProcessLookupError):
                os.killpg(group.pid, signal.SIGKILL)
            group.wait()


@contextmanager
def flare_network(folder: Path, sockets: Mapping[str, Path]) -> Iterator[FlareNetwork]:
    network = FlareNetwork(folder, sockets)
    network.provision()
    try:
        network.start()
        yield network
    finally:
        network.stop()


# --------------------------------------------------------------------------------------------------
# `make demo-flare`: the same consortium over a FLARE network that is provisioned and locked.
def over_flare(walk: Walk) -> None:
    @contextmanager
    def engine(sockets: Mapping[str, Path]) -> Iterator[str]:
        print("provisioning and starting FLARE ...", flush=True)
        with flare_network(walk.folder / "flare", sockets) as network:
            yield f"--flare {network.admin_kit.relative_to(walk.folder)} --flare-user {ADMIN}"

    over_engine(walk, engine)


if __name__ == "__main__":
    sys.exit(demo(over_flare))
