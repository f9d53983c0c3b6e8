"""Names of other projects that our pages link to; `make docs` needs no network for them.

`docs/inventories.txt` has a few lines of each project's own inventory. Every build packs them for
Sphinx. `python -m docs.make_inventories FOLDER` holds them against whole inventories: files
`FOLDER/python.inv` and so on, fetched from the addresses below.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import sphobjinv

HERE = Path(__file__).parent
LINES = HERE / "inventories.txt"
PACKED = HERE / "reference"
SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "scikit-learn": "https://scikit-learn.org/stable/",
}
HEAD = """\
# Sphinx inventory version 2
# Project: {name}
# Version: stable
# The remainder of this file is compressed using zlib.
"""
ALIASES = {
    "Path": "pathlib.Path",
    "DataFrame": "pandas.DataFrame",
    "estimator": ":term:`estimator <scikit-learn:estimator>`",
    "estimators": ":term:`estimators <scikit-learn:estimator>`",
    "Model": ":doc:`Model </files>`",
    "PrivacyStatement": ":doc:`PrivacyStatement </statement>`",
    "RunRecord": ":doc:`RunRecord </communication>`",
}
"""What our docstrings call a type, and what it links to; numpydoc knows the most common ones."""
WORDS = frozenset(
    {"or", "of", "and", "as", "for", "X", "y", "rows", "labels", "connection"}
    | {"Newton", "IH", "EBM", "Batch", "uniform"}
)
"""Words between types, and of names of methods."""


def mapping(folder: Path = PACKED) -> dict[str, tuple[str, str]]:
    """For `intersphinx_mapping`: where links go, and the file that knows the names."""
    folder.mkdir(exist_ok=True)
    found = {}
    for name, site in SITES.items():
        packed = folder / f"{name}.inv"
        sphobjinv.writebytes(packed, sphobjinv.compress(inventory_of(name).data_file()))
        found[name] = (site, str(packed))
    return found


def inventory_of(name: str) -> sphobjinv.Inventory:
    """Our lines of a project, as an inventory."""
    head = HEAD.format(name=name)
    lines = LINES.read_text(encoding="utf-8").partition(f"[{name}]\n")[2].partition("\n\n")[0]
    return sphobjinv.Inventory(f"{head}{lines}\n".encode())


def differences(whole: Path) -> Iterator[str]:
    """Lines of ours that a project's own inventory does not have, or has otherwise."""
    for name in SITES:
        path = whole / f"{name}.inv"
        if not path.exists():
            yield f"{name}: not compared, {path} is missing; fetch {SITES[name]}objects.inv"
            continue
        theirs = {_line(one) for one in sphobjinv.Inventory(path).objects}
        ours = inventory_of(name).objects
        yield from (f"{name}: {_line(one)}" for one in ours if _line(one) not in theirs)


def _line(one: sphobjinv.DataObjStr) -> str:
    return f"{one.name} {one.domain}:{one.role} {one.uri_expanded}"


if __name__ == "__main__":
    sys.exit("\n".join(differences(Path(sys.argv[1]))) or None)
