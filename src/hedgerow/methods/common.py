"""Parameters that every estimator has."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from hedgerow.methods.ledger import as_ledger
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.accounting.conversions import FAILURES, PROMISES, is_delta, is_epsilon
from hedgerow.schema import rules
from hedgerow.schema.schema import Schema

EPSILON = rules.fraction(PROMISES, is_epsilon)
DELTA = rules.fraction(FAILURES, is_delta)
PRIVATE = "private"
DEFAULT_DELTA = 1e-6
DELTA_TEXT = (
    "Probability with which the promise of epsilon may fail; well below 1 / (100 x the largest "
    "number of records there could be). Above 0 noise is discrete Gaussian, which is smaller as "
    "soon as a record takes part in about nine sums, as it does with nine columns or a few levels. "
    "0 is pure differential privacy (discrete Laplace noise); see docs/accounting.md. Under "
    "placement 'label' the default stands for 0."
)
LEDGER = rules.Rule("str, Path or Ledger", "a path or a hedgerow.Ledger", as_ledger)
PLACEMENTS = rules.one_of({p.name.lower(): p for p in Placement})


@estimator
class CommonParameters(BaseEstimator):  # type: ignore[misc]
    """The promise, where noise is added, and what is public randomness."""

    schema: Schema | str | None = parameter(
        default=None,
        kw_only=False,
        rule=rules.or_none(rules.either(rules.a(Schema), rules.one_of({PRIVATE: PRIVATE}))),
        text="Public facts: ranges, categories, classes; see docs/schema.md. 'private' takes types "
        "from a typed table and finds bins by private counts. None reads all from the rows and "
        "warns: the statement then says that epsilon is infinite.",
    )
    epsilon: float = parameter(
        default=1.0,
        kw_only=False,
        rule=EPSILON,
        text="The promise: one record changes the probability of no outcome by more than a factor "
        "of e to this power. Smaller is more private, and noisier.",
    )
    delta: float = parameter(default=DEFAULT_DELTA, kw_only=False, rule=DELTA, text=DELTA_TEXT)
    placement: str | None = parameter(
        default=None,
        rule=rules.or_none(PLACEMENTS),
        text="Where noise is added. 'curator': one holder has all rows and adds all the noise. "
        "'shares': each of several sites adds a part, only the sum is opened, and only the sum is "
        "private. 'silo': each site adds enough for itself, so that its sums would be private "
        "even if they were seen; louder by the number of sites. 'label': each record's label is "
        "told wrongly at random, once and for all; features are not protected. 'nowhere': no "
        "noise and no promise, to see what noise costs. None is 'curator' for one holder and "
        "'shares' for several.",
    )
    colluders: int | None = parameter(
        default=None,
        rule=rules.or_none(rules.whole(1)),
        text="Sites that may put together what they know without breaking the promise; for several "
        "holders. None is a third of them.",
    )
    threshold: int | None = parameter(
        default=None,
        rule=rules.or_none(rules.whole(2)),
        text="The fewest sites whose sum may be opened; for several holders. None allows a fifth "
        "of them to be lost, of two or three nobody.",
    )
    records_per_person: int = parameter(
        default=1,
        rule=rules.whole(1),
        text="How many records one person may have; noise grows in proportion, and the promise is "
        "then one to a person.",
    )
    hold_out: int | None = parameter(
        default=None,
        rule=rules.or_none(rules.whole(2)),
        text="One record in so many is left out of training, drawn by a secret of its holder, for "
        "hedgerow.evaluate to measure the model on. None leaves out nothing.",
    )
    ledger: Any = parameter(
        default=None,
        rule=rules.or_none(LEDGER),
        text="A file in which all fits that name it add up: its path, or hedgerow.Ledger with a "
        "limit, beyond which a fit is refused. The statement then says the total. None counts "
        "this fit alone.",
    )
    random_state: Any = parameter(
        default=None,
        rule=rules.anything("int, RandomState or None"),
        text="Public randomness only: feature draws and random cuts. It never reaches the noise.",
    )
    n_jobs: int | None = parameter(
        default=None,
        rule=rules.or_none(rules.THREADS),
        text="Threads for reading rows, for blocks of a holder's rows and for the sites of one "
        "process; None is 1, -1 is all processors. Nothing that is computed depends on it.",
    )
    progress: bool = parameter(
        default=False, rule=rules.FLAG, text="Whether to draw a progress bar on the terminal."
    )
