"""A site's own word: what it allows, what it charges, what leaves it.

The site derives sensitivity, noise and charge from the approved study and the query; a round
message names queries only. Refusals go out as constant codes; reasons stay in the site's log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby
from math import prod
from operator import itemgetter

import numpy as np

from hedgerow.data.composite import TRAINED_ON, InParts, answering
from hedgerow.data.engines.engine import AnsweringElsewhere, Elsewhere
from hedgerow.data.rows import Rows
from hedgerow.data.scoring import scores_by
from hedgerow.data.sums import Answering
from hedgerow.errors import ComputationFailed, UnsupportedQuery
from hedgerow.federation.policy import Policy
from hedgerow.kernels.noise import invert
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.mechanisms import sampling, selection
from hedgerow.privacy.mechanisms.randomness import SecretRandomness
from hedgerow.privacy.mechanisms.response import Bits, BloomReports
from hedgerow.privacy.pricing import charges_of
from hedgerow.privacy.queries import (
    BoundQuery,
    LabelReports,
    LocalChoice,
    Mechanism,
    Query,
    Selecting,
    SelectQuery,
    Summed,
    SumQuery,
)
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import IntArray
from hedgerow.schema.regions import HeldOut

Held = Rows | Elsewhere
"""What a site holds: rows in its memory, or rows that stay where they are."""


@dataclass(frozen=True)
class Response:
    """What leaves the site in one round: one integer vector and one index per selection."""

    vector: IntArray
    picks: tuple[int, ...]

    @property
    def summed(self) -> IntArray:
        """A round of selections alone still sums one zero, so that it is opened like any other."""
        return self.vector if len(self.vector) else np.zeros(1, np.int64)


class Member:
    """One site: its rows, as many of each person as the study says, and the study it approved."""

    def __init__(self, study: Study, rows: Held, policy: Policy) -> None:
        policy.check(study)
        self.study = study
        self._permanent: Bits | None = None
        self._closed_because = ""
        self.answering: Answering | InParts | AnsweringElsewhere = (
            rows.answering(study) if isinstance(rows, Elsewhere) else self._of_memory(rows)
        )

    def _of_memory(self, rows: Rows) -> Answering | InParts:
        study = self.study
        rows = rows.of_each_person(study.records_per_person)
        if study.hold_out:
            test = HeldOut(study.hold_out)
            rows, held_out = rows.part(test, TRAINED_ON), rows.part(test, 0)
            return InParts(self._as_told(rows), held_out, study.schema)
        return answering(self._as_told(rows), study.schema)

    def _as_told(self, rows: Rows) -> Rows:
        """Under placement `label`: with labels that were told at random, once for the study."""
        study = self.study
        if study.label_reports is not None:
            self._permanent = permanent_bits(rows, study.label_reports)
            return without_labels(rows)
        return told_once(rows, study) if study.placement is Placement.LABEL else rows

    def charges(self, bundle: Sequence[Query]) -> list[Charge]:
        """What the bundle costs a record, by region: to be reserved before `respond`."""
        return charges_of(bundle, self.study)

    def respond(self, bundle: Sequence[Query], secret: SecretRandomness) -> Response:
        """After the charge: the whole answer, or none and never one again.

        Admission leaves no way to fail that depends on a row, and kernels leave out a record that
        they cannot place. Should there be one all the same, it must not be asked for twice.
        """
        self.require_open()
        try:
            return self._computed(bundle, secret)
        except Exception as error:
            raise self.closed_by(error) from error

    def require_open(self) -> None:
        if self._closed_because:
            raise ComputationFailed(self._closed_because)

    def closed_by(self, error: Exception) -> ComputationFailed:
        """From here on nothing is answered; the reason is for the site's own log."""
        self._closed_because = (
            f"study {self.study.name!r} is closed at this site: an answer that was charged could "
            f"not be computed ({type(error).__name__}). Nothing was released and the charge stays. "
            "Find the cause in the log, then approve a new study."
        )
        return ComputationFailed(self._closed_because)

    def _computed(self, bundle: Sequence[Query], secret: SecretRandomness) -> Response:
        """Noise is drawn whole, before rows are touched, for every coordinate of every site."""
        summed = [q for q in bundle if isinstance(q, SumQuery | BoundQuery)]
        noise = self._noise(summed, secret)
        exact = self._integers(summed, secret)
        parts = [
            x * self.study.refinement(q) + z for q, x, z in zip(summed, exact, noise, strict=True)
        ]
        vector = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        picks = tuple(
            self._pick(q, secret) for q in bundle if isinstance(q, SelectQuery | LocalChoice)
        )
        return Response(vector, picks)

    def _noise(self, queries: Sequence[Summed], secret: SecretRandomness) -> list[IntArray]:
        """For each query; those in a row that have one law draw together."""
        sized = [(self.study.site_law(query), prod(query.shape)) for query in queries]
        found = list[IntArray]()
        for law, alike in groupby(sized, key=itemgetter(0)):
            ends = list(accumulate(size for _, size in alike))
            drawn = sampling.draw(law, ends[-1], secret, invert=invert)
            found += np.split(drawn, ends[:-1])
        return found

    def _integers(self, queries: Sequence[Summed], secret: SecretRandomness) -> list[IntArray]:
        """Where labels are told in bits, every question gets a report of its own."""
        if self._permanent is None:
            return self.answering.integers_of_all(queries, self.study.unit)
        return [self._told(query, secret) for query in queries]

    def _told(self, query: Summed, secret: SecretRandomness) -> IntArray:
        if isinstance(query, SumQuery) and isinstance(query.statistic, LabelReports):
            return self.answering.integers_of(query, self._reports(secret))
        return self.answering.integers(query, self.study.unit(query))

    def _reports(self, secret: SecretRandomness) -> IntArray:
        """(n, bits + 1) an instant report of each record's permanent bits, and 1 for itself."""
        if self._permanent is None or self.study.label_reports is None:
            raise UnsupportedQuery("label reports were asked where labels are not told in bits.")
        bits = self.study.label_reports.instant(self._permanent, secret).astype(np.int64)
        return np.concatenate([bits, np.ones((len(bits), 1), np.int64)], axis=1)

    def _pick(self, query: Selecting, secret: SecretRandomness) -> int:
        if self.study.placement is Placement.NOWHERE:
            exact = scores_by(query, self.answering.tables, self.study.schema)
            return int(np.argmax(exact))
        epsilon = self.study.selection_epsilon(query)
        coefficient = epsilon / (query.scoring.reach * self.study.records_per_person)
        exact = scores_by(query, self.answering.tables, self.study.schema)
        return MECHANISMS[query.mechanism](exact, coefficient, secret)


def told_once(rows: Rows, study: Study) -> Rows:
    """The rows with randomised labels: a record's own draw decides, whatever is asked later."""
    if rows.labels is None:
        raise UnsupportedQuery("placement 'label' was asked of rows without classes.")
    told = study.response.respond(rows.labels.astype(np.int64), rows.draw("label"))
    return rows.with_labels(told.astype(np.uint8))


def permanent_bits(rows: Rows, reports: BloomReports) -> Bits:
    """(n, bits) a record's permanent string: its own draws decide, for the whole run."""
    if rows.labels is None:
        raise UnsupportedQuery("placement 'label' was asked of rows without classes.")
    words = np.stack([rows.draw(f"label bit {b}") for b in range(reports.bits)], axis=1)
    return reports.permanent(rows.labels.astype(np.int64), words)


def without_labels(rows: Rows) -> Rows:
    """The rows with one label for all: what the permanent strings protect is not kept beside."""
    return rows.with_labels(np.zeros(rows.n, np.uint8))


MECHANISMS: dict[Mechanism, Callable[[IntArray, Fraction, SecretRandomness], int]] = {
    Mechanism.EXPONENTIAL: selection.exponential,
    Mechanism.PERMUTE_AND_FLIP: selection.permute_and_flip,
    Mechanism.REPORT_NOISY_MAX: selection.report_noisy_max,
}
