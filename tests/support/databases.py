"""A PostgreSQL server of our own, in a folder that goes away; only a socket, no port."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def server_programs() -> Path | None:
    """Where initdb and pg_ctl are: on the path, or where Debian keeps them."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "pg_ctl").exists()), None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """The words with which to connect. A server refuses to run as root, so root lends a user."""
    programs = server_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: no initdb on the path or in /usr/lib/postgresql")
    user = _lent_user()
    folder = Path(tempfile.mkdtemp(prefix="hr-pg-", dir="/tmp"))  # a socket's path must be short
    try:
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        data, options = folder / "data", f"-c listen_addresses='' -k {folder} -c fsync=off"
        _run(user, programs / "initdb", "-D", data, "-A", "trust", "-U", "reader", "--no-sync")
        log = folder / "log"
        _run(user, programs / "pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")
        try:
            yield f"host={folder} user=reader dbname=postgres"
        finally:
            _run(user, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def address(words: str) -> str:
    """The same server as a URI, for drivers that want one."""
    host = words.split()[0].removeprefix("host=")
    return f"postgresql://reader@/postgres?host={host}"


def _lent_user() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def _run(user: str | None, *command: object) -> None:
    words = [str(word) for word in command]
    subprocess.run(words, check=True, user=user, cwd="/", stdout=subprocess.DEVNULL)
