"""What a study needs, checked before its first fit: packages and data files."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from hedgerow.errors import DataError, ParameterError
from studies import datasets
from studies.kept import ARCHIVES

PLOTS = ("matplotlib",)
LISTED = ARCHIVES / "files.csv"
"""The files that all pages were made from; written by `python -m studies data`."""


def check(packages: Sequence[str], files: Sequence[str], data: Path | None) -> None:
    """Everything that is missing, named at once; then the workers know where the files are."""
    _packages(packages)
    if files:
        where = datasets.folder(None if data is None else str(data))
        _files(files, where)
        os.environ[datasets.FOLDER_VARIABLE] = str(where)


def _packages(names: Sequence[str]) -> None:
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise ParameterError(
            f"{', '.join(missing)} cannot be imported, which this study needs; "
            "install what studies/requirements.txt lists."
        )


def _files(names: Sequence[str], where: Path) -> None:
    missing = [name for name in names if not (where / f"{name}.parquet").exists()]
    if missing:
        raise DataError(
            f"{where} lacks {', '.join(f'{name}.parquet' for name in missing)}; "
            "studies/data/files.csv says where each file comes from."
        )
    for name in other_files(names, where):
        print(
            f"studies: {name}.parquet is not the file of {LISTED}; numbers will differ.",
            file=sys.stderr,
        )


def other_files(names: Sequence[str], where: Path) -> list[str]:
    """Files whose bytes are not those that the committed pages were made from."""
    if not LISTED.exists():
        return []
    known = pd.read_csv(LISTED).set_index("name")["sha256"]
    return [
        name for name in names if name in known and known[name] != digest(where / f"{name}.parquet")
    ]


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
