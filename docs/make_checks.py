"""`python docs/make_checks.py [NAME...]` writes docs/checks.csv: scikit-learn's checks.

`make docs` makes the page of it. With names, only their lines are made anew; some estimators take
minutes. Each is taken at its defaults but for a large epsilon, so that noise is there and small.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.utils.estimator_checks import check_estimator

from hedgerow.methods.base import COMPARING, expected_failed_checks
from hedgerow.methods.registry import estimators
from hedgerow.methods.survival import SurvivalBoostedTrees

FILE = Path(__file__).with_name("checks.csv")
COLUMNS = ("estimator", "passed", "skipped by scikit-learn", "expected", "failed")
EPSILON = 1e5
NOT_RUN = "not run yet"
HEAD = f"""# scikit-learn's own checks

For data scientists who put our estimators into pipelines and searches.

Made by `python docs/make_checks.py` with scikit-learn {sklearn.__version__}: `check_estimator` on
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
    with FILE.open(newline="", encoding="utf-8") as lines:
        known = {line["estimator"]: line for line in csv.DictReader(lines)}
    untried = dict.fromkeys(COLUMNS, "") | {"failed": NOT_RUN}
    return [known.get(name, untried | {"estimator": name}) for name in estimators()]


def keep(lines: list[dict[str, str]]) -> None:
    with FILE.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def page() -> str:
    lines = [[f"`{line['estimator']}`", *(line[c] for c in COLUMNS[1:])] for line in kept()]
    rows = [COLUMNS, ["---"] * len(COLUMNS), *lines]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


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
