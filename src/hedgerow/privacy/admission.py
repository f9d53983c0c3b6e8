"""Admission: the checks that a site makes on a bundle of queries before it reads any row.

`reason_against(study, bundle)` returns the reason for a refusal, or None. It never raises and
depends on the study and the queries alone. Types must be exact, numbers finite and in range, names
and grids those of the schema, and the noise must be drawable, so that no row can make an admitted
and charged query fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from hedgerow.errors import HedgerowError, UnsupportedQuery
from hedgerow.models.layers import Layer, NodeTests
from hedgerow.models.losses import (
    FirstOrder,
    LogLoss,
    Loss,
    OddsLoss,
    PlainLogLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from hedgerow.models.tree import Tree
from hedgerow.models.validation import Strict
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.bundles import MOST_CANDIDATES, MOST_INTEGERS, MOST_QUERIES
from hedgerow.privacy.pricing import Priced, once_a_query, priced
from hedgerow.privacy.queries import (
    GROUPINGS,
    STATISTICS,
    CurveNewton,
    Groups,
    Query,
    Statistic,
    Summed,
    SumQuery,
    SurfaceGradients,
    kind_of,
)
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Split, Step

MAX_FRACTION_DIGITS = 10**64
LARGEST_CLAMPED = 1 << 51
"""Below this bound the clamp of a record's integers is exact in floating point."""


@lru_cache(maxsize=8)
def _strict(statistics: tuple[type, ...], groupings: tuple[type, ...]) -> Strict:
    """A checker for the statistics and groupings that are registered now."""
    losses = LogLoss, PlainLogLoss, SoftmaxLoss, SquaredLoss, FirstOrder, OddsLoss
    return Strict(
        kinds={Statistic: statistics, Groups: groupings, Loss: losses},
        # these check themselves when built
        opaque=(Tree, Layer, NodeTests, Split, Fold, HeldOut, Step),
    )


def admit(study: Study, bundle: Sequence[Query]) -> list[Priced]:
    """The bundle with its prices; raises UnsupportedQuery if a site must not answer it."""
    reason = reason_against(study, bundle)
    if reason is not None:
        raise UnsupportedQuery(f"{reason}; this method did not declare such a query.")
    return [priced(study, query) for query in bundle]


def reason_against(study: Study, bundle: Sequence[Query]) -> str | None:
    """Why a site must not answer this bundle, for its own log; None if it may."""
    if not 0 < len(bundle) <= MOST_QUERIES:
        return f"{len(bundle)} queries in one bundle; 1 to {MOST_QUERIES} are allowed"
    reasons = (_reason_against_one(study, query) for query in bundle)
    if (reason := next(filter(None, reasons), None)) is not None:
        return reason
    size = sum(priced(study, query).size for query in bundle)
    return f"more than {MOST_INTEGERS} integers" if size > MOST_INTEGERS else None


@once_a_query
def _reason_against_one(study: Study, query: Query) -> str | None:
    return (
        _strict(tuple(STATISTICS.values()), tuple(GROUPINGS.values())).fields(query)
        or _of_no_part(study, query)
        or _reason_undeclared(study, query)
        or query.incompatibility(study.schema)
        or _bad_fraction(query.fraction)
        or _bad_remainder(study, query)
        or _too_many(query)
        or _beyond_the_clamp(study, query)
        or _cannot_be_priced(study, query)
    )


def _of_no_part(study: Study, query: Query) -> str | None:
    """Requires that a query is about training records or about held-out records, not both."""
    part, within = (
        (query.region[:1], query.region[1:]) if study.held_out_test else ((), query.region)
    )
    if part not in (study.trained_on, study.held_out if study.held_out_test else EVERYONE):
        return "a query does not say whether it is of records that are held out"
    if any(isinstance(step.test, HeldOut) for step in within):
        return "a region names the draw that holds records out where it may not"
    return None


def _reason_undeclared(study: Study, query: Query) -> str | None:
    """Requires that the study's method declares this kind of query for these records."""
    kind = kind_of(query)
    is_held_out = study.is_held_out(query.region)
    if kind in (study.asks_held_out if is_held_out else study.admitted):
        return None
    return f"{study.method!r} never asks {kind}{' of records held out' if is_held_out else ''}"


def _bad_fraction(fraction: Fraction) -> str | None:
    if not 0 < fraction.numerator <= fraction.denominator < MAX_FRACTION_DIGITS:
        return "a fraction of the budget is not between 0 and 1, or has too many digits"
    return None


def _bad_remainder(study: Study, query: Query) -> str | None:
    if isinstance(query, Summed) or query.remainder == 0:
        return None
    if study.measure is Measure.PURE or query.remainder < 0:
        return "a remainder of the budget means nothing here"
    return _bad_fraction(query.fraction + query.remainder)


def _too_many(query: Query) -> str | None:
    many = not isinstance(query, Summed) and query.n_candidates > MOST_CANDIDATES
    return f"more than {MOST_CANDIDATES} candidates" if many else None


def _beyond_the_clamp(study: Study, query: Query) -> str | None:
    if not isinstance(query, SumQuery) or not query.statistic.is_fractional:
        return None
    unit, statistic = study.unit(query), query.statistic
    if isinstance(statistic, CurveNewton):
        too_large = unit**2 * (2 * statistic.dimension + 20) >= LARGEST_CLAMPED
    elif isinstance(statistic, SurfaceGradients):  # its L1 norm is not clamped
        too_large = statistic.bound(unit).l2_squared >= LARGEST_CLAMPED
    else:
        bound = statistic.bound(unit)
        norms = bound.l1, bound.l2_squared, statistic.channels * bound.linf**2
        too_large = max(norms) >= LARGEST_CLAMPED
    return "a record's vector is too long for its unit" if too_large else None


def _cannot_be_priced(study: Study, query: Query) -> str | None:
    """Requires that cost and noise can be computed: DP models and samplers have public limits."""
    try:
        price = priced(study, query)
        if not isinstance(query, Summed) and math.isfinite(price.charge.cost):
            study.selection_epsilon(query)
    except (HedgerowError, OverflowError, ArithmeticError) as error:
        return str(error)
    return None
