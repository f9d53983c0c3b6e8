"""Carriers with real sockets under them, for tests: each stops what it started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hedgerow.federation.transports.certificates import (
    Authority,
    Request,
    accept_certificate,
    client_context,
    key_bytes,
    new_key,
)
from hedgerow.federation.transports.https import Caller, HttpsCarrier
from hedgerow.secagg.keys import Identity

Handle = Callable[[bytes], bytes]


def certified(folder: Path, authority: Authority, name: str) -> tuple[Path, Path, Path]:
    """Key, certificate and authority of a new site, as files."""
    identity, key = Identity.generate(), new_key()
    request = Request.make(name, identity, key)
    reply = authority.sign(request, identity.public)
    certificate, root = accept_certificate(reply, authority.fingerprint, key, name)
    files = folder / f"{name}.key", folder / f"{name}.crt", folder / f"{name}.authority.crt"
    for path, content in zip(files, (key_bytes(key), certificate, root), strict=True):
        path.write_bytes(content)
    return files


class Direct:
    """Sites in this process: each maps a letter to its answer."""

    def __init__(self, sites: Mapping[str, Handle]) -> None:
        self._sites = dict(sites)

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        return {name: self._sites[name](letter) for name, letter in letters.items()}


@contextmanager
def calling(
    url: str, tls, handle: Handle, note: Callable[[str], None] = lambda text: None
) -> Iterator[Caller]:
    """A site that calls from a thread of its own."""
    caller = Caller(url, tls, handle, note=note)
    thread = threading.Thread(target=caller.run)
    thread.start()
    try:
        yield caller
    finally:
        caller.stop()
        thread.join()


@contextmanager
def https(folder: Path, sites: Mapping[str, Handle]) -> Iterator[HttpsCarrier]:
    """A door on a free port of the loopback, and all sites calling it."""
    authority = Authority.open(folder / "authority")
    door = HttpsCarrier(sites, authority.server_context(["localhost", "127.0.0.1"]), "127.0.0.1")
    stack: list[tuple[Caller, threading.Thread]] = []
    try:
        for name, handle in sites.items():
            tls = client_context(*certified(folder, authority, name))
            caller = Caller(f"https://127.0.0.1:{door.port}", tls, handle, note=lambda text: None)
            thread = threading.Thread(target=caller.run)
            thread.start()
            stack.append((caller, thread))
        yield door
    finally:
        for caller, thread in stack:
            caller.stop()
            thread.join()
        door.close()


def names(n: int) -> Sequence[str]:
    return [f"site-{k + 1}" for k in range(n)]
