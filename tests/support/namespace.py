"""A network namespace of its own for one process, which a rule can cut off from everybody."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

HERE, THERE = "10.213.7.1", "10.213.7.2"
"""Two addresses of a cable that ends in this machine at both ends."""


@dataclass(frozen=True)
class Namespace:
    name: str
    host: str = HERE

    @property
    def within(self) -> tuple[str, ...]:
        """What comes before a command that is to run inside."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """From here on what comes in is dropped without a word, and so is what goes out."""
        self._ip("rule", "add", "pref", "1", "lookup", "local")
        self._ip("rule", "del", "pref", "0")
        self._ip("rule", "add", "pref", "0", "from", HERE, "blackhole")
        self._ip("rule", "add", "pref", "0", "to", HERE, "blackhole")

    def mend(self) -> None:
        self._ip("rule", "del", "pref", "0", "from", HERE, "blackhole")
        self._ip("rule", "del", "pref", "0", "to", HERE, "blackhole")

    def _ip(self, *words: str) -> None:
        ip("-n", self.name, *words)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


@contextmanager
def namespace() -> Iterator[Namespace]:
    """With a cable to this machine; both are gone afterwards."""
    made = Namespace(f"hedgerow-{os.getpid()}")
    ip("netns", "add", made.name)
    try:
        ip("link", "add", "hedgerow0", "type", "veth", "peer", "name", "hedgerow1")
        ip("link", "set", "hedgerow1", "netns", made.name)
        ip("addr", "add", f"{HERE}/30", "dev", "hedgerow0")
        ip("link", "set", "hedgerow0", "up")
        ip("-n", made.name, "addr", "add", f"{THERE}/30", "dev", "hedgerow1")
        ip("-n", made.name, "link", "set", "hedgerow1", "up")
        ip("-n", made.name, "link", "set", "lo", "up")
        yield made
    finally:
        ip("netns", "delete", made.name)
        subprocess.run(["ip", "link", "del", "hedgerow0"], check=False, capture_output=True)


def why_no_namespace() -> str | None:
    """Why this machine lets nobody make one; None if it does."""
    if os.geteuid() != 0:
        return "network namespaces are root's alone"
    if shutil.which("ip") is None:
        return "there is no `ip` command here"
    try:
        with namespace():
            return None
    except (OSError, subprocess.SubprocessError) as error:
        return f"no network namespace can be made here: {error}"
