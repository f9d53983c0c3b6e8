"""Public facts about the data: features, ranges, categories, classes, the target's bound.

Everything here is declared by people. Values that were read from rows carry a `Mark` and are not
public until a person confirms them. All other facts about the data are private.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.schema import formats
from hedgerow.schema.features import (
    LABEL,
    MAX_VALUES,
    Categorical,
    Feature,
    Hashed,
    Mark,
    Numeric,
    Spacing,
    Survival,
    Target,
    distinct_values,
    require_list,
)
from hedgerow.schema.formats import (
    CLASSES,
    MARKS,
    check_keys,
    feature_of,
    mark_of,
    parsed_toml,
    plain_value,
    spec_entries,
    survival_of,
    target_of,
    toml_of,
    words_of_mark,
)
from hedgerow.schema.grids import ColumnKind, Grid, canonical_bytes, codes_of
from hedgerow.schema.parsers import Parser
from hedgerow.schema.rules import Problems
from hedgerow.schema.tokens import Token, spell, token_of

__all__ = [
    "MAX_VALUES",
    "Categorical",
    "ColumnKind",
    "Feature",
    "Grid",
    "Hashed",
    "Mark",
    "Numeric",
    "Schema",
    "Spacing",
    "Survival",
    "Target",
]

MAX_CLASSES = 255
WHOLE = {"feature", "classes", "classes_parse", "classes_missing", "target", "survival"}
WHOLE |= {CLASSES + word for word in MARKS}


@dataclass(frozen=True, repr=False, init=False)
class Schema:
    """The public schema, on which all sites agree before any row is read.

    Give `classes` for classification, `target` for regression, `survival` for time to an event
    (stored as a target of signed times), and none of them for features alone. Features may be a
    mapping, {"age": (0, 110), "ward": ["north", "south"]}: a pair is a range, a list names values,
    and `float`, `bool` and `str` leave open what is not known in public. A target may be a pair
    too.

    `classes_parse` and `classes_missing` declare how labels are written and which words mean that
    there is none, like `parse` and `missing` of a feature or a target. `classes` are texts.
    `label_type` is the type in which they were listed (bool, int or str; whole floats are ints),
    and `labels` are the classes in that type: what a classifier predicts.
    """

    features: tuple[Feature, ...]
    classes: tuple[str, ...] | None = None
    target: Target | None = None
    classes_mark: Mark | None = field(default=None, compare=False)
    label_type: type = field(default=str, compare=False)
    classes_parse: Parser | None = None
    classes_missing: tuple[str, ...] = ()

    def __init__(
        self,
        features: Mapping[str, Any] | Iterable[Feature],
        classes: Iterable[Any] | None = None,
        target: Target | tuple[float, float] | None = None,
        classes_mark: Mark | None = None,
        label_type: type | None = None,
        survival: Survival | None = None,
        classes_parse: Parser | str | Mapping[str, Any] | None = None,
        classes_missing: Iterable[Any] = (),
    ) -> None:
        parts = _settled(
            _makers(features),
            partial(_outcome_of, target, survival, _target_of, partial(_of_kind, "survival")),
            classes,
            (classes_parse, classes_missing),
            lambda: classes_mark,
            label_type,
        )
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def __repr__(self) -> str:
        """One line, for an estimator's parameters; `to_toml` gives everything."""
        count = len(self.features)
        parts = [f"{count} feature{'s' if count > 1 else ''}: {_some([*map(repr, self.names)], 3)}"]
        if self.classes is not None:
            parts.append(f"classes: {_some([*map(repr, self.classes)], 3)}")
        if self.survival is not None:
            parts.append(f"time to {self.survival.event!r} up to {self.survival.horizon:g}")
        elif self.target is not None:
            parts.append(f"target: {self.target.low!r} to {self.target.high!r}")
        return f"Schema({'; '.join(parts)})"

    @property
    def survival(self) -> Survival | None:
        """The target, if it is the time to an event."""
        return self.target if isinstance(self.target, Survival) else None

    def label_columns(self, target: str) -> tuple[str, ...]:
        """The columns of a source that hold labels; one of them is `target`."""
        return (target,) if self.survival is None else self.survival.columns

    @cached_property
    def label_grids(self) -> tuple[Grid, ...]:
        """How each of the label columns is read."""
        if self.target is not None:
            return self.target.grids
        reads: dict[str, Any] = {"parse": self.classes_parse, "missing": self.classes_missing}
        return (Categorical(LABEL, self.classes or (LABEL,), other=False, **reads).grid,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that features are read from, each once."""
        return tuple(dict.fromkeys(grid.source for grid in self.grids))

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """For each feature the position of its column in `columns`."""
        return tuple(self.columns.index(grid.source) for grid in self.grids)

    @cached_property
    def grids(self) -> tuple[Grid, ...]:
        return tuple(feature.grid for feature in self.features)

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each feature, by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _code_of_class(self) -> dict[Token, int]:
        return codes_of(self.classes or ())

    @property
    def labels(self) -> tuple[str | int | bool, ...]:
        """The classes in the type in which they were listed."""
        return tuple(LABEL_READERS[self.label_type](text) for text in self.classes or ())

    def with_sorted_classes(self) -> Schema:
        """The same schema with the classes in the order of their labels, as in scikit-learn."""
        if self.classes is None:
            return self
        places = sorted(range(len(self.classes)), key=self.labels.__getitem__)
        return replace(self, classes=tuple(self.classes[place] for place in places))

    def index(self, name: str) -> int:
        """The position of a column, which is also the row of its codes."""
        if name not in self.places:
            raise ParameterError(
                f"column {name!r} is not in the schema; it has {list(self.names)}."
            )
        return self.places[name]

    def class_code(self, token: Token) -> int | None:
        """The code of a label's token; None if there is no such class."""
        return self._code_of_class.get(token)

    def with_grid(self, bins: int | None = None, spacing: Spacing | None = None) -> Schema:
        """The same columns with a new grid for every numeric one; explicit edges are replaced.

        A column without a known range keeps its logarithmic grid: uniform cells would be useless.
        """
        changes: dict[str, Any] = {"bins": bins, "spacing": spacing}
        options = {key: value for key, value in changes.items() if value is not None}
        if not options:
            return self
        features = (
            replace(feature, edges=None, **options)
            if isinstance(feature, Numeric) and not feature.is_open
            else feature
            for feature in self.features
        )
        return replace(self, features=tuple(features))

    @property
    def without_parsers(self) -> Schema:
        """The same features, each read from its own column of parsed values."""
        plain = (replace(f, column=None, parse=None, missing=()) for f in self.features)
        target = None if self.target is None else replace(self.target, parse=None, missing=())
        reads: dict[str, Any] = {"classes_parse": None, "classes_missing": ()}
        return replace(self, features=tuple(plain), target=target, **reads)

    @property
    def marks(self) -> dict[str, Mark]:
        """Marks of the parts that were read from rows: columns, the classes, the target."""
        part_marks = {f"column {f.name!r}": f.mark for f in self.features}
        part_marks["the classes"] = self.classes_mark
        part_marks["the target"] = None if self.target is None else self.target.mark
        return {part: mark for part, mark in part_marks.items() if mark is not None}

    @property
    def unconfirmed(self) -> list[str]:
        """Parts that were read from rows and not confirmed; with any there is no guarantee."""
        return [part for part, mark in self.marks.items() if mark.is_open]

    def with_mark(self, mark: Mark | None) -> Schema:
        """The same schema with one mark on all its parts."""
        return replace(
            self,
            features=tuple(replace(feature, mark=mark) for feature in self.features),
            classes_mark=None if self.classes is None else mark,
            target=None if self.target is None else replace(self.target, mark=mark),
        )

    @property
    def provenance(self) -> str:
        """The origin of the schema, in one line for a statement."""
        if self.unconfirmed:
            return f"inferred from the rows: {_some(self.unconfirmed)} (digest {self.digest[:16]})"
        words = "given: public ranges, categories and classes"
        people = sorted({f"{m.confirmed_by} on {m.confirmed_on}" for m in self.marks.values()})
        if people:
            words = f"given: drafted from rows, confirmed as public by {_some(people)}"
        open_columns = [f.name for f in self.features if isinstance(f, Numeric) and f.is_open]
        if open_columns:
            words += (
                f"; no range is declared for {_some(open_columns)}: private counts find their bins"
            )
        return f"{words} (digest {self.digest[:16]})"

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """Hash of the whole schema; sites compare it before they join.

        Classes enter as texts, so the type in which a file lists them does not matter.
        """
        content = self.to_dict()
        if self.classes is not None:
            content["classes"] = list(self.classes)
        return hashlib.sha256(canonical_bytes(["schema 1", content])).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The canonical form: every entry, floats as their exact shortest text."""
        content: dict[str, Any] = {}
        if self.classes is not None:
            content["classes"] = list(self.labels)
            content |= words_of_mark(self.classes_mark, CLASSES)
            reads = {"classes_parse": self.classes_parse, "classes_missing": self.classes_missing}
            content |= {entry: plain_value(value) for entry, value in reads.items() if value}
        if self.target is not None:
            kind = "target" if self.survival is None else "survival"
            content[kind] = spec_entries(self.target)
        return {**content, "feature": [spec_entries(feature) for feature in self.features]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """Builds a schema from a mapping with the entries of a schema file."""
        features = content.get("feature") if isinstance(content, Mapping) else None
        if not isinstance(features, list):
            check_keys("the schema", content, {"feature"}, WHOLE)
            raise ParameterError(
                "the schema's features are no list; write a [[feature]] per column."
            )
        outcomes = content.get("target"), content.get("survival")
        names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in features]
        parts = _settled(
            list(zip(names, (partial(feature_of, entry) for entry in features), strict=True)),
            partial(_outcome_of, *outcomes, target_of, survival_of),
            content.get("classes"),
            (content.get("classes_parse"), content.get("classes_missing", ())),
            lambda: mark_of("the classes", content, CLASSES),
            check=lambda: check_keys("the schema", content, {"feature"}, WHOLE),
        )
        return cls(**parts)

    def to_toml(self) -> str:
        """The text of a schema file, for `from_toml`."""
        return toml_of(self.to_dict())

    @classmethod
    def from_toml(cls, source: str | Path) -> Schema:
        """Reads a file (a Path, or a string that ends in .toml) or the text itself."""
        return cls.from_dict(parsed_toml(source))

    @classmethod
    def from_table_schema(cls, source: Mapping[str, Any], target: str | None = None) -> Schema:
        """Converts a Frictionless Table Schema, whose constraints are the public facts."""
        return cls.from_dict(formats.of_table_schema(source, target))

    @classmethod
    def from_json_schema(cls, source: Mapping[str, Any], target: str | None = None) -> Schema:
        """Converts a JSON Schema of one record with `minimum`, `maximum` and `enum`."""
        return cls.from_dict(formats.of_json_schema(source, target))

    @classmethod
    def from_arrow(cls, source: Any, target: str | None = None) -> Schema:
        """Converts an Arrow schema whose fields have `minimum`, `maximum` or `enum` in metadata."""
        return cls.from_dict(formats.of_arrow(source, target))


def _settled(
    features: Sequence[tuple[object, Callable[[], Feature]]],
    target: Callable[[], Target | None],
    classes: object,
    reads: tuple[Any, Any],
    mark: Callable[[], Mark | None],
    label_type: type | None = None,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The parts of a schema; all problems are reported at once.

    `features` has the name of each, if it has one, and `reads` the parser and sentinels of labels.
    """
    problems = Problems()
    problems.past(check)
    made_features = tuple(problems.past(make) for _, make in features)
    if not features:
        problems.messages.append("the schema has no features; declare at least one column.")
    times = Counter(name for name, _ in features if isinstance(name, str))
    problems.messages += [
        f"column {name!r} is declared {n} times; keep one." for name, n in times.items() if n > 1
    ]
    outcome = problems.past(target)
    settle = partial(_settle_classes, classes, label_type)
    texts, label_type = problems.past(settle) or (None, str)
    parse, missing = problems.past(partial(_settle_reading, texts, *reads)) or (None, ())
    classes_mark = problems.past(mark)
    if texts is not None and outcome is not None:
        problems.messages.append(
            "the schema has classes and a target; keep `classes` for classification or "
            "`target` for regression."
        )
    if isinstance(outcome, Survival):
        named = {name for name, _ in features} & set(outcome.columns)
        problems.messages += [
            f"column {name!r} is a feature and part of the outcome; keep one."
            for name in sorted(map(str, named))
        ]
    problems.tell()
    return {
        "features": made_features,
        "classes": texts,
        "target": outcome,
        "classes_mark": classes_mark,
        "label_type": label_type,
        "classes_parse": parse,
        "classes_missing": missing,
    }


def _settle_classes(
    class_list: object, label_type: type | None
) -> tuple[tuple[str, ...] | None, type]:
    """The texts of the classes, and the type of the labels."""
    if class_list is None:
        return None, str
    values = list(require_list("the schema", "classes", class_list))
    classes = distinct_values("the schema", "classes", values)
    if not 2 <= len(classes) <= MAX_CLASSES:
        raise ParameterError(
            f"the schema has {len(classes)} class(es), {list(classes[:3])}; list 2 to "
            f"{MAX_CLASSES}, also those that some sites never meet."
        )
    if label_type is None:
        return classes, _type_of_labels(values)
    return classes, label_type if all(_prints(label_type, text) for text in classes) else str


def _settle_reading(
    classes: tuple[str, ...] | None, parse: Any, missing: Any
) -> tuple[Any, tuple[Any, ...]]:
    """The parser and sentinels of labels, by the rules of a categorical column."""
    if parse is None and not missing:
        return None, ()
    if classes is None:
        raise ParameterError("classes_parse and classes_missing need classes; list them, too.")
    column = Categorical(LABEL, classes, parse=parse, missing=missing)
    return column.parse, column.missing


def _type_of_labels(values: list[Any]) -> type:
    """Bool or int if all labels are of that type; else str."""
    if all(isinstance(value, bool | np.bool_) for value in values):
        return bool
    is_whole = all(_is_number(value) and float(value).is_integer() for value in values)
    return int if is_whole else str


def _prints(kind: type, text: str) -> bool:
    """Whether a value of that type is spelled like this text."""
    try:
        return spell(LABEL_READERS[kind](text)) == text
    except ValueError:
        return False


LABEL_READERS: dict[type, Callable[[str], str | int | bool]] = {
    bool: lambda text: token_of(text) == "1",
    int: lambda text: int(text),
    str: lambda text: text,
}


def _makers(
    declarations: Mapping[str, Any] | Iterable[Feature],
) -> list[tuple[object, Callable[[], Feature]]]:
    """Constructors of features, from a mapping or from a list of features."""
    if isinstance(declarations, Mapping):
        return [
            (name, partial(_feature_named, name, declaration))
            for name, declaration in declarations.items()
        ]
    features = require_list("the schema", "features", declarations)
    return [
        (getattr(feature, "name", None), partial(_of_kind, "a feature", feature))
        for feature in features
    ]


def _feature_named(name: str, declaration: Any) -> Feature:
    if isinstance(declaration, Feature):
        return replace(declaration, name=name)
    if (
        isinstance(declaration, tuple)
        and len(declaration) == 2
        and all(_is_number(end) for end in declaration)
    ):
        return Numeric(name, *declaration)
    if isinstance(declaration, list):
        return Categorical(name, tuple(declaration))
    if declaration is float:
        return Numeric.open(name)
    if declaration is bool:
        return Categorical(name, ("False", "True"))
    if declaration is str:
        return Hashed(name)
    raise ParameterError(
        f"column {name!r} is {declaration!r}; give a pair (low, high), a list of values, `float`, "
        "`bool` or `str` if no more is known in public, or a feature such as hedgerow.Hashed."
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


SCHEMA_KINDS: dict[str, tuple[type, ...]] = {
    "a feature": (Numeric, Categorical, Hashed),
    "the target": (Target,),
    "survival": (Survival,),
}


def _of_kind(subject: str, value: Any) -> Any:
    if not isinstance(value, SCHEMA_KINDS[subject]):
        names = " or ".join(f"hedgerow.{kind.__name__}" for kind in SCHEMA_KINDS[subject])
        raise ParameterError(f"{subject} of the schema is {value!r}; use {names}.")
    return value


Maker = Callable[[Any], Target | None]


def _outcome_of(target: Any, survival: Any, of_target: Maker, of_survival: Maker) -> Target | None:
    """The outcome from a schema's arguments, or from the tables of its file."""
    if target is not None and survival is not None:
        raise ParameterError("the schema has a target and survival; keep the one to be predicted.")
    if survival is not None:
        return of_survival(survival)
    return None if target is None else of_target(target)


def _target_of(target: Any) -> Any:
    if not isinstance(target, tuple):
        return _of_kind("the target", target)
    if len(target) != 2:
        raise ParameterError(f"the target is {target!r}; give a pair (low, high).")
    return Target(*target)


def _some(names: Sequence[str], shown: int = 4) -> str:
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")
