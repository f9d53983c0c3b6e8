"""An estimator's parameters, each declared once: name, default, rule, words, and when it is used.

    @estimator
    class StumpClassifier(PrivateClassifier):
        leaf_share: float = parameter(default=0.5, rule=SHARE, text="Part of the budget ...")

`@estimator` makes the class a dataclass, so that `__init__` and its signature are written from
the declarations (scikit-learn reads parameters from there, type checkers and editors do too), and
completes the docstring. `checked` gives the values of an instance, once they keep their rules.
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
from typing import Any, Protocol, TypeVar, dataclass_transform

from sklearn.base import BaseEstimator

from hedgerow.errors import SpecError
from hedgerow.schema.rules import Rule, rule_of

# --------------------------------------------------------------------------------------------------
# An estimator's docstring in numpydoc: its own words, then parameters and attributes.

LINE_WIDTH = 92
EXAMPLES = "\nExamples\n--------\n"
ATTRIBUTES = (
    ("schema_", "Schema", "The schema on the grid that the fit used."),
    ("model_", "Model", "The trees, and how their outputs are read."),
    ("privacy_", "PrivacyStatement", "What is promised, to whom, and which round spent what."),
    ("run_", "RunRecord", "Rounds, and the bytes that left and reached a site."),
    ("ledger_", "Ledger", "The charges of the fit; kept in no file."),
    ("n_features_in_", "int", "Columns that the schema declares."),
    ("feature_names_in_", "array of str", "Names of the columns, if rows came as a data frame."),
)
CLASSES_ATTRIBUTE = (
    "classes_",
    "array",
    "The classes, sorted, in the type in which the schema lists them.",
)


class DescribedParameter(Protocol):
    """What is shown of a parameter."""

    @property
    def name(self) -> str: ...
    @property
    def default(self) -> Any: ...
    @property
    def kind(self) -> str: ...
    @property
    def words(self) -> str: ...


def documented(own: str, parameters: Sequence[DescribedParameter], has_classes: bool) -> str:
    story, found, examples = inspect.cleandoc(own).partition(EXAMPLES)
    entries = [(p.name, f"{p.kind}, default={p.default!r}", p.words) for p in parameters]
    attributes = (CLASSES_ATTRIBUTE, *ATTRIBUTES) if has_classes else ATTRIBUTES
    parts = [story.rstrip(), _section("Parameters", entries), _section("Attributes", attributes)]
    return "\n\n".join(parts) + ("\n" + found + examples.rstrip() if found else "") + "\n"


def _section(title: str, entries: Iterable[tuple[str, str, str]]) -> str:
    lines = [title, "-" * len(title)]
    for name, kind, words in entries:
        text = textwrap.fill(words, LINE_WIDTH, break_on_hyphens=False)
        lines += [f"{name} : {kind}", textwrap.indent(text, "    ")]
    return "\n".join(lines)


Default = TypeVar("Default")
E = TypeVar("E")


@dataclass(frozen=True)
class When:
    """Settings under which a parameter is used: each of these others has one of these values."""

    settings: Mapping[str, tuple[Any, ...]]
    words: str = ""

    def holds(self, values: Mapping[str, Any]) -> bool:
        return all(_is_one_of(values[name], some) for name, some in self.settings.items())

    def __str__(self) -> str:
        named = (f"{name}={_listed(some)}" for name, some in self.settings.items())
        return self.words or " and ".join(named)


def when(words: str = "", **settings: Any) -> When:
    """`when(split="best", update=("newton", "gradient"))`; `...` is any value but None."""
    return When({n: v if isinstance(v, tuple) else (v,) for n, v in settings.items()}, words)


def _is_one_of(value: Any, some: tuple[Any, ...]) -> bool:
    return value in some or (... in some and value is not None)


def _listed(some: tuple[Any, ...]) -> str:
    """None is not said beside others: it stands for a default that is among them."""
    said = [value for value in some if value is not None] or [None]
    return " or ".join("..." if value is ... else repr(value) for value in said)


@dataclass(frozen=True)
class Declared:
    """All there is to know of one parameter."""

    name: str
    default: Any
    rule: Rule
    text: str
    used: tuple[When, ...]

    @property
    def kind(self) -> str:
        return self.rule.kind

    @property
    def words(self) -> str:
        used = f" Used with {', or with '.join(map(str, self.used))}." if self.used else ""
        return self.text + used

    def is_used(self, values: Mapping[str, Any]) -> bool:
        return not self.used or any(when.holds(values) for when in self.used)


def parameter(
    *,
    default: Default,
    rule: Rule | None = None,
    text: str,
    used: tuple[When, ...] = (),
    kw_only: bool = True,
) -> Default:
    """Declares a parameter. It must stay at its default unless one of `used` holds, if any.

    A flag and a `Literal` need no rule: their type says it.
    """
    words = {"rule": rule, "text": text, "used": used}
    return field(default=default, kw_only=kw_only, metadata=words)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter,))
def estimator(cls: type[E]) -> type[E]:
    """A dataclass of its parameters; equality and repr stay scikit-learn's."""
    made: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    made.__init__ = _refusing(made.__init__)
    ordered = sorted(fields(made), key=partial(_place, made))
    made._declared = tuple(_declared(made, one) for one in ordered)
    made.__doc__ = documented(cls.__doc__ or "", made._declared, hasattr(made, "predict_proba"))
    return cls


REFUSED_PARAMETERS = {
    "class_weight": "a weight by class would scale a record's influence beyond the bound its noise "
    "was made for, and 'balanced' would read class counts from the rows. Shift predictions "
    "afterwards, which costs nothing: multiply predict_proba by public weights and normalise",
    "sample_weight": "a weight would scale one record's influence beyond the bound its noise was "
    "made for",
}
"""What other estimators take and these must not, with the reason."""


def _refusing(init: Any) -> Any:
    """The same signature; a parameter that is refused for a reason gets that reason."""

    @wraps(init)
    def stored(self: Any, *args: Any, **given: Any) -> None:
        for name in REFUSED_PARAMETERS.keys() & given.keys():
            raise SpecError(f"{name} is refused: {REFUSED_PARAMETERS[name]}.")
        init(self, *args, **given)

    return stored


def declared(kind: Any) -> tuple[Declared, ...]:
    """The promise first, then what is the estimator's own, then what all estimators have."""
    known: tuple[Declared, ...] = kind._declared
    return known


def _place(kind: type, made: Field[Any]) -> tuple[bool, int]:
    """Whether it is no part of the promise, and how far up it was declared first; a method's own
    parameters stand before those of all estimators.
    """
    homes = [i for i, c in enumerate(kind.__mro__) if made.name in get_annotations(c)]
    is_own = not issubclass(kind.__mro__[max(homes)], BaseEstimator)
    return bool(made.kw_only), 0 if is_own else max(homes)


def _declared(kind: type, made: Field[Any]) -> Declared:
    words = dict(made.metadata)
    words["rule"] = words["rule"] or rule_of(_hint(kind, made.name))
    return Declared(name=made.name, default=made.default, **words)


def _hint(kind: type, name: str) -> Any:
    """The type that the parameter was declared with; annotations are texts."""
    home = next(c for c in kind.__mro__ if name in get_annotations(c))
    return eval(get_annotations(home)[name], vars(sys.modules[home.__module__]))


def checked(model: Any) -> SimpleNamespace:
    """The parameters in our own types; the first that is not allowed or not used is an error."""
    known = declared(type(model))
    given = {p.name: getattr(model, p.name) for p in known}
    read = {p.name: p.rule.check(p.name, given[p.name]) for p in known}
    for p in known:
        if not p.is_used(given) and not _is_default(p, given[p.name]):
            _refuse_unused(type(model).__name__, p, given)
    return SimpleNamespace(**read)


def _is_default(p: Declared, value: Any) -> bool:
    return value is p.default or bool(value == p.default)


def _refuse_unused(kind: str, p: Declared, given: Mapping[str, Any]) -> None:
    names = dict.fromkeys(name for when in p.used for name in when.settings)
    found = ", ".join(f"{name}={given[name]!r}" for name in names)
    raise SpecError(
        f"{p.name} is {given[p.name]!r}, but {kind} does not use it with {found}; use it with "
        f"{', or with '.join(map(str, p.used))}; or leave it at {p.default!r}."
    )
