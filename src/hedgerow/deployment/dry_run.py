"""What a study will ask, before anybody is asked: the same run in this process, on invented rows.

Rows are drawn from the public schema alone. Rounds and bytes of many methods depend a little on
what grows, so the real run may take somewhat more or fewer; it never takes more than the study
allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Rows, public_draws
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.server import Server
from hedgerow.federation.transports.in_process import open_federation
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.evaluate import on_held_out_records
from hedgerow.privacy.accounting.budget import Cost, Placement
from hedgerow.privacy.statement.spending import ENTRY, paid, worst_path
from hedgerow.privacy.study import Study
from hedgerow.schema.schema import Schema

ROWS = 2000
"""Of each invented site."""


@dataclass(frozen=True)
class Forecast:
    """Of one run: how many rounds, how many bytes a site sends and gets, what the dearest costs."""

    study: Study
    rounds: int
    most_rounds: int
    bytes_out: int
    bytes_in: int
    spent: Cost
    dearest_round: int
    dearest: Cost

    def part(self, cost: Cost) -> str:
        """Of the whole budget."""
        return "-" if cost == math.inf else f"{float(cost / self.study.total):.1%}"

    def lines(self) -> Iterator[tuple[str, str]]:
        kib_out, kib_in = (f"{n / 1024:.0f} KiB" for n in (self.bytes_out, self.bytes_in))
        most = f"{self.most_rounds} at most"
        yield "rounds", f"{self.rounds} in a rehearsal with invented rows, {most}"
        yield "bytes", f"each site sends {kib_out} and gets {kib_in}"
        if self.study.placement is Placement.NOWHERE:
            yield "costs", "no noise is added: nothing is promised and nothing is counted"
            return
        yield "costs", f"{self.part(self.spent)} of the budget, by the most charged record"
        yield "dearest round", f"round {self.dearest_round}: {self.part(self.dearest)}"
        yield "reserve", f"{self.part(self.study.reserve)} for rounds that fail; {self._enough()}"

    def _enough(self) -> str:
        if self.dearest <= self.study.reserve:
            return "any one round may fail once"
        return (
            "a failure of the dearest round would end the run. Raise retry_reserve, or let a sum "
            "be opened with fewer sites (threshold), if that is not wanted"
        )


def rehearse(agreed: StudyFile) -> Forecast:
    """Runs the study in this process; nobody is asked."""
    study = replace(agreed.study, sites=(), coordinator=b"", names=(), slot=0)
    rng = np.random.default_rng(study.public_seed)
    holders = [
        Rows(_invented(study.schema, rng), study.schema, public_draws(study.public_seed, place))
        for place in range(study.parties)
    ]
    federation = open_federation(study, holders)
    trained = run(agreed.recipe.flow(study.schema, federation, rng), federation)
    if study.asks_held_out:
        on_held_out_records(trained.model, federation)
    return _forecast(federation, agreed.rounds)


def _invented(schema: Schema, rng: np.random.Generator) -> Encoded:
    """Rows from all over the grid, with labels that can be learned from every column."""
    codes = np.stack([rng.integers(0, grid.n_cells, ROWS, np.uint8) for grid in schema.grids])
    score = np.mean([c / grid.n_cells for c, grid in zip(codes, schema.grids, strict=True)], axis=0)
    rank = np.argsort(np.argsort(score)) / ROWS
    if schema.target is None:
        y: Any = (rank * len(schema.classes or ())).astype(np.uint8)
    else:
        y = schema.target.low + rank * (schema.target.high - schema.target.low)
    return Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)


def _forecast(federation: Server, most_rounds: int) -> Forecast:
    rounds = federation.record.rounds
    prices = {
        number: paid(worst_path([q for q in federation.asked if q.round == number]))
        for number in {q.round for q in federation.asked} - {ENTRY}
    }
    dearest = max(prices, key=lambda number: prices[number], default=0)
    return Forecast(
        study=federation.study,
        rounds=len(rounds),
        most_rounds=most_rounds,
        bytes_out=sum(r.bytes_out for r in rounds),
        bytes_in=sum(r.bytes_in for r in rounds),
        spent=federation.sites.spent(),
        dearest_round=dearest,
        dearest=prices.get(dearest, 0.0),
    )


NEEDS = (
    ("coordinator", "pip install 'hedgerow[https]'; one TCP port that sites can call"),
    ("each site", "pip install hedgerow; calls outwards to that port; nothing listens"),
    ("over FLARE", "pip install 'hedgerow[flare]' everywhere; the FLARE server's port instead"),
)
"""What every party must install and open."""
