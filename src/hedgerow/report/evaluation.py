"""How good a model is, as a paid answer: what `hedgerow.evaluate` gives, and what a model keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import SpecError
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report.measures import CalibrationBin, EstimatedMeasure
from hedgerow.schema.problems import html_table

ALL_GROUPS = "all"
"""What the records of all groups together are called."""


HIDDEN_BY_NOISE = "noise hides these records: nothing can be told"


@dataclass(frozen=True)
class Measured:
    """One model on one group of records."""

    group: str
    measures: dict[str, EstimatedMeasure]
    calibration: tuple[CalibrationBin, ...]

    def __getitem__(self, name: str) -> EstimatedMeasure:
        return self.measures[name]

    @property
    def is_told(self) -> bool:
        """Whether noise left anything to say."""
        return not any(math.isnan(one.value) for one in self.measures.values())


@dataclass(frozen=True)
class Evaluation:
    """What the query gave of each model: over all records, then a part for each group."""

    parts: tuple[tuple[Measured, ...], ...]
    confidence: float
    privacy_: PrivacyStatement
    digests: tuple[str, ...]
    """Which models these are: the digest of each one's score."""
    chosen: Any = None
    names: tuple[str, ...] = ()
    """What the models are called, where somebody said so; like `chosen` it is not kept."""
    classes: tuple[str, ...] = ()
    """Of the schema; without any, a number is predicted."""

    @property
    def chosen_name(self) -> str:
        """Of `chosen`, among `names`."""
        return self._title(self.digests.index(self.chosen.model_.score.digest))

    def _title(self, k: int) -> str:
        return self.names[k] if self.names else f"model {k + 1}"

    def of(self, digest: str) -> Evaluation:
        """What was measured of one model, apart from the others of the same query."""
        if digest not in self.digests:
            raise SpecError(
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
        """Of the first model, by the cells of the column `by`."""
        return {one.group: one for one in self.parts[0] if one.group != ALL_GROUPS}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "confidence": self.confidence,
            "models": [[_plain(one) for one in part] for part in self.parts],
            "digests": list(self.digests),
            "classes": list(self.classes),
            "privacy": self.privacy_.to_dict(),
        }

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Evaluation:
        """From what `to_dict` gave."""
        return Evaluation(
            tuple(tuple(_measured(one) for one in part) for part in d["models"]),
            float(d["confidence"]),
            PrivacyStatement.from_dict(d["privacy"]),
            tuple(d["digests"]),
            classes=tuple(d.get("classes", ())),
        )

    def __repr__(self) -> str:
        return f"Evaluation({_main(self.parts[0][0])}, {self.privacy_.promise})"

    def _repr_html_(self) -> str:
        lines = [
            (self._title(k), one.group, name, str(value))
            for k, part in enumerate(self.parts)
            for one in part
            for name, value in one.measures.items()
        ]
        return html_table(repr(self), lines)

    def __str__(self) -> str:
        lines = [f"Evaluation, {self.privacy_.promise}; {self.confidence:.0%} intervals"]
        for k, part in enumerate(self.parts):
            lines += [self._title(k)] if len(self.parts) > 1 else []
            for one in part:
                lines += [f"  {one.group}"] if len(part) > 1 else []
                lines += self._measures(one)
        return "\n".join([*lines, *(self._calibration() if len(self.parts) == 1 else [])])

    def _measures(self, one: Measured) -> list[str]:
        if not one.is_told:
            return [f"    {HIDDEN_BY_NOISE}"]
        return [f"    {measure_name(n, self.classes):<24} {m}" for n, m in one.measures.items()]

    def _calibration(self) -> list[str]:
        """Of all records: what was said, and what was found among those of whom it was said."""
        bins = [b for b in self.parts[0][0].calibration if not math.isnan(b.share.value)]
        if not bins:
            return []
        what = f"of {self.classes[1]}" if len(self.classes) == 2 else "of the class that is named"
        return [
            f"  probability {what}: said, and found",
            *(f"    {f'{b.low:g} to {b.high:g}':<24} {b.share}" for b in bins),
        ]


def measure_name(name: str, classes: Sequence[str]) -> str:
    """For people: with the class that it is about."""
    is_share = name == "share_of_second_class" and len(classes) == 2
    return f"share of {classes[1]}" if is_share else name


def _main(one: Measured) -> str:
    name = next(iter(one.measures))
    return f"{name} = {one[name]}"


def _plain(one: Measured) -> dict[str, Any]:
    return {
        "group": one.group,
        "measures": {name: _numbers(value) for name, value in one.measures.items()},
        "calibration": [
            {"low": b.low, "high": b.high, "records": b.records, "share": _numbers(b.share)}
            for b in one.calibration
        ],
    }


def _measured(d: dict[str, Any]) -> Measured:
    bins = tuple(
        CalibrationBin(b["low"], b["high"], b["records"], _estimate(b["share"]))
        for b in d["calibration"]
    )
    measures = {name: _estimate(value) for name, value in d["measures"].items()}
    return Measured(d["group"], measures, bins)


def _numbers(value: EstimatedMeasure) -> list[float | None]:
    found = (value.value, value.low, value.high)
    return [number if abs(number) < float("inf") else None for number in found]


def _estimate(told: list[float | None]) -> EstimatedMeasure:
    value, low, high = (math.nan if number is None else float(number) for number in told)
    return EstimatedMeasure(value, low, high)


def kept_evaluation(model: Any) -> Evaluation | None:
    """The evaluation that a model carries, if it is of this very model: a new fit drops it."""
    found: Evaluation | None = getattr(model, "evaluation_", None)
    is_own = found is not None and found.digests == (model.model_.score.digest,)
    return found if is_own else None
