"""What a command may write over: never what it reads, nor what was paid for or confirmed.

One rule for every command that names a file to write, asked before anything is spent.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.errors import SpecError

Force = Annotated[
    bool, typer.Option("--force", help="Write also over what was paid for or confirmed.")
]
SQLITE = b"SQLite format 3\0"


def check_output(
    output: Path, *inputs: str | Path | None, force: bool = False, digest: str = ""
) -> None:
    """Refuses to lose a file. `digest` is that of the model whose report is written."""
    if not output.is_file():  # nothing is lost; a pipe or a device is not read
        return
    for path in inputs:
        if path is not None and any(os.path.samefile(one, output) for one in _files_at(path)):
            raise SpecError(f"{output} is read by this command; name another file to write.")
    found = None if force else _precious(output, digest)
    if found is not None:
        raise SpecError(
            f"{output} holds {found}, which would be lost; name another file to write, or say "
            "--force."
        )


def _files_at(place: str | Path) -> Iterator[Path]:
    """A file, all in a folder, or all that a pattern names; of a database's address, none."""
    path = Path(place)
    if path.is_dir():
        yield from (one for one in path.rglob("*") if one.is_file())
    elif path.is_file():
        yield path
    elif glob.has_magic(str(place)):
        yield from (Path(one) for one in glob.glob(str(place)) if Path(one).is_file())


def _precious(path: Path, digest: str) -> str | None:
    """What a file is that nobody can simply make again; None for anything else."""
    from hedgerow.methods.model_file import FORMAT

    content = path.read_bytes()
    if content.startswith(SQLITE):
        return "a ledger or another database"
    if content.lstrip().startswith(b"{") and f'"{FORMAT}"'.encode() in content:
        return "a model"
    if b"[[site]]" in content and b"[privacy]" in content:
        return "a study"
    if b"[[feature]]" in content and not _is_draft(path):
        return "a schema that somebody wrote or confirmed"
    if b"hedgerow</title>" in content and (not digest or digest.encode() not in content):
        return "a report of another model"
    return None


def _is_draft(path: Path) -> bool:
    """Whether all of a schema was read from rows, so that rows give it again."""
    from hedgerow.schema.schema import Schema

    try:
        known = Schema.from_toml(path)
    except SpecError:
        return False
    has_outcome = known.classes is not None or known.target is not None
    return len(known.unconfirmed) == len(known.features) + has_outcome
