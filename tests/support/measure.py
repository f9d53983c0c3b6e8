"""Measures methods and planted mutants for docs/audit.md: `python -m support.measure`.

Run it from the repository with `src` and `tests` on the path. It writes its tables under
studies/work/audit line by line and leaves out what stands there already: delete the files to begin
anew. Extra-Trees on real sets need HEDGEROW_DATA. `python -m studies keep audit` puts the tables
into their archive, from which `python -m docs.make_pages tables` makes those of the pages.
"""

from __future__ import annotations

import csv
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import hedgerow as hr
from audit.test_audit import MUTANTS, TREE
from hedgerow.audit.measuring import AuditVerdict
from hedgerow.audit.running import AUDIT_FEATURES, _made_up, audit_estimator, estimators_named
from hedgerow.data.reading.encoding import encode
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.federation.server import Server
from hedgerow.federation.transports import in_process
from hedgerow.methods.liu import NOISY
from hedgerow.methods.registry import EstimatorMaker
from hedgerow.privacy.queries import Mechanism
from hedgerow.privacy.statement.spending import worst_path
from privacy.test_conversions import losses_of, steps_of
from proofs import check
from secagg.test_protocol_model import BROUGHT_BACK, FEW, MORE, MOST, VIEWS, Conformance
from studies.kept import WORK
from studies.planned import some_rows
from support.audited_methods import CANARIES, audit_network, methods
from support.protocol_model import MODES, SOUND, World, search
from support.worlds import TIMES, TWO, VALUE

RESULTS = WORK / "audit"
DELTAS = (0.0, 1e-6)
FIELDS = ("what", "dp_model", "delta", "state", "claimed", "white_box", "one_run", "charge")
FIELDS += ("noise", "numbers", "seconds", "path", "mechanism", "plan", "before", "lost")
MODELS = ("central", "distributed", "per_site")
SELECTING: dict[str, tuple[str, Any, int]] = {
    "MedianForestClassifier": ("MedianForest", hr.MedianForestClassifier, 1),
    'TopDownTreeClassifier(split="choice")': (
        "TopDown by choice",
        partial(hr.TopDownTreeClassifier, split="choice"),
        1,
    ),
    "MultiwayForestClassifier": ("MultiwayForest", hr.MultiwayForestClassifier, 1),
    "papers.wang.single_machine_rnm": (
        "SingleMachine RNM",
        hr.papers.wang.single_machine_rnm,
        1,
    ),
    "papers.wang.local_rnm": ("", hr.papers.wang.local_rnm, 3),
    "papers.consul.diprime_flip": ("DiPriMeFlip", hr.papers.consul.diprime_flip, 1),
    "papers.consul.diprime_exp": ("", hr.papers.consul.diprime_exp, 1),
}
"""Methods that select under delta > 0: their name in the study of AUC, how they are made, sites."""
SEARCHES = {
    "states of rounds in two exchanges": [("in two", w, False) for w in (*FEW, *MORE, *MOST)],
    "of sites that are named different participants": [("in two", w, True) for w in VIEWS],
    "of rounds in one exchange": [("at once", w, False) for w in (*FEW, *MORE, *MOST)],
    "of machines that are rolled back": [("rolled back", w, False) for w in BROUGHT_BACK],
}
CONFORMANCE = "questions to the real site, all answered as the model allows"
WORLDS = [World(3, 1, 2), World(3, 1, 3), World(4, 1, 3), World(4, 2, 3), World(5, 2, 4)]
RESTARTS = [
    {"restart": restart, "witnesses": n}
    for restart, n in ((False, 0), (True, 0), (True, 1), (True, 2))
]
UNSPENT_SETS, UNSPENT_FITS = ("adult", "bank", "credit_default", "higgs_18k"), 10
UNSPENT_EPSILONS = (0.5, 2.0, 8.0)


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
    pairs = product(estimators_named("all").items(), MODELS, DELTAS)
    for (name, kind), dp_model, delta in pairs:
        yield from _new("audit.csv", name, kind, dp_model, delta)
        if (dp_model, delta) == ("per_site", DELTAS[-1]):
            yield from _new("audit.csv", name, kind, "label", 0.0)


def paths() -> Iterator[dict[str, object]]:
    """What else may be done with records, and a run over a network; loss over charge of each."""
    known = _known(RESULTS / "audit_paths.csv")
    for (name, kind), dp_model in product(estimators_named("all").items(), MODELS):
        if (name, dp_model, str(DELTAS[1])) in known:
            continue
        head = {"what": name, "dp_model": dp_model, "delta": DELTAS[1]}
        verdicts = {**_paths(kind, dp_model), **_network(name, dp_model)}
        for path, (lost, is_sound) in verdicts.items():
            state = "below" if is_sound else "above"
            yield {**head, "state": state, "path": path, "charge": round(lost, 3)}


def _paths(kind: EstimatorMaker, dp_model: str) -> dict[str, tuple[float, bool]]:
    try:
        verdict = audit_estimator(kind, dp_model, paths=True, n_rows=60, canaries=1)
    except (ParameterError, UnsupportedQuery):
        return {}
    return {name: (one.lost_fraction, not one.problems) for name, one in verdict.paths.items()}


def _network(name: str, dp_model: str) -> dict[str, tuple[float, bool]]:
    """Three sites with stores and signed, masked messages; one in four records held out."""
    kind = getattr(hr, name)
    schema = TIMES if getattr(kind, "_survival", False) else VALUE if kind._regression else TWO
    terms = {"dp_model": dp_model, "epsilon": "8", "schema": schema, "hold_out": 4}
    with tempfile.TemporaryDirectory() as folder:
        try:
            verdict = audit_network(Path(folder), model=f'estimator = "{name}"', **terms)
        except (ParameterError, UnsupportedQuery):
            return {}
    most = max(one.at_least for one in verdict.kinds)
    return {"run over a network": (most, verdict.is_sound)}


def plans() -> Iterator[dict[str, object]]:
    """Selections under delta > 0: the steps of a path with as many of them as there can be."""
    known = _known(RESULTS / "plans.csv")
    for name, (study_name, make, sites) in SELECTING.items():
        if (name, study_name, "1e-06") not in known:
            yield {"what": name, "dp_model": study_name, "delta": DELTAS[1], **_plan(make, sites)}


@contextmanager
def _servers() -> Iterator[list[Server]]:
    """The coordinators of all fits inside."""
    servers, plain = list[Server](), in_process.open_federation

    def opened(*given: Any) -> Server:
        servers.append(plain(*given))
        return servers[-1]

    with patch.object(in_process, "open_federation", opened):
        yield servers


def _plan(make: Any, sites: int) -> dict[str, object]:
    """At a large epsilon, so that trees grow whole; parts of the budget do not depend on it."""
    schema = hr.Schema(AUDIT_FEATURES, classes=("no", "yes"))
    X, y = _made_up(4000, False, np.random.default_rng(0))
    owner = {} if sites == 1 else {"site": np.arange(4000) % sites}
    with _servers() as servers:
        make(schema, epsilon=100.0, delta=DELTAS[1], random_state=0).fit(X, y, **owner)
    asked, total = servers[0].queries, servers[0].study.spendable
    weighed = [
        replace(q, cost=q.cost / (1 if q.release is None else 10**6), remainder=q.cost)
        for q in asked
    ]
    rounds: dict[int, list[str]] = {}
    for q in sorted(worst_path(weighed), key=lambda q: q.round):
        part = q.remainder / total
        rounds.setdefault(q.round, []).append(f"({part})" if q.release else f"{part}")
    steps = "; ".join(
        ", ".join(_many(word, n) for word, n in Counter(words).items()) for words in rounds.values()
    )
    (mechanism,) = {_named(q.mechanism) for q in asked if q.release is None}
    alone, _, lost = losses_of(steps_of(steps, mechanism), mechanism)
    return {"mechanism": mechanism, "plan": steps, "before": alone, "lost": lost}


def _named(words: str) -> str:
    plain = words.replace("-", " ")
    return next(m.value for m in Mechanism if m.value.replace("_", " ") in plain)


def _many(part: str, n: int) -> str:
    return f"({n}x{part.strip('()')})" if part[0] == "(" else f"{n}x{part}"


def unspent() -> Iterator[dict[str, object]]:
    """Of what the levels of Extra-Trees cost, the part that records in early leaves do not use."""
    known = _known(RESULTS / "unspent.csv")
    for data, epsilon in product(UNSPENT_SETS, UNSPENT_EPSILONS):
        if (data, str(epsilon), str(DELTAS[1])) in known:
            continue
        rows = some_rows(data)
        parts = [_unspent(rows, epsilon, seed) for seed in range(UNSPENT_FITS)]
        head = {"what": data, "dp_model": epsilon, "delta": DELTAS[1]}
        yield {**head, "numbers": len(rows.y), "lost": round(float(np.mean(parts)), 4)}


def checks() -> Iterator[dict[str, object]]:
    """What `make proofs` and the model of the secure sum count, for docs/proofs/evidence.md."""
    known = {what for what, *_ in _known(RESULTS / "checks.csv")}
    if "theorems" not in known:
        lines = [line.partition(":")[0] for line in check.check()]
        seconds = round(getrusage(RUSAGE_CHILDREN).ru_utime)
        words = r"(\d+) ([A-Za-z][A-Za-z ]*?)(?=,| in | of the|$)"
        for number, what in re.findall(words, "\n".join(lines), re.MULTILINE):
            yield {"what": what, "numbers": number, "seconds": seconds}
    for words, searches in SEARCHES.items():
        if words not in known:
            start = time.process_time()
            found = [search(MODES[mode](world, SOUND, views)) for mode, world, views in searches]
            assert all(one.whole for one in found)
            seconds = round(time.process_time() - start, 1)
            yield {"what": words, "numbers": sum(one.states for one in found), "seconds": seconds}
    if CONFORMANCE not in known:
        start = time.process_time()
        asked = [
            *(Conformance(w).differences(**how) for w in WORLDS[:2] for how in RESTARTS),
            *(Conformance(w).differences() for w in WORLDS[2:]),
        ]
        assert not any(wrong for _, wrong in asked)
        seconds = round(time.process_time() - start, 1)
        yield {"what": CONFORMANCE, "numbers": sum(n for n, _ in asked), "seconds": seconds}


def _unspent(rows: Any, epsilon: float, seed: int) -> float:
    model = hr.ExtraTreesClassifier(rows.schema, epsilon=epsilon, random_state=seed)
    with _servers() as servers:
        model.fit(rows.X, rows.y)
    levels = sum("both sides" in q.phrase.pattern for q in servers[0].queries)
    codes, trees = encode(rows.X, model.schema_).codes, model.model_.score.trees
    depth = [np.array([len(r) for r in tree.regions()])[tree.apply(codes)] for tree in trees]
    return (levels / len(trees) - float(np.mean(depth))) / NOISY["max_depth"]


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
    append("audit_paths.csv", paths())
    append("plans.csv", plans())
    append("unspent.csv", unspent())
    append("checks.csv", checks())
    append("audit_papers.csv", papers())
