"""An estimator's docstring in numpydoc: its own words, then parameters and attributes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

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
