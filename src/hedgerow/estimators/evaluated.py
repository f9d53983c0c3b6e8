"""What an evaluation says of each model: measures with intervals, and what was promised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hedgerow.coordinator.statement import PrivacyStatement
from hedgerow.learning.evaluation import CalibrationBin, EstimatedMeasure
from hedgerow.values.notebook import html_table


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
    """What the query gave of each model: over all records, or one part for each group."""

    parts: tuple[tuple[Measured, ...], ...]
    confidence: float
    privacy_: PrivacyStatement
    chosen: Any

    def __getitem__(self, name: str) -> EstimatedMeasure:
        """A measure of the first model over all records, or over its first group."""
        return self.parts[0][0][name]

    @property
    def groups(self) -> dict[str, Measured]:
        """Of the first model, by the cells of the column `by`."""
        return {one.group: one for one in self.parts[0]}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "confidence": self.confidence,
            "models": [[_plain(one) for one in part] for part in self.parts],
            "privacy": self.privacy_.to_dict(),
        }

    def __repr__(self) -> str:
        return f"Evaluation({_main(self.parts[0][0])}, {self.privacy_.promise})"

    def _repr_html_(self) -> str:
        lines = [
            (f"model {k + 1}", one.group, name, str(value))
            for k, part in enumerate(self.parts)
            for one in part
            for name, value in one.measures.items()
        ]
        return html_table(repr(self), lines)

    def __str__(self) -> str:
        lines = [f"Evaluation, {self.privacy_.promise}; {self.confidence:.0%} intervals"]
        for k, part in enumerate(self.parts):
            lines += [f"model {k + 1}"] if len(self.parts) > 1 else []
            for one in (one for one in part if one.is_told or len(part) == 1):
                lines += [f"  {one.group}"] if len(part) > 1 else []
                lines += [f"    {name:<24} {value}" for name, value in one.measures.items()]
        return "\n".join(lines)


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


def _numbers(value: EstimatedMeasure) -> list[float | None]:
    found = (value.value, value.low, value.high)
    return [number if abs(number) < float("inf") else None for number in found]
