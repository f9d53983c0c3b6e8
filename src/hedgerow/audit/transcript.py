"""The queries and releases of a run in plain numbers, for the second accountant (audit/shadow.py).

A site's own code answers every query twice, from rows with a record and from rows without it. The
samplers are replaced by recording ones: they note which law was drawn how often, and mark every
number to which noise was added.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from hedgerow.audit.shadow import (
    Claim,
    NoisySum,
    PlainLaw,
    PlainTranscript,
    RecordVerdict,
    Selection,
    SiteRelease,
    Terms,
    judge_transcript,
)
from hedgerow.data.prepared import StudyRows
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Sums
from hedgerow.federation.client import Samplers, respond
from hedgerow.privacy.accounting.budget import Cost, DPModel, Measure
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    PolyaDifference,
)
from hedgerow.privacy.pricing import Noise, Priced
from hedgerow.privacy.queries import LocalSelection, Mechanism, SelectQuery
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.study import Study
from hedgerow.schema import regions
from hedgerow.schema.arrays import IntArray, Words

DRAW_MARK = 1 << 40
"""Larger than all sums of an audit, so that a mark tells which draw a number carries."""


@dataclass(frozen=True)
class SiteAnswer:
    """A site's answer to one bundle as its own code computes it, before noise."""

    integers: tuple[int, ...]
    draws: tuple[int, ...]
    laws: tuple[NoiseLaw, ...]
    choices: tuple[tuple[str, Fraction, tuple[int, ...]], ...]
    """Per selection: mechanism, coefficient, exact scores."""


class _SameBits(SecretRandomness):
    """One word for every record, in any order: instant reports are the permanent bits."""

    def words(self, count: int) -> Words:
        return np.full(count, 1 << 63, np.uint64)


class _Look:
    """Samplers that draw nothing and record their calls."""

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.laws = list[NoiseLaw]()
        self.choices = list[tuple[str, Fraction, tuple[int, ...]]]()
        by_name = {mechanism: partial(self._choose, mechanism.value) for mechanism in Mechanism}
        self.samplers = Samplers(self._draw, by_name)

    def _draw(self, law: NoiseLaw, size: int, secret: SecretRandomness, **how: Any) -> IntArray:
        first = len(self.laws) + 1
        self.laws += [law] * size
        return self.mark * np.arange(first, first + size, dtype=np.int64)

    def _choose(
        self, name: str, scores: IntArray, coefficient: Fraction, secret: SecretRandomness
    ) -> int:
        self.choices.append((name, coefficient, tuple(int(score) for score in scores)))
        return 0


class _Once:
    """The sums of a site, computed once for both answers to the same questions."""

    def __init__(self, sums: Sums) -> None:
        self._sums, self._results = sums, dict[tuple[Any, ...], Any]()

    def __getattr__(self, name: str) -> Any:
        def compute(argument: Any, *how: Any) -> Any:
            key = name, *map(id, argument if isinstance(argument, list) else [argument])
            if key not in self._results:
                self._results[key] = getattr(self._sums, name)(argument, *how)
            return self._results[key]

        return compute


def answer_without_noise(rows: StudyRows, questions: Sequence[Priced]) -> SiteAnswer:
    """Answers a bundle as the site would, twice: without noise, and with marks."""
    plain, with_marks = _Look(0), _Look(DRAW_MARK)
    with patch.object(rows, "sums", _Once(rows.sums)):
        vectors = [
            respond(rows, questions, _SameBits(), look.samplers).vector
            for look in (plain, with_marks)
        ]
    marks = vectors[1] - vectors[0]
    draws = np.where(marks % DRAW_MARK == 0, marks // DRAW_MARK - 1, -1)
    return SiteAnswer(
        tuple(vectors[0].tolist()), tuple(draws.tolist()), tuple(plain.laws), tuple(plain.choices)
    )


def terms_of(study: Study) -> Terms:
    """The agreed numbers: only declared ones, none that is derived."""
    shares, label_odds = study.dp_model is DPModel.DISTRIBUTED, None
    if study.dp_model is DPModel.LABEL:  # of the law itself: the words that report the truth
        reports, most = study.label_reports, study.records_per_person
        if reports is None:
            keep = study.response.keep
            label_odds = keep, (1 - keep) / (study.response.classes - 1), most
        else:
            apart = max(int((a != b).sum()) for a in reports.code for b in reports.code)
            flip = (1 - reports.keep) / 2
            label_odds = 1 - flip, flip, apart * most
    return Terms(
        study=study.account,
        measure="pure" if study.measure is Measure.PURE else "gaussian",
        epsilon=study.epsilon,
        delta=study.noise_delta,
        honest_sites=study.threshold - study.colluders if shares else 1,
        records_per_person=study.records_per_person,
        entry=study.entry_cost,
        label_odds=label_odds,
    )


def _test_words(test: regions.Test) -> str:
    match test:
        case regions.Split(feature, grid, left):
            return f"{feature} in {left:x} of {grid}"
        case regions.Fold(draw, n):
            return f"fold {draw!r} of {n}"
        case regions.HeldOut(one_in):
            return f"held out, one in {one_in}"


def law_of(law: NoiseLaw) -> PlainLaw | None:
    match law:
        case DiscreteLaplace(rate):
            return PlainLaw("laplace", rate)
        case PolyaDifference(rate, shares):
            return PlainLaw("laplace", rate, shares)
        case DiscreteGaussian(sigma2):
            return PlainLaw("gaussian", sigma2)
    return None


def releases_of(
    study: Study,
    place: tuple[int, int],
    questions: Sequence[Priced],
    answer: SiteAnswer,
    neighbor_answer: SiteAnswer,
) -> list[SiteRelease]:
    """The releases of one bundle in one round of one site; `answer` is with the record."""
    releases, start = list[SiteRelease](), 0
    choices = iter(zip(answer.choices, neighbor_answer.choices, strict=True))
    for priced_query in questions:
        query, noise = priced_query.query, priced_query.noise
        common: dict[str, Any] = {
            "round": place[0],
            "site": place[1],
            "what": str(priced_query.phrase),
            "region": tuple((_test_words(step.test), step.outcome) for step in query.region),
            "charge": priced_query.charge.cost,
            "remainder": priced_query.charge.remainder,
        }
        if noise is not None:
            part = slice(start, start + noise.size)
            releases.append(_sum_of(study, noise, common, answer, neighbor_answer, part))
            start += noise.size
        else:
            assert isinstance(query, SelectQuery | LocalSelection)
            (name, coefficient, scores), (_, _, without) = next(choices)
            releases.append(
                Selection(
                    **common,
                    mechanism=name,
                    coefficient=coefficient,
                    reach=query.scoring.reach,
                    scores=scores,
                    scores_without=without,
                )
            )
    return releases


def _sum_of(
    study: Study,
    noise: Noise,
    common: dict[str, Any],
    answer: SiteAnswer,
    neighbor_answer: SiteAnswer,
    part: slice,
) -> NoisySum:
    change = np.subtract(answer.integers[part], neighbor_answer.integers[part])
    bound, draws = noise.release.sensitivity, answer.draws[part]
    if study.dp_model is DPModel.LABEL:  # a label moves from one count of a group to another
        bound = bound.of_person(2)
    laws = dict.fromkeys(answer.laws[draw] for draw in draws if 0 <= draw < len(answer.laws))
    return NoisySum(
        **common,
        claimed=(bound.l1, bound.l2_squared, bound.linf),
        change=tuple(change.tolist()),
        draws=draws,
        laws=tuple(map(law_of, laws)),
    )


# A site's own rows.
MOST_RECORDS = 16
"""Rows that are left out, one at a time, by default."""


def judge_records(
    study: Study,
    rounds: Sequence[Sequence[Priced]],
    rows: tuple[Any, Any],
    claim: Claim | None = None,
    most: int = MOST_RECORDS,
) -> dict[int, RecordVerdict]:
    """What single records of a site could have changed in a run, by row number.

    Rows are taken evenly from all. Secret draws are new, so folds are not those of the run.
    """
    X, y = rows
    draws = Draws(os.urandom(32), study.name)

    def answers(X: Any, y: Any) -> list[SiteAnswer]:
        encoded_rows = encode(X, study.schema, y=y, check=False)
        study_rows = StudyRows(study, Rows(encoded_rows, study.schema, draws))
        return [answer_without_noise(study_rows, questions) for questions in rounds]

    whole, verdicts = answers(X, y), dict[int, RecordVerdict]()
    for row in np.unique(np.linspace(0, len(y) - 1, min(most, len(y)), dtype=int)).tolist():
        if study.dp_model is DPModel.LABEL:  # neighbors differ in a label
            labels = y.copy()
            labels[row] = next(label for label in study.schema.labels if str(label) != str(y[row]))
            without = answers(X, labels)
        else:
            without = answers(np.delete(X, row, axis=0), np.delete(y, row))
        pairs = zip(rounds, whole, without, strict=True)
        releases = [
            release
            for number, (questions, mine, theirs) in enumerate(pairs, 1)
            for release in releases_of(study, (number, 0), questions, mine, theirs)
        ]
        terms = terms_of(study)
        verdicts[row] = judge_transcript(
            PlainTranscript(terms=terms, releases=tuple(releases), claim=claim)
        )
    return verdicts


def claim_of(spent: Cost, statement: PrivacyStatement) -> Claim:
    """The claims of the sites' ledgers and of the statement about a run."""
    lines = [
        math.fsum(line.part for line in part) for part in (statement.spending, statement.held_out)
    ]
    return Claim(
        spent=spent,
        spent_fraction=statement.spent_fraction,
        spent_epsilon=statement.spent_epsilon,
        epsilon=statement.epsilon,
        lines=max(lines),
    )
