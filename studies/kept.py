"""Tables of a study: what a run computes lies over what an archive of the repository keeps.

A run writes to `studies/work`, which git does not look at; pages read a table there and, if it is
not there, in `studies/data/NAME.zip`. Only `python -m studies keep NAME`, at a release, writes an
archive. The same tables give the same bytes. There a line of a file is a column of its table, and a
measured number has five digits: that takes a third of the space.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

import pandas as pd

from hedgerow.errors import ParameterError

ROOT = Path(__file__).resolve().parents[1]
ARCHIVES = ROOT / "studies" / "data"
WORK = ROOT / "studies" / "work"
KINDS = (".csv", ".md")
"""Of tables, those that benchmarks print among them."""
ANY_DAY = (1980, 1, 1, 0, 0, 0)
"""The date of every file in an archive: the first that the format knows."""


@dataclass(frozen=True)
class Tables:
    """Files of a study by name: those of a folder over those of an archive."""

    work: Path | None
    archive: Path | None = None

    def text(self, name: str) -> str | None:
        """The whole file; None if it is in neither place."""
        if self.work is not None and (self.work / name).is_file():
            return (self.work / name).read_text(encoding="utf-8")
        if name not in self._archived():
            return None
        assert self.archive is not None
        with ZipFile(self.archive) as files:
            found = files.read(name).decode("utf-8")
        return _turned(_lines(found)) if name.endswith(".csv") else found

    def frame(self, name: str, **options: Any) -> pd.DataFrame | None:
        found = self.text(f"{name}.csv")
        return None if found is None else pd.read_csv(io.StringIO(found), **options)

    def names(self) -> list[str]:
        """Of both places, without what a run has not finished."""
        there = [] if self.work is None else [p for p in self.work.glob("*") if p.suffix in KINDS]
        whole = {path.name for path in there if not path.name.endswith(".part.csv")}
        return sorted({*whole, *self._archived()})

    def _archived(self) -> list[str]:
        if self.archive is None or not self.archive.is_file():
            return []
        with ZipFile(self.archive) as files:
            return files.namelist()


def archived(name: str) -> Tables:
    """What the repository keeps of a study, whatever a run has left."""
    return Tables(None, ARCHIVES / f"{name}.zip")


def overlaid(name: str) -> Tables:
    """What a run has left of a study, over what the repository keeps."""
    return Tables(WORK / name, ARCHIVES / f"{name}.zip")


def keep(name: str) -> int:
    """The archive of a study anew, with all that runs have left; gives its number of tables."""
    tables = overlaid(name)
    texts = {file: text for file in tables.names() if (text := tables.text(file)) is not None}
    if not texts:
        raise ParameterError(
            f"there is no table of {name} in {WORK} and none in {ARCHIVES}; "
            f"run `python -m studies {name}` first."
        )
    pack(ARCHIVES / f"{name}.zip", texts)
    for file in texts:
        (WORK / name / file).unlink(missing_ok=True)
    return len(texts)


def pack(path: Path, texts: Mapping[str, str]) -> None:
    """An archive whose bytes follow from its texts: sorted, of one date, whole or not at all."""
    fresh = path.with_suffix(".new")
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(fresh, "w") as files:
        for name in sorted(texts):
            entry = ZipInfo(name, ANY_DAY)
            entry.compress_type, entry.create_system = ZIP_LZMA, 3
            entry.external_attr = 0o644 << 16
            text = texts[name]
            kept = _turned(_short(_lines(text))) if name.endswith(".csv") else text
            files.writestr(entry, kept.encode("utf-8"))
    fresh.replace(path)


Lines = list[list[str]]
OF_FITS = {"code", "split", "seed"}
"""A table that has one of these columns has a row a fit."""
LONG, DIGITS = 13, 5
"""Letters of a number that is measured and not chosen; significant digits that are kept of it."""


def _lines(text: str) -> Lines:
    return list(csv.reader(io.StringIO(text, newline="")))


def _turned(lines: Iterable[Iterable[str]]) -> str:
    """Lines for columns: what stands below each other is alike, and packs well."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(zip(*lines, strict=True))
    return out.getvalue()


def _short(lines: Lines) -> Lines:
    is_of_fits = bool(lines) and OF_FITS.intersection(lines[0])
    return [[_rounded(cell) for cell in line] for line in lines] if is_of_fits else lines


def _rounded(cell: str) -> str:
    """Shorter if it is a long number; codes have letters, or no point."""
    if len(cell) < LONG or "." not in cell:
        return cell
    try:
        return f"{float(cell):.{DIGITS}g}"
    except ValueError:
        return cell
