"""Measures methods and planted mutants for docs/audit.md: `python -m support.measure`.

Run it from the repository with `src` and `tests` on the path. It writes audit.csv, audit_papers.csv
and audit_mutants.csv under studies/work/audit line by line and leaves out what stands there
already:
delete the files to begin anew. `python -m studies keep audit` puts them into their archive, from
which `python -m docs.make_tables` makes the tables of the page.
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from audit.test_audit import MUTANTS, TREE
from hedgerow.audit.measuring import AuditVerdict
from hedgerow.audit.running import audit_estimator, estimators_named
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.methods.registry import EstimatorMaker
from studies.kept import WORK
from support.audited_methods import CANARIES, methods

RESULTS = WORK / "audit"
DELTAS = (0.0, 1e-6)
FIELDS = ("what", "dp_model", "delta", "state", "claimed", "white_box", "one_run", "charge")
FIELDS += ("noise", "numbers", "seconds")


def measured(
    what: str, kind: EstimatorMaker, dp_model: str, delta: float, **how: Any
) -> dict[str, object]:
    """One audit as a line; CPU seconds, so that neighbors on the machine do not count."""
    start = time.process_time()
    head = {"what": what, "dp_model": dp_model, "delta": delta}
    try:
        found = audit_estimator(kind, dp_model, delta=delta, **how)
    except (ParameterError, UnsupportedQuery):
        return {**head, "state": "refused"}
    return {**head, **_numbers(found), "seconds": round(time.process_time() - start, 1)}


def _numbers(found: AuditVerdict) -> dict[str, object]:
    return {
        "state": "below" if found.is_sound else "above",
        "claimed": found.claimed,
        "white_box": round(found.white_box, 3),
        "one_run": round(found.one_run, 3),
        "charge": round(max((kind.at_least for kind in found.kinds), default=0.0), 3),
        "noise": round(min((kind.noise for kind in found.kinds), default=0.0), 3),
        "numbers": sum(kind.numbers for kind in found.kinds),
    }


def learners() -> Iterator[dict[str, object]]:
    pairs = product(estimators_named("all").items(), ("central", "distributed", "per_site"), DELTAS)
    for (name, kind), dp_model, delta in pairs:
        yield from _new("audit.csv", name, kind, dp_model, delta)


def papers() -> Iterator[dict[str, object]]:
    """Each method where it adds its own noise; fewer canaries, since some put many queries."""
    for name, method in methods().items():
        where = method.dp_model
        yield from _new("audit_papers.csv", name, method, where, DELTAS[1], canaries=CANARIES)


def mutants() -> Iterator[dict[str, object]]:
    for mutant, dp_model in MUTANTS:
        with pytest.MonkeyPatch.context() as patch:
            mutant(patch)
            name = mutant.__name__.replace("_", " ")
            yield from _new("audit_mutants.csv", name, TREE, dp_model, DELTAS[1])


def _new(
    file: str, what: str, kind: EstimatorMaker, dp_model: str, delta: float, **how: Any
) -> Iterator[dict[str, object]]:
    if (what, dp_model, str(delta)) not in _known(RESULTS / file):
        yield measured(what, kind, dp_model, delta, **how)


def _known(path: Path) -> set[tuple[str, ...]]:
    if not path.exists():
        return set()
    with path.open(encoding="utf-8", newline="") as file:
        return {(r["what"], r["dp_model"], r["delta"]) for r in csv.DictReader(file)}


def append(file: str, rows: Iterator[dict[str, object]]) -> None:
    path = RESULTS / file
    path.parent.mkdir(parents=True, exist_ok=True)
    for row in rows:
        is_new = not path.exists()
        with path.open("a", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(row)
        print(*row.values(), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    append("audit_mutants.csv", mutants())
    append("audit.csv", learners())
    append("audit_papers.csv", papers())
