"""A Flower network on the loopback, with TLS and node keys.

It runs the commands that are installed beside this Python.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from examples.network.engine import BIN, SOURCE, EngineNetwork, demo_over
from hedgerow.deployment.rehearsal import free_port
from hedgerow.federation.transports.flower import QUIET

LINK = "local"
"""The SuperLink's name in Flower's config.toml."""
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
CONFIG = """\
[superlink]
default = "{link}"

[superlink.{link}]
address = "127.0.0.1:{port}"
root-certificates = "{folder}/ca.crt"
"""
EXTENSION = """\
subjectAltName=DNS:localhost,IP:127.0.0.1
extendedKeyUsage=serverAuth
authorityKeyIdentifier=keyid
"""


@dataclass
class FlowerNetwork(EngineNetwork):
    """A SuperLink, and a SuperNode for each site; with `executor` no submitted code runs there."""

    executor: bool = True
    database: str = "state.db"
    within: Sequence[str] = ()
    """Words of a command that runs SuperNodes, as another user for example."""
    ports: dict[str, int] = field(default_factory=dict)

    def provision(self) -> None:
        """Certificates of the SuperLink, a key for each SuperNode, and the admin's config.toml."""
        self.folder.mkdir(parents=True, exist_ok=True)
        home = Path(self.environment()["FLWR_HOME"])
        home.mkdir()
        config = CONFIG.format(link=LINK, port=self.port, folder=self.folder)
        (home / "config.toml").write_text(config, encoding="utf-8")
        (self.folder / "extension").write_text(EXTENSION, encoding="utf-8")
        usage = "keyUsage=critical,keyCertSign,cRLSign"
        self._do("openssl", "req", "-x509", *EC, "-days", "30", "-subj", "/CN=authority",
                 "-keyout", "ca.key", "-out", "ca.crt", "-addext", usage)  # fmt: skip
        self._do("openssl", "req", "-new", *EC, "-subj", "/CN=localhost",
                 "-keyout", "server.key", "-out", "server.csr")  # fmt: skip
        self._do("openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt",
                 "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "extension",
                 "-out", "server.crt")  # fmt: skip
        for name in self.sockets:
            self.ports[name] = free_port()
            write_node_key(self.folder / f"{name}.node")
            (self.folder / f"{name}.home").mkdir()
        secret = self.folder / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)

    def start(self) -> None:
        self.start_link()
        for name in self.sockets:
            self._do(str(BIN / "flwr"), "supernode", "register", f"{name}.node.pub", LINK)
            self.start_node(name)
            if self.executor:
                self.start_executor(name)
        self.wait_for_nodes()

    def start_link(self) -> None:
        self.launch(
            "superlink", str(BIN / "flower-superlink"), "--host", "127.0.0.1",
            "--port", str(self.port), "--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.crt",
            "--ssl-keyfile", "server.key", "--enable-supernode-auth", "--database", self.database,
            "--disable-runtime-dependency-installation",
        )  # fmt: skip
        self.wait_until(self._link_listens, "the SuperLink did not start")

    def _link_listens(self) -> bool:
        if (code := self.groups["superlink"].poll()) is not None:
            raise RuntimeError(f"the SuperLink ended with {code}; see {self.folder}/superlink.log")
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False

    def start_node(self, name: str) -> None:
        home = str(self.folder / f"{name}.home")
        secret = ("--isolation", "process", "--superexec-auth-secret-file", "secret")
        self.launch(
            name, *self.within, str(BIN / "flower-supernode"), "--root-certificates", "ca.crt",
            "--superlink", f"127.0.0.1:{self.port}", "--auth-supernode-private-key", f"{name}.node",
            "--host", "127.0.0.1", "--port", str(self.ports[name]),
            "--node-config", f'site="{name}" socket="{self.sockets[name]}"',
            *(secret if self.executor else ()), FLWR_HOME=home, HOME=home,
        )  # fmt: skip

    def start_executor(self, name: str, site: str | None = None) -> None:
        """`site` is what it says it is, if that is another one."""
        command = "from hedgerow.cli.main import entry; entry()"
        self.launch(
            f"{name}.executor", sys.executable, "-c", command, "site", "flower",
            "--site", site or name, "--socket", str(self.sockets[name]), "--secret", "secret",
            "--runtime", f"127.0.0.1:{self.ports[name]}", PYTHONPATH=SOURCE,
        )  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Nothing is reported, looked up or installed; nothing is written under the user's HOME."""
        own = {"FLWR_HOME": str(self.folder / "home"), "PYTHONUNBUFFERED": "1"}
        whole = {**super().environment(), **QUIET, **own}
        whole.pop("PYTHONPATH", None)
        return whole

    def words(self) -> str:
        return f"--flower {LINK}"

    def wait_for_nodes(self) -> None:
        self.wait_until(self._all_online, "SuperNodes did not come online")

    def _all_online(self) -> bool:
        said = self._do(str(BIN / "flwr"), "supernode", "list", LINK, "--format", "json")
        nodes = json.loads(said).get("nodes", [])
        return sum(str(one["status"]).lower() == "online" for one in nodes) >= len(self.sockets)

    def _do(self, *words: str) -> str:
        done = subprocess.run(
            words, capture_output=True, text=True, env=self.environment(), cwd=self.folder
        )
        if done.returncode:
            raise RuntimeError(f"{words[:3]} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def processes(self, name: str) -> list[psutil.Process]:
        """One participant's process that runs now, and all that it started."""
        with suppress(psutil.Error):
            first = psutil.Process(self.groups[name].pid)
            return [first, *first.children(recursive=True)]
        return []

    def kill_server_app(self) -> None:
        """Of the run that is under way, if there is one."""
        for process in self.processes("superlink"):
            with suppress(psutil.Error):
                if "flwr-serverapp" in " ".join(process.cmdline()):
                    process.kill()

    def kill_link_and_start_again(self) -> None:
        self.kill("superlink")
        self.start_link()


def write_node_key(path: Path) -> None:
    """As `ssh-keygen -t ecdsa -b 384 -N ""` does."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    kind = form.PrivateFormat.OpenSSH
    path.write_bytes(key.private_bytes(form.Encoding.PEM, kind, form.NoEncryption()))
    path.chmod(0o600)
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    path.with_name(f"{path.name}.pub").write_bytes(public)


if __name__ == "__main__":
    sys.exit(demo_over(FlowerNetwork, "starting a SuperLink and three SuperNodes ..."))
