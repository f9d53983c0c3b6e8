"""An estimator's parameters, each declared once: name, default, rule, text, and when it is used.

    @estimator
    class StumpClassifier(PrivateClassifier):
        leaf_fraction: float = parameter(default=0.5, rule=FRACTION, text="Part of the budget ...")

`@estimator` makes the class a dataclass, so that `__init__` and its signature are written from
the declarations (scikit-learn reads parameters from there, type checkers and editors do too), and
completes the docstring. `check_parameters` returns the values of an instance after checking them.
Why: docs/design/methods.md.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import partial, wraps
from inspect import get_annotations
from types import SimpleNamespace
from typing import Any, TypeVar, dataclass_transform

from sklearn.base import BaseEstimator

from hedgerow.errors import ParameterError
from hedgerow.schema.rules import Rule, rule_of

# An estimator's docstring in numpydoc: its own text, then parameters and attributes.

LINE_WIDTH = 92
EXAMPLES = "\nExamples\n--------\n"
ATTRIBUTES = (
    ("schema_", "Schema", "The schema on the grid that the fit used."),
    ("model_", "Model", "The trees, and how their outputs are read."),
    ("privacy_", "PrivacyStatement", "What is guaranteed, to whom, and which round spent what."),
    ("run_", "RunRecord", "Rounds, and the bytes that left and reached a site."),
    ("ledger_", "Ledger", "The charges of the fit; kept in no file."),
    ("n_features_in_", "int", "Columns that the schema reads."),
    ("feature_names_in_", "array of str", "Names of the columns, if rows came as a data frame."),
)
CLASSES_ATTRIBUTE = (
    "classes_",
    "array",
    "The classes, sorted, in the type in which the schema lists them.",
)


def document(own: str, parameters: Sequence[DeclaredParameter], has_classes: bool) -> str:
    story, heading, examples = inspect.cleandoc(own).partition(EXAMPLES)
    entries = [(p.name, f"{p.kind}, default={p.default!r}", p.words) for p in parameters]
    attributes = (CLASSES_ATTRIBUTE, *ATTRIBUTES) if has_classes else ATTRIBUTES
    parts = [story.rstrip(), _section("Parameters", entries), _section("Attributes", attributes)]
    return "\n\n".join(parts) + ("\n" + heading + examples.rstrip() if heading else "") + "\n"


def _section(title: str, entries: Iterable[tuple[str, str, str]]) -> str:
    lines = [title, "-" * len(title)]
    for name, kind, words in entries:
        text = textwrap.fill(words, LINE_WIDTH, break_on_hyphens=False)
        lines += [f"{name} : {kind}", textwrap.indent(text, "    ")]
    return "\n".join(lines)


Default = TypeVar("Default")
_E = TypeVar("_E")


@dataclass(frozen=True)
class When:
    """Settings under which a parameter is used: each of these others has one of these values."""

    settings: Mapping[str, tuple[Any, ...]]
    words: str = ""

    def holds(self, values: Mapping[str, Any]) -> bool:
        return all(
            values[name] in some or (... in some and values[name] is not None)
            for name, some in self.settings.items()
        )

    def __str__(self) -> str:
        """Values joined by "or"; None is omitted beside others, since it stands for one of them."""
        conditions = []
        for name, some in self.settings.items():
            values = [value for value in some if value is not None] or [None]
            words = ("..." if value is ... else repr(value) for value in values)
            conditions.append(f"{name}={' or '.join(words)}")
        return self.words or " and ".join(conditions)


def when(words: str = "", **settings: Any) -> When:
    """`when(split="best", update=("newton", "gradient"))`; `...` is any value but None."""
    return When({n: v if isinstance(v, tuple) else (v,) for n, v in settings.items()}, words)


@dataclass(frozen=True)
class DeclaredParameter:
    """The declaration of one parameter."""

    name: str
    default: Any
    rule: Rule
    text: str
    used_with: tuple[When, ...]

    @property
    def kind(self) -> str:
        return self.rule.kind

    @property
    def words(self) -> str:
        condition = (
            f" Used with {', or with '.join(map(str, self.used_with))}." if self.used_with else ""
        )
        return self.text + condition

    def is_used(self, values: Mapping[str, Any]) -> bool:
        return not self.used_with or any(when.holds(values) for when in self.used_with)


def parameter(
    *,
    default: Default,
    rule: Rule | None = None,
    text: str,
    used_with: tuple[When, ...] = (),
    kw_only: bool = True,
) -> Default:
    """Declares a parameter. It must stay at its default unless one of `used_with` holds, if any.

    A bool and a `Literal` need no rule: their type implies it.
    """
    words = {"rule": rule, "text": text, "used_with": used_with}
    return field(default=default, kw_only=kw_only, metadata=words)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter,))
def estimator(cls: type[_E]) -> type[_E]:
    """Makes the class a dataclass of its parameters; equality and repr stay scikit-learn's."""
    estimator_class: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    estimator_class.__init__ = _refuse_parameters(estimator_class.__init__)
    sorted_fields = sorted(fields(estimator_class), key=partial(_place, estimator_class))
    estimator_class._declarations = tuple(
        _declare(estimator_class, parameter_field) for parameter_field in sorted_fields
    )
    estimator_class.__doc__ = document(
        cls.__doc__ or "", estimator_class._declarations, hasattr(estimator_class, "predict_proba")
    )
    return cls


REFUSED_PARAMETERS = {
    "class_weight": "a weight by class would scale a record's influence beyond the bound its noise "
    "was made for, and 'balanced' would read class counts from the rows. Shift predictions "
    "afterwards, which costs nothing: multiply predict_proba by public weights and normalize",
    "sample_weight": "a weight would scale one record's influence beyond the bound its noise was "
    "made for",
}
"""Parameters of other estimators that are refused here, with the reason."""


def _refuse_parameters(init: Any) -> Any:
    """Wraps `__init__`: refused parameters raise an error with their reason."""

    @wraps(init)
    def store_parameters(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in REFUSED_PARAMETERS.keys() & kwargs.keys():
            raise ParameterError(f"{name} is refused: {REFUSED_PARAMETERS[name]}.")
        init(self, *args, **kwargs)

    return store_parameters


def declared_parameters(kind: Any) -> tuple[DeclaredParameter, ...]:
    """All parameters: the guarantee first, then the estimator's own, then the common ones."""
    parameters: tuple[DeclaredParameter, ...] = kind._declarations
    return parameters


def _place(kind: type, parameter_field: Field[Any]) -> tuple[bool, int]:
    """Sort key: parameters of the guarantee, then a method's own, then the common ones."""
    homes = [i for i, c in enumerate(kind.__mro__) if parameter_field.name in get_annotations(c)]
    is_own = not issubclass(kind.__mro__[max(homes)], BaseEstimator)
    return bool(parameter_field.kw_only), 0 if is_own else max(homes)


def _declare(kind: type, parameter_field: Field[Any]) -> DeclaredParameter:
    name, words = parameter_field.name, dict(parameter_field.metadata)
    if words["rule"] is None:  # that of the type; annotations are strings
        home = next(c for c in kind.__mro__ if name in get_annotations(c))
        hint = eval(get_annotations(home)[name], vars(sys.modules[home.__module__]))
        words["rule"] = rule_of(hint)
    return DeclaredParameter(name=name, default=parameter_field.default, **words)


def check_parameters(model: Any) -> SimpleNamespace:
    """The parameters in internal types; raises for the first that is not allowed or not used."""
    declarations = declared_parameters(type(model))
    values = {p.name: getattr(model, p.name) for p in declarations}
    parameters = {p.name: p.rule.check(p.name, values[p.name]) for p in declarations}
    for p in declarations:
        value = values[p.name]
        if p.is_used(values) or value is p.default or bool(value == p.default):
            continue
        names = dict.fromkeys(name for when in p.used_with for name in when.settings)
        settings = ", ".join(f"{name}={values[name]!r}" for name in names)
        raise ParameterError(
            f"{p.name} is {value!r}, but {type(model).__name__} does not use it with {settings}; "
            f"use it with {', or with '.join(map(str, p.used_with))}; or leave it at {p.default!r}."
        )
    return SimpleNamespace(**parameters)
