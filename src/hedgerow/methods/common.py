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


def _or_none(name: str) -> rules.Rule:
    """The rule, or None for a value derived from the other parameters."""
    return rules.or_none(STUDY[name].rule)


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
    dp_model: str | None = parameter(
        default=None, rule=_or_none("dp_model"), text=STUDY["dp_model"].text
    )
    colluders: int | None = parameter(
        default=None, rule=_or_none("colluders"), text=STUDY["colluders"].text
    )
    threshold: int | None = parameter(
        default=None, rule=_or_none("threshold"), text=STUDY["threshold"].text
    )
    records_per_person: int = parameter(
        default=1, rule=STUDY["records_per_person"].rule, text=STUDY["records_per_person"].text
    )
    hold_out: int | None = parameter(
        default=None, rule=_or_none("hold_out"), text=STUDY["hold_out"].text
    )
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
