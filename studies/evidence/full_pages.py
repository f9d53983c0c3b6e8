"""The full pages of all studies, read off the archives; a page is drawn anew only if it must be."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

from studies import files
from studies.code_version import code_version
from studies.kept import archived
from studies.needs import LISTED

MARK = ".made"
"""A file beside a page: the digest of all that the page was made from."""
INDEX = """# All numbers

For data scientists and reviewers. The page of every study as its command writes it, with all tables
and figures, made by `make evidence` from the archives in `studies/data`. What they come to is on
[one page for each subject](/results/index.md).

```{toctree}
:maxdepth: 1

%s
```
"""


def write_all(out: Path, names: Sequence[str]) -> int:
    """Pages that were not there, or not of today's tables and code; gives their number."""
    out.mkdir(parents=True, exist_ok=True)
    stale = [name for name in names if not _is_made(out, name)]
    workers = min(len(stale), os.cpu_count() or 1)
    if stale:
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            list(pool.map(write_one, [out] * len(stale), stale))
    _write(out / "data" / "README.md", files.page())
    pages = [f"{name}/README" for name in (*names, "speed", "data")]
    _write(out / "index.md", INDEX % "\n".join([*pages, "ours/tasks"]))
    return len(stale)


def write_one(out: Path, name: str) -> None:
    from studies.__main__ import STUDIES, Order

    order = Order(name, page_only=True, tables=archived(name), out=out / name)
    STUDIES[name](order)
    _write(out / name / MARK, _digest(name))


def _is_made(out: Path, name: str) -> bool:
    mark = out / name / MARK
    return mark.is_file() and mark.read_text(encoding="utf-8") == _digest(name)


def _digest(name: str) -> str:
    total = hashlib.sha256(LISTED.read_bytes())
    archive = archived(name).archive
    assert archive is not None
    total.update(archive.read_bytes())
    package = f"studies.{name.replace('-', '_')}"
    module = f"{package}.run" if find_spec(package).submodule_search_locations else package  # type: ignore[union-attr]
    total.update(code_version(import_module(module).run).encode())
    return total.hexdigest()


def _write(path: Path, text: str) -> None:
    """Left alone if it says the same: Sphinx reads what is newer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
