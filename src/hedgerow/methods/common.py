"""Parameters of every estimator; those of a study are the entries of its declaration."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from hedgerow.methods.constants import constant
from hedgerow.methods.ledger import as_ledger
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.privacy.declaration import STUDY
from hedgerow.schema import rules
from hedgerow.schema.schema import Schema

DEFAULT_DELTA = constant(1e-6, unit="delta", evidence="docs/design/budget.md")
"""Delta if none is given."""

PRIVATE = "private"
LEDGER = rules.Rule("str, Path or Ledger", "a path or a hedgerow.Ledger", as_ledger)


def _of_study(name: str, default: Any = None) -> Any:
    """An entry of the study's declaration; None is derived from the other parameters."""
    entry = STUDY[name]
    rule = rules.or_none(entry.rule) if default is None else entry.rule
    return parameter(default=default, rule=rule, text=entry.text)


@estimator
class CommonParameters(BaseEstimator):  # type: ignore[misc]
    """The guarantee, where noise is added, and the public randomness."""

    schema: Schema | str | None = parameter(
        default=None,
        kw_only=False,
        rule=rules.or_none(rules.either(rules.a(Schema), rules.one_of({PRIVATE: PRIVATE}))),
        text="Public facts: ranges, categories, classes; see docs/schema.md. 'private' takes types "
        "from a typed table and finds bins by private counts. None reads everything from the rows "
        "and warns: the statement then says that epsilon is infinite.",
    )
    epsilon: float = parameter(
        default=1.0, kw_only=False, rule=STUDY["epsilon"].rule, text=STUDY["epsilon"].text
    )
    delta: float = parameter(
        default=DEFAULT_DELTA, kw_only=False, rule=STUDY["delta"].rule, text=STUDY["delta"].text
    )
    dp_model: str | None = _of_study("dp_model")
    colluders: int | None = _of_study("colluders")
    threshold: int | None = _of_study("threshold")
    records_per_person: int = _of_study("records_per_person", 1)
    hold_out: int | None = _of_study("hold_out")
    ledger: Any = parameter(
        default=None,
        rule=rules.or_none(LEDGER),
        text="A ledger that adds up all fits that name it: its path, or hedgerow.Ledger with a "
        "limit, beyond which a fit is refused. The statement then includes the total. None counts "
        "this fit alone.",
    )
    random_state: Any = parameter(
        default=None,
        rule=rules.anything("int, RandomState or None"),
        text="Public randomness only: feature draws and random cuts. It never influences the "
        "noise.",
    )
    n_jobs: int | None = parameter(
        default=None,
        rule=rules.or_none(rules.THREADS),
        text="Threads for reading rows, for blocks of a site's rows and for the sites of one "
        "process; None is 1, -1 is all processors. Results do not depend on it.",
    )
    progress: bool = parameter(
        default=False, rule=rules.FLAG, text="Whether to show a progress bar on the terminal."
    )
