"""`hedgerow demo`: a study of five simulated sites in a few seconds."""

from __future__ import annotations

import csv
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hedgerow.cli.console import Force, Json, Quiet, check_output, on_terminal, say_json, show_page
from hedgerow.schema.arrays import Rng
from hedgerow.schema.schema import Schema

if TYPE_CHECKING:
    from rich.console import Console

    from hedgerow.methods.boosting_classes import BoostedTreesClassifier

# Five simulated hospitals that together learn what none can learn alone. The patients are drawn
# at random by the formula below. At this epsilon each hospital alone is too small: its signal is
# below the noise. The sum over all of them is not, and has little more noise than one alone.

SIZES = (1500, 1000, 800, 500, 400)
"""Patients of each hospital."""
HOSPITALS = ("Ahrenfels", "Birkental", "Cella", "Dornbach", "Ebersau")
TEST_PATIENTS = 10_000
DEMO_EPSILON = 1.0
DEMO_SEED = 0
WARDS = ("surgery", "medicine", "heart")
SCHEMA = Schema(
    features={  # as a clinician would declare them
        "age": (0, 110),
        "earlier stays": (0, 20),
        "days in hospital": (0, 90),
        "drugs": (0, 40),
        "creatinine": (0, 10),
        "haemoglobin": (4, 22),
        "diabetes": ["no", "yes"],
        "ward": list(WARDS),
    },
    classes=("stays well", "returns"),
)


@dataclass(frozen=True)
class DemoResult:
    """The federated model, and the test AUC of each way to train."""

    model: BoostedTreesClassifier
    auc: dict[str, float]


def patients(n: int, rng: Rng) -> tuple[Any, Any]:
    """Simulated patients and whether they return: age, illness and earlier stays raise the risk."""
    age = np.clip(rng.normal(62, 16, n), 18, 100).round()
    stays, days = rng.poisson(0.8, n), np.clip(rng.gamma(2, 3, n), 1, 60).round()
    drugs = rng.poisson(5 + age / 25, n)
    creatinine, haemoglobin = np.clip(rng.lognormal(0, 0.4, n), 0.3, 8), rng.normal(13, 2, n)
    diabetes, ward = rng.random(n) < 0.1 + age / 400, rng.choice(WARDS, n, p=[0.4, 0.4, 0.2])
    risk = 1.1 * stays + 1.8 * (age > 75) + 0.1 * np.minimum(days, 20) + 1.8 * (creatinine > 1.5)
    risk += 0.5 * np.maximum(12 - haemoglobin, 0) + 1.2 * diabetes * (drugs > 8) + (ward == "heart")
    returns = rng.random(n) < 1 / (1 + np.exp(4.0 - risk))
    diabetes_words = np.where(diabetes, "yes", "no")
    columns = (age, stays, days, drugs, creatinine, haemoglobin, diabetes_words, ward)
    X = np.stack([column.astype(object) for column in columns], axis=1)
    return X, np.where(returns, "returns", "stays well")


def write_patients(path: Path) -> None:
    """Writes the patients of all hospitals as a table to try out: `hedgerow demo --rows`."""
    X, y = patients(sum(SIZES), np.random.default_rng(DEMO_SEED))
    write_table(path, X, y, hospital=np.repeat(HOSPITALS, SIZES))


def write_table(path: Path, X: Any, y: Any, **first: Any) -> None:
    """Patients as a CSV file, other columns first; numbers have four digits, as in a laboratory."""
    columns = [[v if isinstance(v, str) else f"{v:.4g}" for v in column] for column in X.T]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow([*first, *SCHEMA.names, "outcome"])
        table.writerows(zip(*first.values(), *columns, y, strict=True))


def run_demo(console: Console, show_progress: bool = True) -> DemoResult:
    from hedgerow.report.text import hanging

    rng = np.random.default_rng(DEMO_SEED)
    X, y = patients(sum(SIZES), rng)
    hospital = np.repeat(np.arange(len(SIZES)), SIZES)
    test = patients(TEST_PATIENTS, rng)
    console.print(
        f"[bold]hedgerow[/bold]: {len(SIZES)} simulated hospitals with {min(SIZES)} to "
        f"{max(SIZES)} patients each. Who will be back within a month?\n"
    )
    together = _estimator(show_progress).fit(X, y, site=hospital, sites=range(len(SIZES)))
    result = DemoResult(together, _compare(together, X, y, hospital, test))
    _print_result(console, result, test[0][:1])
    console.print(hanging(str(together.privacy_), console.width))
    run, first = together.run_, together.run_.rounds[0]
    console.print(f"\n[bold]What left each hospital in round {first.number}[/bold]\n")
    for line in first.manifest:
        console.print(f"  {line}")
    console.print(
        f"  {first.integers} integers, noised and masked: {first.bytes_out} bytes out, "
        f"{first.bytes_in} bytes in\n\n{len(run.rounds)} rounds, {run.bytes_per_site} bytes per "
        "hospital."
    )
    return result


def _estimator(progress: bool = False) -> BoostedTreesClassifier:
    from hedgerow.methods.boosting_classes import BoostedTreesClassifier

    return BoostedTreesClassifier(
        SCHEMA, epsilon=DEMO_EPSILON, random_state=DEMO_SEED, progress=progress
    )


ALL_TOGETHER = "all hospitals together, rows stay"
EACH_ALONE = "each hospital alone (mean)"
POOLED = "all rows in one place"
WITHOUT_PRIVACY = "all rows in one place, no privacy"


def _compare(
    together: BoostedTreesClassifier, X: Any, y: Any, hospital: Any, test: tuple[Any, Any]
) -> dict[str, float]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    rows, labels = test[0], test[1] == "returns"

    def auc(model: Any) -> float:
        returns = list(model.classes_).index("returns")
        return float(roc_auc_score(labels, model.predict_proba(rows)[:, returns]))

    alone = [_estimator().fit(X[hospital == k], y[hospital == k]) for k in range(len(SIZES))]
    bare = HistGradientBoostingClassifier(max_iter=60, learning_rate=0.05, random_state=DEMO_SEED)
    bare.fit(_numbers(X), y == "returns")
    return {
        ALL_TOGETHER: auc(together),
        EACH_ALONE: float(np.mean([auc(model) for model in alone])),
        POOLED: auc(_estimator().fit(X, y)),
        WITHOUT_PRIVACY: float(roc_auc_score(labels, bare.predict_proba(_numbers(rows))[:, 1])),
    }


def _numbers(X: Any) -> Any:
    """Numeric columns, with texts encoded by their position in the schema."""
    out = X.copy()
    out[:, 6] = X[:, 6] == "yes"
    out[:, 7] = np.vectorize(WARDS.index)(X[:, 7])
    return out.astype(float)


def _print_result(console: Console, result: DemoResult, patient: Any) -> None:
    """The comparison, what the model depends on, and one patient."""
    from rich.table import Table

    from hedgerow.report.importances import importances
    from hedgerow.report.text import explain, hanging

    table = Table("who trains", "guarantee", "AUC")
    for trainer, auc in result.auc.items():
        guarantee = "none" if trainer == WITHOUT_PRIVACY else f"epsilon {DEMO_EPSILON:g}"
        table.add_row(trainer, guarantee, f"{auc:.3f}")
    console.print(table)
    console.print(
        f"AUC on {TEST_PATIENTS} other patients; noise is fresh, so numbers move a little."
    )
    console.print("\n[bold]What it depends on[/bold]\n")
    for name, part in list(importances(result.model).items())[:5]:
        console.print(f"  {name:<17} {part:4.0%}")
    console.print("\n[bold]One patient[/bold]\n")
    words = explain(result.model, patient)[0]
    console.print(hanging(f"  {words}", console.width), end="\n\n")


def demo(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also save the model to this file.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write the model's report page to this .html file.")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Only write the synthetic patients to this .csv file.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open that page in a browser.")] = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train with five simulated hospitals: federated, alone and pooled."""
    from rich.console import Console

    for path in (output, page, rows):
        if path is not None:
            check_output(path, force=force)
    if rows is not None:
        write_patients(rows)
        return
    shown = Console(quiet=json or quiet, highlight=False)
    result = run_demo(shown, show_progress=on_terminal(quiet or json))
    if output is not None:
        result.model.save(output)
    if page is not None:
        result.model.report(page)
    if show and page is None:
        page = Path(tempfile.mkdtemp(prefix="hedgerow-demo-")) / "report.html"
        result.model.report(page)
    if show:
        show_page(str(page))
    if json:
        say_json({"auc": result.auc, "privacy": result.model.privacy_.to_dict()})
