"""What leaves a site in one round: sums with its noise, and its choices.

A round message names queries only; noise and charge follow from the approved study (pricing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby
from operator import itemgetter

import numpy as np

from hedgerow.data.prepared import StudyRows
from hedgerow.data.scoring import scores_by
from hedgerow.errors import UnsupportedQuery
from hedgerow.kernels.noise import invert
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.mechanisms import sampling, selection
from hedgerow.privacy.mechanisms.randomness import SecretRandomness
from hedgerow.privacy.pricing import Noise, Priced
from hedgerow.privacy.queries import LabelReports, Mechanism, Selecting, Summed, SumQuery
from hedgerow.schema.arrays import IntArray


@dataclass(frozen=True)
class Response:
    """One integer vector, and one index per selection."""

    vector: IntArray
    picks: tuple[int, ...]

    @property
    def summed(self) -> IntArray:
        """A round of selections alone still sums one zero, so that it is opened like any other."""
        return self.vector if len(self.vector) else np.zeros(1, np.int64)


def respond(rows: StudyRows, asked: Sequence[Priced], secret: SecretRandomness) -> Response:
    """After the charge: the whole answer, or none and never one again.

    Admission leaves no way to fail that depends on a row, and kernels leave out a record that
    they cannot place. Should there be one all the same, it must not be asked for twice.
    Noise is drawn whole, before rows are touched, for every coordinate of every site.
    """
    rows.require_open()
    summed = [one.noise for one in asked if one.noise is not None]
    try:
        noise = drawn(summed, secret)
        if rows.permanent is None:
            exact = rows.sums.integers_of_all([one.query for one in summed], rows.study.unit)
        else:  # labels are told in bits: every question gets a report of its own
            exact = [_told(rows, one, secret) for one in summed]
        parts = [x * one.refinement + z for one, x, z in zip(summed, exact, noise, strict=True)]
        queries = (one.query for one in asked)
        picks = tuple(_pick(rows, q, secret) for q in queries if not isinstance(q, Summed))
    except Exception as error:
        raise rows.closed_by(error) from error
    return Response(np.concatenate(parts) if parts else np.zeros(0, np.int64), picks)


def drawn(summed: Sequence[Noise], secret: SecretRandomness) -> list[IntArray]:
    """The noise of each query; those in a row that have one law draw together."""
    sized = [(one.of_site, one.size) for one in summed]
    found = list[IntArray]()
    for law, alike in groupby(sized, key=itemgetter(0)):
        ends = list(accumulate(size for _, size in alike))
        together = sampling.draw(law, ends[-1], secret, invert=invert)
        found += np.split(together, ends[:-1])
    return found


def _told(rows: StudyRows, one: Noise, secret: SecretRandomness) -> IntArray:
    query = one.query
    if isinstance(query, SumQuery) and isinstance(query.statistic, LabelReports):
        return rows.sums.integers_of(query, _reports(rows, secret))
    return rows.sums.integers(query, one.unit)


def _reports(rows: StudyRows, secret: SecretRandomness) -> IntArray:
    """(n, bits + 1) an instant report of each record's permanent bits, and 1 for itself."""
    if rows.permanent is None or rows.study.label_reports is None:
        raise UnsupportedQuery("label reports were asked where labels are not told in bits.")
    bits = rows.study.label_reports.instant(rows.permanent, secret).astype(np.int64)
    return np.concatenate([bits, np.ones((len(bits), 1), np.int64)], axis=1)


def _pick(rows: StudyRows, query: Selecting, secret: SecretRandomness) -> int:
    study = rows.study
    exact = scores_by(query, rows.sums.tables, study.schema)
    if study.placement is Placement.NOWHERE:
        return int(np.argmax(exact))
    coefficient = study.selection_epsilon(query) / (query.scoring.reach * study.records_per_person)
    return MECHANISMS[query.mechanism](exact, coefficient, secret)


MECHANISMS: dict[Mechanism, Callable[[IntArray, Fraction, SecretRandomness], int]] = {
    Mechanism.EXPONENTIAL: selection.exponential,
    Mechanism.PERMUTE_AND_FLIP: selection.permute_and_flip,
    Mechanism.REPORT_NOISY_MAX: selection.report_noisy_max,
}
