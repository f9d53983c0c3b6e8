"""Labels that are told at random, measured: how many of many are told as they are.

The promise is of the label alone: everybody may know the rest of a record. So what is seen here
is the told label itself, or a record's permanent bits, and a coin has decided what a canary's
label is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.audit.bounds import epsilon_at_least
from hedgerow.data.prepared import StudyRows, permanent_bits
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Answering
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import BoolArray, IntArray

RECORDS = 1 << 17
"""Whose labels are told: lies are rare where the claim is loud."""


@dataclass(frozen=True)
class ToldLabels:
    """Labels, or bits of labels, that were told as they are, and the odds that this gives away."""

    right: int
    total: int
    claimed: float  # probability of a right one
    ways: int
    """To tell a wrong one: the other classes; 1 for a bit."""
    apart: int
    """In how many of them two labels differ at most."""
    canaries_right: int

    @property
    def loudness(self) -> float:
        """Lies over their claimed number."""
        return (1.0 - self.right / self.total) / (1.0 - self.claimed)


def told_in(study: Study, holder: Rows, draws: Draws, included: BoolArray) -> ToldLabels:
    """What the first site tells: of its canaries, which are its last rows, and of many records."""
    canaries = int(included.sum())
    many = _repeated(holder, draws)
    if study.label_reports is not None:
        return _told_in_bits(study.label_reports, holder, many, canaries)
    own = _told_labels(study, holder)[holder.n - canaries :]
    right = _told_labels(study, many) == _labels(many)
    return ToldLabels(
        right=int(right.sum()),
        total=many.n,
        claimed=float(study.response.keep),
        ways=study.response.classes - 1,
        apart=1,
        canaries_right=int((own == _labels(holder)[holder.n - canaries :]).sum()),
    )


def _told_in_bits(reports: BloomReports, holder: Rows, many: Rows, canaries: int) -> ToldLabels:
    """A canary's label is guessed to be the one whose bits are nearest."""
    bits, code = permanent_bits(many, reports), reports.code
    apart = (permanent_bits(holder, reports)[:, None, :] != code).sum(axis=2)
    own = apart.argmin(axis=1) == _labels(holder)
    return ToldLabels(
        right=int((bits == code[_labels(many)]).sum()),
        total=bits.size,
        claimed=(1.0 + float(reports.keep)) / 2.0,
        ways=1,
        apart=max(int((a != b).sum()) for a in code for b in code),
        canaries_right=int(own[holder.n - canaries :].sum()),
    )


def _labels(rows: Rows) -> IntArray:
    assert rows.labels is not None
    return rows.labels.astype(np.int64)


def _told_labels(study: Study, rows: Rows) -> IntArray:
    """As a site holds them once it has joined."""
    answering = StudyRows(study, rows).sums
    assert isinstance(answering, Answering)
    return _labels(answering.rows)


def _repeated(rows: Rows, draws: Draws) -> Rows:
    """The same records many times over, each copy with a draw of its own."""
    times = -(-RECORDS // rows.n)
    labels = np.tile(_labels(rows).astype(np.uint8), times)
    repeated = Encoded(codes=np.tile(rows.codes, (1, times)), y=labels)
    return Rows(repeated, rows.schema, draws)


def loss_of_labels(told: Sequence[ToldLabels], error: float) -> float:
    """Epsilon of one record's label, at least."""
    right, total = sum(one.right for one in told), sum(one.total for one in told)
    odds = epsilon_at_least(total, right, total, 0.0, error)
    return told[0].apart * (odds + math.log(told[0].ways)) if odds else 0.0
