"""Every use of records, run with and without one record for the second accountant.

In the second run every site repeats its answers of the first, so that both runs have the same
transcript; in addition its own code computes what it would have answered from its present rows. A
fit, an evaluation, a model selection, records of persons and rows in a database are all compared
with what was charged and stated for them, and held-out records must be in one part only.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from hedgerow.audit.choices import loss_of_labels, reports_of
from hedgerow.audit.shadow import PlainTranscript, SiteRelease, judge_transcript
from hedgerow.audit.transcript import (
    SiteAnswer,
    answer_without_noise,
    claim_of,
    releases_of,
    terms_of,
)
from hedgerow.data import site_rows
from hedgerow.data.rows import Draws
from hedgerow.errors import HedgerowError, RoundFailed
from hedgerow.federation import client, server
from hedgerow.federation.transports import in_process
from hedgerow.methods import base, evaluate, training
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.pricing import Priced
from hedgerow.privacy.queries import Summed, kind_of
from hedgerow.privacy.statement.statement import statement as statement_of
from hedgerow.privacy.study import Study

LABEL_COPIES, LABEL_ERROR = 1 << 12, 1e-9
"""Records whose labels are randomized to see how; a sound law is blamed once in so many times."""


@dataclass(frozen=True)
class SiteCall:
    """One answer of one site; `place` is the number of the round at the site, and the site."""

    study: Study
    place: tuple[int, int]
    bundle: Sequence[Priced]
    answer: SiteAnswer
    response: client.Response

    @property
    def questions(self) -> list[tuple[Any, ...]]:
        """The queries, reduced to what two runs can be compared by."""
        return [
            (kind_of(q), q.region, q.fraction, q.shape if isinstance(q, Summed) else q.n_candidates)
            for q in (priced_query.query for priced_query in self.bundle)
        ]


@dataclass
class RunWatch:
    """All answers of all sites while it is open, and the servers that asked."""

    calls: list[SiteCall] = field(default_factory=list)
    servers: list[server.Server] = field(default_factory=list)
    site_rows: list[Sequence[Any]] = field(default_factory=list)
    """Of each server, as its sites were opened."""
    statements: list[Any] = field(default_factory=list)


@contextmanager
def watch_run(
    replay: RunWatch | None = None, *, fails: int | None = None, as_study: bool = False
) -> Iterator[RunWatch]:
    """Records a run, or replays the answers of an earlier one.

    `fails` is the number of a round whose answer is lost, in every run. With `as_study`, fits have
    a retry budget and evaluate themselves, as studies over a network do.
    """
    watch = RunWatch()
    with ExitStack() as stack:

        def instead(module: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(module, name, value))

        instead(client, "respond", _respond(watch, replay))
        instead(in_process, "open_federation", _opening(watch, fails))
        # Secrets of sites, different for each site and the same in both runs.
        secrets = (f"secret {number}".encode() for number in itertools.count(1))
        same_secret = SimpleNamespace(
            urandom=lambda size: hashlib.shake_128(next(secrets)).digest(size)
        )
        instead(site_rows, "os", same_secret)

        def statement(*arguments: Any, **options: Any) -> Any:
            watch.statements.append(statement_of(*arguments, **options))
            return watch.statements[-1]

        for module in (training, evaluate):
            instead(module, "statement", statement)
        if as_study:
            instead(base, "agree", partial(training.agree, terms={"retry_budget": Fraction(1, 2)}))
        yield watch


def _respond(watch: RunWatch, replay: RunWatch | None) -> Callable[..., client.Response]:
    plain, rounds, sites = client.respond, dict[int, int](), dict[int, list[int]]()

    def respond(rows: Any, questions: Sequence[Priced], secret: Any) -> client.Response:
        rounds[id(rows)] = rounds.get(id(rows), 0) + 1
        of_study = sites.setdefault(id(rows.study), [])
        if id(rows) not in of_study:
            of_study.append(id(rows))
        place = rounds[id(rows)], of_study.index(id(rows))
        answer, number = answer_without_noise(rows, questions), len(watch.calls)
        earlier = None if replay is None else replay.calls[number].response
        response = earlier or plain(rows, questions, secret)
        watch.calls.append(SiteCall(rows.study, place, questions, answer, response))
        return response

    return respond


def _opening(watch: RunWatch, fails: int | None) -> Callable[..., server.Server]:
    plain = in_process.open_federation

    def open_federation(*arguments: Any) -> server.Server:
        federation = plain(*arguments)
        plain_round = federation.sites.round

        def round(number: int, bundle: Sequence[Priced]) -> Any:
            answers = plain_round(number, bundle)
            if number == fails:
                raise RoundFailed("the answer was lost on its way.")
            return answers

        setattr(federation.sites, "round", round)  # noqa: B010
        watch.servers.append(federation)
        watch.site_rows.append(arguments[1])
        return federation

    return open_federation


@dataclass(frozen=True)
class PathVerdict:
    """The problems of everything that was done, and the largest loss of a study over its charge."""

    problems: tuple[str, ...]
    lost_fraction: float = 0.0


def compare_neighbors(
    act: Callable[[Any], object], rows: Any, neighbor: Any, *, holds_out: bool = False, **how: Any
) -> PathVerdict:
    """Both accountants on what `act` does with rows that differ in one record.

    `holds_out`: everything but the last use is training, and no record is in both.
    """
    with watch_run(**how) as run:
        act(rows)
    with watch_run(run, **how) as neighbor_run:
        try:
            act(neighbor)
        except IndexError:
            return PathVerdict(("without the record more is asked",))
        except HedgerowError:
            raise
        except ValueError:  # the answers of the first run have another shape
            return PathVerdict(("without the record something else is asked",))
    if [call.questions for call in run.calls] != [call.questions for call in neighbor_run.calls]:
        return PathVerdict(("what is asked depends on a record",))
    verdicts = [
        judge_transcript(_transcript(federation, privacy_statement, run, neighbor_run))
        for federation, privacy_statement in zip(run.servers, run.statements, strict=True)
        if federation.study.dp_model is not DPModel.NONE
    ]
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    in_parts = [verdict.payment > 0 for verdict in verdicts]
    if holds_out and any(in_parts[:-1]) and in_parts[-1]:
        problems.append("a record was trained on and evaluated")
    for federation, rows in zip(run.servers, run.site_rows, strict=True):
        problems += _label_problems(federation.study, rows)
    lost = [float(verdict.lost / verdict.worst) for verdict in verdicts if verdict.worst]
    return PathVerdict(tuple(problems), max(lost, default=0.0))


def _label_problems(study: Study, site_rows: Sequence[Any]) -> list[str]:
    """Randomized labels are drawn before anything is asked: many copies show how often they lie."""
    rows = next((rows for rows in site_rows if getattr(rows, "n", 0)), None)
    if study.dp_model is not DPModel.LABEL or rows is None:
        return []
    draws = Draws(os.urandom(32), study.name)
    reports = reports_of(study, rows, draws, np.zeros(0, bool), LABEL_COPIES)
    lost = study.records_per_person * loss_of_labels([reports], LABEL_ERROR)
    if lost <= study.entry_cost:
        return []
    return [f"labels lose {lost:.6g} at least; {float(study.entry_cost):.6g} was charged for them"]


def _transcript(
    federation: server.Server, privacy_statement: Any, run: RunWatch, neighbor_run: RunWatch
) -> PlainTranscript:
    releases = list[SiteRelease]()
    for mine, theirs in zip(run.calls, neighbor_run.calls, strict=True):
        if mine.study is federation.study:
            releases += releases_of(mine.study, mine.place, mine.bundle, mine.answer, theirs.answer)
    claim = claim_of(federation.sites.spent(), privacy_statement)
    return PlainTranscript(terms=terms_of(federation.study), releases=tuple(releases), claim=claim)
