"""A site's rows as one study sees them: who takes part, with which labels, ready to be summed."""

from __future__ import annotations

import numpy as np

from hedgerow.data.composite import TRAINED_ON, InParts, answering
from hedgerow.data.engines.engine import Elsewhere
from hedgerow.data.rows import Rows
from hedgerow.data.sums import Sums
from hedgerow.errors import ComputationFailed, UnsupportedQuery
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.mechanisms.response import Bits, BloomReports
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import HeldOut

Held = Rows | Elsewhere
"""What a site holds: rows in its memory, or rows that stay where they are."""


class StudyRows:
    """As many rows of each person as the study says; closed once an answer cannot be computed."""

    def __init__(self, study: Study, rows: Held) -> None:
        self.study = study
        self.permanent: Bits | None = None
        """Of each record, where labels are told in bits."""
        self._closed_because = ""
        self.sums: Sums = (
            rows.answering(study) if isinstance(rows, Elsewhere) else self._of_memory(rows)
        )

    def _of_memory(self, rows: Rows) -> Sums:
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
            self.permanent = permanent_bits(rows, study.label_reports)
            return without_labels(rows)
        return told_once(rows, study) if study.placement is Placement.LABEL else rows

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
