"""The result of `hedgerow.evaluate`: measures of a model as a private, charged answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.statement.wording import dp_model_words
from hedgerow.report.importances import importances
from hedgerow.report.measures import CalibrationBin, EstimatedMeasure
from hedgerow.schema.visible import html_table

ALL_GROUPS = "all"
"""The name of all groups together."""


HIDDEN_BY_NOISE = "too few records for this epsilon: no result"


@dataclass(frozen=True)
class Measured:
    """The measures of one model on one group of records."""

    group: str
    measures: dict[str, EstimatedMeasure]
    calibration: tuple[CalibrationBin, ...]

    def __getitem__(self, name: str) -> EstimatedMeasure:
        return self.measures[name]

    @property
    def is_told(self) -> bool:
        """Whether the measures exceed the noise."""
        return not any(math.isnan(measure.value) for measure in self.measures.values())


@dataclass(frozen=True)
class Evaluation:
    """The measures of each model: over all records, then for each group."""

    parts: tuple[tuple[Measured, ...], ...]
    confidence: float
    privacy_: PrivacyStatement
    digests: tuple[str, ...]
    """The score digest of each model."""
    chosen: Any = None
    names: tuple[str, ...] = ()
    """Names of the models, if given; like `chosen`, not saved."""
    classes: tuple[str, ...] = ()
    """Classes of the schema; empty for regression."""

    @property
    def chosen_name(self) -> str:
        """The name of `chosen`, among `names`."""
        return self._title(self.digests.index(self.chosen.model_.score.digest))

    def _title(self, k: int) -> str:
        return self.names[k] if self.names else f"model {k + 1}"

    def of(self, digest: str) -> Evaluation:
        """The measures of one model, without the others of the same query."""
        if digest not in self.digests:
            raise ParameterError(
                "this evaluation is of another model; evaluate this one, or load the model that "
                "was evaluated."
            )
        at = self.digests.index(digest)
        part, classes = (self.parts[at],), self.classes
        return Evaluation(part, self.confidence, self.privacy_, (digest,), classes=classes)

    def __getitem__(self, name: str) -> EstimatedMeasure:
        """A measure of the first model over all records."""
        return self.parts[0][0][name]

    @property
    def groups(self) -> dict[str, Measured]:
        """The measures of the first model, by the cells of the column `by`."""
        return {own.group: own for own in self.parts[0] if own.group != ALL_GROUPS}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "confidence": self.confidence,
            "models": [[_plain(group_measures) for group_measures in part] for part in self.parts],
            "digests": list(self.digests),
            "classes": list(self.classes),
            "privacy": self.privacy_.to_dict(),
        }

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Evaluation:
        """The evaluation that `to_dict` serialized."""
        return Evaluation(
            tuple(tuple(map(_read_measures, part)) for part in d["models"]),
            float(d["confidence"]),
            PrivacyStatement.from_dict(d["privacy"]),
            tuple(d["digests"]),
            classes=tuple(d.get("classes", ())),
        )

    def __repr__(self) -> str:
        name, measure = next(iter(self.parts[0][0].measures.items()))
        return f"Evaluation({name} = {measure}, {self.privacy_.summary})"

    def _repr_html_(self) -> str:
        lines = [
            (self._title(k), own.group, name, str(value))
            for k, part in enumerate(self.parts)
            for own in part
            for name, value in own.measures.items()
        ]
        return html_table(repr(self), lines)

    def __str__(self) -> str:
        lines = [f"Evaluation, {self.privacy_.summary}; {self.confidence:.0%} intervals"]
        for k, part in enumerate(self.parts):
            lines += [self._title(k)] if len(self.parts) > 1 else []
            for own in part:
                lines += [f"  {own.group}"] if len(part) > 1 else []
                lines += [
                    f"    {measure_name(name, self.classes):<24} {measure}"
                    for name, measure in (own.measures if own.is_told else {}).items()
                ] or [f"    {HIDDEN_BY_NOISE}"]
        return "\n".join([*lines, *(self._calibration() if len(self.parts) == 1 else [])])

    def _calibration(self) -> list[str]:
        """Lines of predicted against observed probability, over all records."""
        bins = [b for b in self.parts[0][0].calibration if not math.isnan(b.share.value)]
        of = f"of {self.classes[1]}" if len(self.classes) == 2 else "of the predicted class"
        if "grouped_c_index" in self.parts[0][0].measures:
            of = "of an event half-way, by groups of risk"
        lines = [f"  calibration: predicted probability {of}, observed share"] if bins else []
        for b in bins:
            interval = f"{b.low:.3f}" if b.low == b.high else f"{b.low:g} to {b.high:g}"
            lines.append(f"    {interval:<24} {b.share}")
        return lines


def measure_name(name: str, classes: Sequence[str]) -> str:
    """The measure's name for people, with its class."""
    is_share = name == "share_of_second_class" and len(classes) == 2
    return f'share of "{classes[1]}"' if is_share else name


def _plain(group_measures: Measured) -> dict[str, Any]:
    return {
        "group": group_measures.group,
        "measures": {name: _numbers(value) for name, value in group_measures.measures.items()},
        "calibration": [
            {"low": b.low, "high": b.high, "records": b.records, "share": _numbers(b.share)}
            for b in group_measures.calibration
        ],
    }


def _read_measures(d: dict[str, Any]) -> Measured:
    bins = tuple(
        CalibrationBin(b["low"], b["high"], b["records"], _estimate(b["share"]))
        for b in d["calibration"]
    )
    measures = {name: _estimate(value) for name, value in d["measures"].items()}
    return Measured(d["group"], measures, bins)


def _numbers(value: EstimatedMeasure) -> list[float | None]:
    numbers = (value.value, value.low, value.high)
    return [number if abs(number) < float("inf") else None for number in numbers]


def _estimate(numbers: list[float | None]) -> EstimatedMeasure:
    value, low, high = (math.nan if number is None else float(number) for number in numbers)
    return EstimatedMeasure(value, low, high)


def kept_evaluation(model: Any) -> Evaluation | None:
    """The evaluation stored with a model, if it is of this very model: a new fit drops it."""
    evaluation: Evaluation | None = getattr(model, "evaluation_", None)
    is_own = evaluation is not None and evaluation.digests == (model.model_.score.digest,)
    return evaluation if is_own else None


# Models side by side: their guarantees, quality and importances.

MOST_LOOKS = 10
"""Number of importances in a comparison."""


@dataclass(frozen=True)
class Comparison:
    """Models side by side: their statements, evaluations and importances."""

    names: tuple[str, ...]
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    """A title, and the text for each model."""

    def to_frame(self) -> Any:
        """A pandas data frame with one column per model."""
        import pandas as pd

        titles, cells = [title for title, _ in self.lines], [cells for _, cells in self.lines]
        return pd.DataFrame(cells, index=titles, columns=list(self.names))

    def __str__(self) -> str:
        rows = [("", self.names), *self.lines]
        first = max(len(title) for title, _ in rows)
        widths = [max(len(cells[k]) for _, cells in rows) for k in range(len(self.names))]
        return "\n".join(
            f"{title:<{first}}  {'  '.join(map(str.ljust, cells, widths))}".rstrip()
            for title, cells in rows
        )

    def _repr_html_(self) -> str:
        rows = [("", *self.names), *((title, *cells) for title, cells in self.lines)]
        return html_table(f"Comparison of {len(self.names)} models", rows)


def compare_models(*models: Any, names: Sequence[str] = ()) -> Comparison:
    """Compare fitted models: their guarantees, quality and feature importances.

    It reads what the models carry and spends nothing. Measures come from each model's own
    evaluation (`hold_out`, or `keep` of `hedgerow.evaluate`). To compare models on the same records
    by one query, use `hedgerow.evaluate(..., compare_with=...)`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> X, y = [[k] for k in range(40)], [k // 20 for k in range(40)]
    >>> schema = hr.Schema({"x": (0, 40)}, classes=(0, 1))
    >>> fits = [hr.TreeClassifier(schema, epsilon=e, random_state=0).fit(X, y) for e in (1, 3)]
    >>> hr.compare_models(*fits, names=("small", "large")).to_frame().loc["guarantee"].tolist()
    ['epsilon = 1, delta = 1e-6', 'epsilon = 3, delta = 1e-6']

    """
    if len(models) < 2 or (names and len(names) != len(models)):
        raise ParameterError(
            f"{len(models)} model(s) and {len(names)} name(s) were given; give two models or more, "
            "and a name for each or none."
        )
    statements = [model.privacy_ for model in models]
    evaluations = [kept_evaluation(model) for model in models]
    columns: dict[str, Callable[[int], str]] = {
        "estimator": lambda k: type(models[k]).__name__,
        "guarantee": lambda k: statements[k].summary,
        "unit of privacy": lambda k: statements[k].unit,
        "noise": lambda k: dp_model_words(statements[k].dp_model),
        "sites": lambda k: str(statements[k].n_sites),
        "schema": lambda k: statements[k].schema_source,
        "trees": lambda k: str(len(models[k].model_.score.trees)),
    }
    lines = {title: [say(k) for k in range(len(models))] for title, say in columns.items()}
    measures_of_each = [{} if own is None else own.parts[0][0].measures for own in evaluations]
    for measure in dict.fromkeys(name for own in measures_of_each for name in own):
        lines[measure] = [str(own[measure]) if measure in own else "-" for own in measures_of_each]
    if not any(measures_of_each):
        lines["quality"] = ["not evaluated"] * len(models)
    looks = [importances(model) for model in models]
    column_names = sorted({name for own in looks for name in own})
    parts = {name: [own.get(name, 0.0) for own in looks] for name in column_names}
    for name in sorted(parts, key=lambda name: -max(parts[name]))[:MOST_LOOKS]:
        lines[f"looks at {name}"] = [f"{part:.1%}" for part in parts[name]]
    titles = tuple(names) or tuple(f"model {k + 1}" for k in range(len(models)))
    return Comparison(titles, tuple((title, tuple(cells)) for title, cells in lines.items()))
