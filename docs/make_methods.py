"""Pages about methods: all parameters, all tuned numbers, scikit-learn's checks of estimators.

`make docs` makes them. `python -m docs.make_methods [NAME...]` runs scikit-learn's checks
and writes docs/checks.csv: with names, only their lines; some estimators take minutes.
Each is taken at its defaults but for a large epsilon, so that noise is there and small.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import sklearn
from sklearn.utils.estimator_checks import check_estimator

from hedgerow.methods.base import COMPARING, expected_failed_checks
from hedgerow.methods.constants import CHOSEN
from hedgerow.methods.parameters import DeclaredParameter, declared_parameters
from hedgerow.methods.plan import OWN_METHODS
from hedgerow.methods.registry import estimators
from hedgerow.methods.survival import SurvivalBoostedTrees

# --------------------------------------------------------------------------------------------------
# The page of all parameters, from the estimators' declarations; made when the site is built.
PARAMETERS_HEAD = """# Parameters

For data scientists. Made from the declarations in `src/hedgerow/methods`.

A cell holds the default of the parameter in that family, and nothing where the family has no such
parameter. A *c* marks what only the classifier has, an *r* what only the regressor has. One word
means one thing in all of them. What each value does: `help(hedgerow.TreeClassifier)` and so on. A
parameter that the chosen method would not use raises.
"""


def parameters_page() -> str:
    stems = [name.removesuffix("Classifier").removesuffix("Regressor") for name in estimators()]
    known = {family: _parameters(family) for family in dict.fromkeys([*OWN_METHODS, *stems])}
    rows = [_row(name, known) for name in _names(known)]
    lines = [_line("parameter", *known, "what it is"), _line(*["---"] * (len(known) + 2))]
    return "\n".join([PARAMETERS_HEAD, *lines, *rows]) + "\n"


def _parameters(family: str) -> dict[str, tuple[DeclaredParameter, str]]:
    """By name: the declaration, and the mark of what only one of two estimators has."""
    classifier, regressor = (
        {p.name: p for p in declared_parameters(kind)}
        if (kind := estimators().get(family + task))
        else {}
        for task in ("" if family in estimators() else "Classifier", "Regressor")
    )
    if not (classifier and regressor):
        return {name: (p, "") for name, p in (classifier | regressor).items()}
    of_classes = {n: (p, _mark(p, regressor.get(n))) for n, p in classifier.items()}
    return of_classes | {n: (p, " *r*") for n, p in regressor.items() if n not in classifier}


def _mark(ours: DeclaredParameter, other: DeclaredParameter | None) -> str:
    if other is None:
        return " *c*"
    return "" if other.default == ours.default else f" *c*, {other.default!r} *r*"


def _names(known: dict[str, dict[str, Any]]) -> list[str]:
    """Those of most families first, in the order of their first declaration."""
    names = dict.fromkeys(name for family in known.values() for name in family)
    return sorted(names, key=lambda name: -sum(name in family for family in known.values()))


def _row(name: str, known: dict[str, dict[str, tuple[DeclaredParameter, str]]]) -> str:
    cells, words = [], ""
    for family in known.values():
        found, mark = family.get(name, (None, ""))
        cells.append(f"{found.default!r}{mark}" if found else "")
        words = words or (_first_words(found.text) if found else "")
    return _line(f"`{name}`", *cells, words)


def _first_words(text: str) -> str:
    return re.split(r"[.;] ", text, maxsplit=1)[0].rstrip(".").replace("|", "\\|")


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


# --------------------------------------------------------------------------------------------------
# The page of all tuned numbers, read from the calls of `constant`; made when the site is built.
ROOT = Path(__file__).parents[1]
METHODS = ROOT / "src/hedgerow/methods"
NOTES = "studies/notes/"
CONSTANTS_HEAD = """# Tuned numbers

For researchers who ask where a number comes from. Made from the calls of `constant` in
`src/hedgerow/methods`.

A note (`studies/notes`) beside a number names it or tells what it decides; whether the number was
varied, the note says. A number without a note was chosen, not measured.

| name | value | what it is | evidence |
|---|---|---|---|
"""


class Constant(NamedTuple):
    """One call of `constant`, with the sentence below it if there is one."""

    file: str
    name: str
    value: str
    unit: str
    evidence: str

    @property
    def source(self) -> str:
        """The file that the evidence stands in, from the root of the repository."""
        constants_page = self.evidence.partition("#")[0]
        return constants_page if constants_page.startswith("docs/") else NOTES + constants_page


def constants() -> Iterator[Constant]:
    for path in sorted(METHODS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        body = ast.parse(text).body
        for node, below in zip_longest(body, body[1:]):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                    if ast.unparse(call.func) != "constant":
                        continue
                    words = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
                    value, file = ast.unparse(call.args[0]), str(path.relative_to(METHODS))
                    unit = _sentence(below) or words["unit"]
                    unit = unit[0].upper() + unit[1:].rstrip(".")
                    yield Constant(file, name, value, unit, words.get("evidence", CHOSEN))


def _sentence(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return ""


def constants_page() -> str:
    rows, file = [], ""
    for one in constants():
        if one.file != file:
            rows.append(f"| **{one.file}** | | | |")
        file = one.file
        rows.append(f"| `{one.name}` | {one.value} | {one.unit} | {one.evidence} |")
    return CONSTANTS_HEAD + "\n".join(rows) + "\n"


# --------------------------------------------------------------------------------------------------
# scikit-learn's checks: the table that is kept, and the page of it.
CHECKS = Path(__file__).with_name("checks.csv")
COLUMNS = ("estimator", "passed", "skipped by scikit-learn", "expected", "failed")
EPSILON = 1e5
NOT_RUN = "not run yet"
CHECKS_HEAD = f"""# scikit-learn's own checks

For data scientists who put our estimators into pipelines and searches.

Made by `python -m docs.make_methods` with scikit-learn {sklearn.__version__}: `check_estimator` on
each estimator at its defaults and epsilon {EPSILON:g}, on a schema that is read from the rows.

{len(COMPARING)} checks compare the predictions of two fits, and noise is drawn anew for each:
{", ".join(f"`{name}`" for name in COMPARING)}.
They may fail, and whether they do is chance; *expected* names those that did. What
`hedgerow.methods.base.expected_failed_checks(model)` gives is for `check_estimator`.
Without noise (`dp_model="none"`) every estimator passes every check;
`tests/methods/test_estimators.py` runs both.

* Of `SurvivalBoostedTrees` labels become times of events, since the checks know no structured `y`.
* `set_output` is for transformers, and these are none: `predict` and `predict_proba` are arrays.
* `predict_log_proba` is the logarithm of `predict_proba`; `decision_function` is of two classes the
  log-odds of the second, of more the logarithm of each.
* `classes_` are sorted, in the type in which the schema lists them (booleans, whole numbers or
  texts): labels never change it. So list `classes=(0, 1)` for numbers and `("0", "1")` for texts.
* Meta-estimators (voting, stacking, bagging, `cross_val_predict`) hand over labels as codes, 0 to
  k - 1 in the order of the sorted classes. They are read so, and predicted so, where the schema's
  own classes are no such numbers. Classes such as 1 and 2 look like codes: list
  `classes=range(2)` there, and the meta-estimator gives your labels back. All labels are codes, or
  none is.
* A ColumnTransformer's `num__age` is read as the schema's `age`, if no other column can be meant.
* skops, and MLflow with `skops_trusted_types`, need to trust one type: that of the estimator.
* `sample_weight` and `class_weight` are refused with their reason: a weight would scale one
  record's influence beyond the bound that its noise was made for.
* Metadata routing: `site`, `sites` and `person` are one value a row or a list of names. A
  pipeline or a search hands them on once asked to:
  `sklearn.set_config(enable_metadata_routing=True)` and
  `model.set_fit_request(site=True, sites=True, person=True)`.

"""


class TimedByLabels(SurvivalBoostedTrees):
    """Labels that the checks make up become times of events: they know no structured `y`."""

    def fit(self, X: Any, y: Any = None, **more: Any) -> Self:
        return super().fit(X, y if y is None else _times(y), **more)

    def score(self, X: Any, y: Any) -> float:
        return super().score(X, _times(y))


def _times(labels: Any) -> Any:
    """One time above zero for each distinct label, in their order."""
    places = np.unique(np.asarray(labels).ravel(), return_inverse=True)[1]
    return np.array([(True, place + 1.0) for place in places], [("event", "?"), ("time", "f8")])


def main() -> None:
    for name in sys.argv[1:] or estimators():
        line = line_of(name)
        print(line, file=sys.stderr, flush=True)
        keep([line if known["estimator"] == name else known for known in kept()])


def kept() -> list[dict[str, str]]:
    """A line for every estimator there is, whether it was tried or not."""
    with CHECKS.open(newline="", encoding="utf-8") as lines:
        known = {line["estimator"]: line for line in csv.DictReader(lines)}
    untried = dict.fromkeys(COLUMNS, "") | {"failed": NOT_RUN}
    return [known.get(name, untried | {"estimator": name}) for name in estimators()]


def keep(lines: list[dict[str, str]]) -> None:
    with CHECKS.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def checks_page() -> str:
    lines = [[f"`{line['estimator']}`", *(line[c] for c in COLUMNS[1:])] for line in kept()]
    rows = [COLUMNS, ["---"] * len(COLUMNS), *lines]
    return CHECKS_HEAD + "".join(_line(*row) + "\n" for row in rows)


def line_of(name: str) -> dict[str, str]:
    kind = estimators()[name]
    model = (TimedByLabels if kind is SurvivalBoostedTrees else kind)(epsilon=EPSILON)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            model, expected_failed_checks=expected_failed_checks(model), on_fail=None
        )
    found: dict[str, list[Any]] = defaultdict(list)
    for result in results:
        found[result["status"]].append(result)
    cells = [
        name,
        str(len(found["passed"])),
        str(len(found["skipped"])),
        ", ".join(dict.fromkeys(result["check_name"] for result in found["xfail"])) or "none",
        ", ".join(f"{r['check_name']} ({_reason(r)})" for r in found["failed"]) or "none",
    ]
    return dict(zip(COLUMNS, cells, strict=True))


def _reason(result: dict[str, Any]) -> str:
    words = str(result["exception"]).strip() or type(result["exception"]).__name__
    return words.splitlines()[0][:80].replace("|", "/")


if __name__ == "__main__":
    main()
