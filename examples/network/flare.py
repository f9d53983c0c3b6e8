"""A FLARE network on the loopback: provisioned and locked."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from examples.network.engine import SOURCE, EngineNetwork, demo_over
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


class FlareNetwork(EngineNetwork):
    """A server and sites, started as their kits' own scripts do."""

    @property
    def kits(self) -> Path:
        return self.folder / "workspace/hedgerow/prod_00"

    @property
    def admin_kit(self) -> Path:
        return self.kits / ADMIN

    def words(self) -> str:
        return f"--flare {self.admin_kit.relative_to(self.folder.parent)} --flare-user {ADMIN}"

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
        for name in ("localhost", *self.sockets):
            self.start_one(name)
        self.wait_for_sites()

    def start_one(self, name: str) -> None:
        self.launch(name, "bash", str(self.kits / name / "startup/start.sh"))

    def environment(self) -> dict[str, str]:
        """The present hedgerow; nothing is written under the user's own HOME."""
        return {**super().environment(), "PYTHONPATH": SOURCE, "HOME": str(self.folder)}

    def wait_for_sites(self) -> None:
        self.wait_until(self._all_registered, "FLARE's sites did not register")

    def _all_registered(self) -> bool:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        with suppress(Exception):  # whatever it raises while the server is not yet up
            session = new_secure_session(ADMIN, str(self.admin_kit), timeout=5.0)
            try:
                return len(session.get_system_info().client_info) == len(self.sockets)
            finally:
                session.close()
        return False

    def kill_and_start_again(self, name: str) -> None:
        """SIGKILL of all that one participant runs; then a start, as by a service."""
        self.kill(name)
        (self.kits / name / "daemon_pid.fl").unlink(missing_ok=True)
        self.start_one(name)

    def processes(self, name: str) -> list[psutil.Process]:
        """FLARE daemonizes, so they are found by kit."""
        kit = str(self.kits / name)
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if any(word.startswith(kit) for word in process.cmdline()):
                    found.append(process)
        return found

    def stop(self) -> None:
        for name in self.groups:
            (self.kits / name / "shutdown.fl").touch()
        super().stop()


if __name__ == "__main__":
    sys.exit(demo_over(FlareNetwork, "provisioning and starting FLARE ..."))
