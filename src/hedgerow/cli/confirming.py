"""One question for each value of a schema that was read from rows."""

from __future__ import annotations

from dataclasses import replace

import typer

from hedgerow.errors import SpecError
from hedgerow.values.schema import Feature, Hashed, Mark, Numeric, Schema, Target

LEAVE_OPEN = "-"


def confirmed(schema: Schema, mark: Mark) -> Schema:
    """The schema with this mark on all that the person at the keyboard says is public."""
    features = tuple(_feature(feature, mark) for feature in schema.features)
    return _outcome(replace(schema, features=features), mark)


def _is_open(mark: Mark | None) -> bool:
    return mark is not None and mark.is_open


def _feature(feature: Feature, mark: Mark) -> Feature:
    said = _asked(feature.name, _shown(feature)) if _is_open(feature.mark) else LEAVE_OPEN
    if said == LEAVE_OPEN:
        return feature
    agreed = replace(feature, mark=mark)
    if not said:
        return agreed
    if isinstance(agreed, Numeric):
        low, high = _pair(said)
        return replace(agreed, low=low, high=high)
    if isinstance(agreed, Hashed):
        return replace(agreed, buckets=_whole(said))
    return replace(agreed, values=_listed(said))


def _outcome(schema: Schema, mark: Mark) -> Schema:
    """The classes, or the range of the target."""
    if schema.classes is not None and _is_open(schema.classes_mark):
        said = _asked("classes", ", ".join(schema.classes))
        if said == LEAVE_OPEN:
            return schema
        classes = _listed(said) if said else schema.classes
        return replace(schema, classes=classes, classes_mark=mark)
    target = schema.target
    if target is not None and _is_open(target.mark):
        said = _asked("target", _range(target))
        if said == LEAVE_OPEN:
            return schema
        low, high = _pair(said) if said else (target.low, target.high)
        return replace(schema, target=replace(target, low=low, high=high, mark=mark))
    return schema


def _shown(feature: Feature) -> str:
    if isinstance(feature, Numeric):
        return _range(feature)
    if isinstance(feature, Hashed):
        return f"{feature.buckets} buckets"
    return ", ".join(feature.values)  # all of them: nobody confirms what is not shown


def _range(bound: Numeric | Target) -> str:
    """Both ends with every digit that they have."""
    return " to ".join(repr(end).removesuffix(".0") for end in (bound.low, bound.high))


def _asked(name: str, shown: str) -> str:
    return str(typer.prompt(f"{name}: {shown}", default="", show_default=False)).strip()


def _pair(said: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in said.replace(",", " ").split())
    except ValueError:
        raise SpecError(f"{said!r} is no range; give two numbers, such as 0 110.") from None
    return low, high


def _whole(said: str) -> int:
    if not said.isdigit():
        raise SpecError(f"{said!r} is no number of buckets; give a whole number.")
    return int(said)


def _listed(said: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in said.split(","))
