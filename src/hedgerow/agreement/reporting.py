"""Where a run stands, from its folder alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from hedgerow.agreement.run_folder import RunFolder
from hedgerow.agreement.watching import event_in_words
from hedgerow.study.terms import Study
from hedgerow.transport.journal import Record

LAST_EVENTS = 5


def progress_of(folder: RunFolder) -> Iterator[tuple[str, str]]:
    """Titles and words. Looks at the folder only: nobody is asked."""
    agreed = folder.agreed()
    study = agreed.study
    yield "study", f"{study.name}, {study.account}"
    if not folder.is_begun:
        yield "run", "not begun"
        return
    yield "run", _state(folder)
    record = Record(folder.path)
    yield "rounds", f"{record.rounds} answered, {agreed.rounds} at most"
    under_way = record.under_way()
    if under_way is not None:
        yield "under way", f"round {under_way.round}"
    for place, head in sorted(record.heads.items()):
        yield f"site {agreed.names[place]}", receipt_words(head.spent, study)
    for line in _last_lines(folder.events_file):
        yield "", event_in_words(json.loads(line))


def receipt_words(spent: str, study: Study) -> str:
    """What a site has signed for, `spent` as its ledger writes it."""
    if spent == "inf":
        return "without noise, by its own receipt"
    return f"{float(Fraction(spent) / study.total):.1%} of the budget, by its own receipt"


def _state(folder: RunFolder) -> str:
    if folder.is_finished:
        return f"finished: {folder.model_file}"
    if folder.is_held():
        return "under way"
    return "stopped; `hedgerow study resume` goes on with it"


def _last_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()[-LAST_EVENTS:] if path.exists() else []
