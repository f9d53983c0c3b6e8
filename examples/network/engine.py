"""Networks of FLARE or Flower on the loopback: processes, started and stopped again by their pids.

For `make demo-flare`, `make demo-flower`, benchmarks and tests. Real consortia provision so that
nobody sees another's key; docs/network.md and docs/transports.md say how.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

import hedgerow
from examples.network import walk as steps
from hedgerow.deployment.rehearsal import Walk, free_port

BIN = Path(sys.executable).parent
SOURCE = str(Path(hedgerow.__file__).parents[1])
START_SECONDS = 120.0


@dataclass
class EngineNetwork:
    """A server and a participant for each site, each in a process group of its own."""

    folder: Path
    sockets: Mapping[str, Path]
    """Site -> where its own service listens."""
    groups: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, kw_only=True)
    port: int = field(default_factory=free_port, kw_only=True)

    def provision(self) -> None:
        """Certificates, keys and folders of all."""
        raise NotImplementedError

    def start(self) -> None:
        """All processes, until the server knows all sites."""
        raise NotImplementedError

    def words(self) -> str:
        """By which `hedgerow study run`, in the folder above, reaches the engine."""
        raise NotImplementedError

    def processes(self, name: str) -> list[psutil.Process]:
        """Those of one participant that run now."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """The present Python before others."""
        path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
        return {**os.environ, "PATH": path}

    def launch(self, name: str, *words: str, **more: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.groups[name] = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                env={**self.environment(), **more}, start_new_session=True,
            )  # fmt: skip

    def wait_until(self, is_so: Callable[[], bool], failure: str) -> None:
        end = time.monotonic() + START_SECONDS
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError(f"{failure}; see {self.folder}/*.log")
            time.sleep(0.3)

    def kill(self, name: str) -> None:
        """SIGKILL of all that one participant runs."""
        before = self.processes(name)
        with suppress(ProcessLookupError):
            os.killpg(self.groups[name].pid, signal.SIGKILL)
        self.groups[name].wait()
        for process in (*before, *self.processes(name)):
            with suppress(psutil.Error):
                process.kill()

    def stop(self) -> None:
        """Everything that this network started, and nothing else."""
        left = [process for name in self.groups for process in self.processes(name)]
        for process in left:
            with suppress(psutil.Error):
                process.terminate()
        _, alive = psutil.wait_procs(left, timeout=8)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        for name in self.groups:
            self.kill(name)


Network = TypeVar("Network", bound=EngineNetwork)


@contextmanager
def running(network: Network) -> Iterator[Network]:
    network.provision()
    try:
        network.start()
        yield network
    finally:
        network.stop()


def demo_over(make: Callable[[Path, Mapping[str, Path]], EngineNetwork], text: str) -> None:
    """The consortium of `make demo-network`, over an engine."""

    def follow(walk: Walk) -> None:
        steps.write_rows(walk)
        told = steps.make_sites(walk)
        steps.draft(walk, [f"{name}={own['public key']}" for name, own in told.items()])
        steps.agree(walk, told)
        steps.join(walk)
        print(text, flush=True)
        sockets = {name: walk.folder / name / "run/socket" for name in steps.SITES}
        with running(make(walk.folder / "engine", sockets)) as network:
            os.environ.update(network.environment())
            walk.do(f"hedgerow study run study {network.words()}")
        steps.look_back(walk)

    steps.demo(follow)
