"""From a messy file to a model: drafted, reviewed, fitted, beside one on hand-cleaned columns."""

from __future__ import annotations

import csv
import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import hedgerow as hr
from hedgerow.cli.review import OUTCOME, mark_reviewed
from hedgerow.data.reading.encoding import encode
from hedgerow.data.schema_draft import diagnose
from hedgerow.methods.files import predict_file

HEADER = (
    "record_id patient Alter income utilisation admitted diagnosis balance bmi smoker size note"
)
FIRST = datetime.date(2014, 1, 1)
DAYS = [FIRST + datetime.timedelta(k) for k in range(3650)]
GERMAN = [day.strftime("%d.%m.%Y") for day in DAYS]
MONTHS = np.array([day.month for day in DAYS])
NOTES = ["ok", 'said "fine"', "seen\ntwice", "a; b, c", "né"]


def german(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def write_messy(path: Path, n: int, seed: int) -> tuple[Any, Any]:
    """A file of semicolons, Windows-1252, euros, percent, German dates, sentinels and line breaks;
    returned are the same columns as a person would clean them by hand, and the labels.
    """
    rng = np.random.default_rng(seed)
    age, day = rng.integers(18, 90, n), rng.integers(0, len(DAYS), n)
    income, balance = (
        np.round(np.exp(rng.normal(10.3, 0.6, n)), 2),
        np.round(rng.gamma(2, 900, n), 2),
    )
    share, bmi = (
        np.round(rng.beta(2, 3, n) * 100, 1),
        np.round(rng.normal(27, 5, n).clip(14, 60), 1),
    )
    code = rng.integers(0, 5, n)
    codes = np.array(["E11.9", "I21.4", "I50.0", "J44.1", "Z00.0"])
    smokes, size = rng.random(n) < 0.3, rng.choice([0.5, 1.2, 2.3, 7.5, 12], n)
    score = 0.03 * (age - 50) - 0.5 * np.log(income / 30000) + 0.02 * (share - 40) - 1.2
    score += 0.6 * np.isin(code, [1, 2]) + 0.5 * smokes + 0.04 * (bmi - 27)
    score += 0.35 * np.isin(MONTHS[day], [12, 1, 2]) - 0.00015 * (day - 1800) + 1e-4 * balance
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    no_income, no_share, no_bmi = (rng.random(n) < part for part in (0.05, 0.03, 0.06))
    rows = zip(
        (f"R{k:07d}" for k in rng.permutation(n)),
        rng.integers(0, n // 3, n),
        age,
        (
            "unbekannt" if no else f"{german(v)} EUR"
            for v, no in zip(income, no_income, strict=True)
        ),
        (
            "-999" if no else f"{v} %".replace(".", ",")
            for v, no in zip(share, no_share, strict=True)
        ),
        (GERMAN[k] for k in day),
        codes[code],
        map(german, balance),
        ("-999" if no else str(v).replace(".", ",") for v, no in zip(bmi, no_bmi, strict=True)),
        np.where(smokes, "Yes", "No"),
        (f"{v:g}k" for v in size),
        rng.choice(NOTES, n),
        y,
        strict=True,
    )
    with path.open("w", encoding="cp1252", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow([*HEADER.split(), "outcome"])
        writer.writerows(rows)
    blank = (
        np.where(gone, np.nan, v)
        for v, gone in ((income, no_income), (share, no_share), (bmi, no_bmi))
    )
    return np.column_stack([age, *blank, day, MONTHS[day], code, balance, smokes, size]), y


UNSOURCED = ("utilisation", "bmi", "diagnosis", "smoker", "note", OUTCOME)
"""Columns for whose ranges or categories a draft knows no source: a person names one."""


def drafted(path: Path) -> hr.Schema:
    """A draft whose ranges a person has typed, with the month of the date as a second feature."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagnosis = diagnose(path, "outcome")
    assert {f.name for f in diagnosis.findings if f.feature is None} == {"record_id", "patient"}
    answers: dict[str, Any] = {f.name: {"source": f.source} for f in diagnosis.findings if f.source}
    answers |= {name: {"source": "the form"} for name in UNSOURCED}
    answers |= {"income": {"value": "0 300000"}, "balance": {"value": "0 20000"}}
    answers |= {"admitted": {"value": "16000 20000"}, "size": {"value": "0 15000"}}
    schema = mark_reviewed(diagnosis.schema, answers, "A. Huber", "2026-01-31")
    assert schema.unconfirmed == []
    month = hr.Numeric(
        "month",
        1,
        13,
        bins=12,
        column="admitted",
        parse={"kind": "date", "part": "month", "format": "%d.%m.%Y"},
    )
    return hr.Schema((*schema.features, month), classes=schema.classes)


def auc_of_both(folder: Path, n: int, **privacy: Any) -> tuple[float, float]:
    X, y = write_messy(folder / "train.csv", n, 0)
    X_test, y_test = write_messy(folder / "test.csv", min(n, 50_000), 1)
    schema = drafted(folder / "train.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = hr.BoostedTreesClassifier(schema, random_state=0, **privacy)
        model.fit(folder / "train.csv", target="outcome")
        private = predict_file(model, folder / "test.csv")[0][:, 1]
    cleaned = HistGradientBoostingClassifier(random_state=0).fit(X, y).predict_proba(X_test)
    return (
        float(roc_auc_score(y_test == "yes", private)),
        float(roc_auc_score(y_test == "yes", cleaned[:, 1])),
    )


def test_a_messy_file_becomes_a_model_nearly_as_good_as_one_on_clean_columns(tmp_path) -> None:
    """Without noise, so that a column that is misread would be seen, and the same each time."""
    private, cleaned = auc_of_both(tmp_path, 20_000, dp_model="none")
    assert cleaned > 0.71
    assert private > cleaned - 0.01


def test_a_column_that_is_misread_costs_quality(tmp_path, monkeypatch) -> None:
    """Negative control: without parsers the same draft reads hardly anything."""
    _, y = write_messy(tmp_path / "train.csv", 2_000, 0)
    schema = drafted(tmp_path / "train.csv").without_parsers
    plain = hr.Schema(schema.features[:-1], classes=schema.classes)
    rows = encode(tmp_path / "train.csv", plain, target="outcome")
    assert all(rows.unknown[name] == rows.n for name in ("admitted", "size"))
    assert len(y) == rows.n


@pytest.mark.slow
def test_a_million_messy_rows_become_a_model_at_epsilon_one(tmp_path) -> None:
    private, cleaned = auc_of_both(tmp_path, 1_000_000, epsilon=1.0)
    assert private > cleaned - 0.01
