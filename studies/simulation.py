"""Many runs in one process: the sites' own integers and noise, added in the clear.

Masks cancel and travel only to hide what each site says, so leaving them out changes no answer.
That makes a simulation study of thousands of fits possible. A model for use is never made here:
the estimators run the whole secure sum.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any, Protocol
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hedgerow.data import site_rows
from hedgerow.data.prepared import StudyRows
from hedgerow.data.reading import encoding
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Answering
from hedgerow.federation.client import respond
from hedgerow.federation.exchange import LeftOut, RoundSum
from hedgerow.federation.server import Server
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.method import Method, TrainingResult
from hedgerow.privacy.accounting.budget import Cost, DPModel
from hedgerow.privacy.admission import admit
from hedgerow.privacy.ledger.charges import ChargeLedger, MemoryLedger
from hedgerow.privacy.mechanisms import coins, sampling
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.pricing import Priced
from hedgerow.privacy.queries import Summed, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import Fold
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema

IntArray = NDArray[np.int64]


class Sites:
    """Encoded rows of several sites, made once for many runs."""

    def __init__(self, X: Any, y: Any, site: NDArray[Any], schema: Schema) -> None:
        self.schema = schema
        self.pooled = Answering(self._rows(X, y), schema)
        self.each = [
            Answering(self._rows(_take(X, site == k), np.asarray(y)[site == k]), schema)
            for k in np.unique(site)
        ]

    def _rows(self, X: Any, y: Any) -> Rows:
        encoded = encoding.encode(X, self.schema, y=y, check=True)
        return Rows(encoded, self.schema, Draws(os.urandom(32), "simulation"))

    def integers(self, query: Summed, unit: int) -> IntArray:
        """Sums over all sites' rows are sums over the pooled rows.

        Bounds are each site's own, and so are folds: they hang on the site's secret.
        """
        folded = any(isinstance(step.test, Fold) for step in query.region)
        if isinstance(query, SumQuery) and not folded:
            return self.pooled.integers(query, unit)
        return np.asarray(sum(site.integers(query, unit) for site in self.each))


class Answers(Protocol):
    """Sites as a run needs them: who they are, and their sums."""

    schema: Schema
    each: list[Answering]

    def integers(self, query: Summed, unit: int) -> IntArray: ...


class InTheClear:
    """A link without masks. Sums are taken over the pooled rows, selections at each site.

    A bundle that a site would refuse is refused here too.
    """

    def __init__(self, study: Study, sites: Answers, ledger: ChargeLedger) -> None:
        self.study, self.sites, self.ledger = study, sites, ledger
        self.rows = [StudyRows(study, site.rows) for site in sites.each]

    def round(self, number: int, bundle: Sequence[Priced], without: LeftOut = ()) -> RoundSum:
        admit(self.study, [one.query for one in bundle])
        summed = [one.noise for one in bundle if one.noise is not None]
        selecting = [one for one in bundle if one.noise is None]
        secret = SecretRandomness()
        parts = [
            self.sites.integers(one.query, one.unit) * one.refinement
            + self._noise(one.query, secret)
            for one in summed
        ]
        rows = self.rows if selecting else []
        selections = tuple(respond(one, selecting, secret).selections for one in rows)
        total = np.concatenate(parts or [np.zeros(0, np.int64)])
        return RoundSum(total, selections, 0, 0, tuple(range(self.study.n_sites)))

    def _noise(self, query: Summed, secret: SecretRandomness) -> IntArray:
        """All sites' shares together; if all of them count, one draw has exactly their law."""
        size = int(np.prod(query.shape))
        silo = self.study.dp_model is DPModel.PER_SITE
        if not silo and self.study.honest == self.study.n_sites:
            return sampling.draw(self.study.sum_law(query), size, secret)
        law, shape = self.study.site_law(query), (self.study.n_sites, size)
        draws = sampling.draw(law, shape[0] * size, secret)
        return np.asarray(draws.reshape(shape).sum(axis=0))

    def spent(self) -> Cost:
        return self.ledger.spent(self.study.account)


def study_of(
    learner: Method,
    sites: Answers,
    epsilon: float,
    delta: float = 0.0,
    *,
    colluders: int = 0,
    threshold: int | None = None,
    dp_model: DPModel = DPModel.DISTRIBUTED,
) -> Study:
    """A study over these sites; by default every site's share of the noise is counted on."""
    return Study(
        name="simulation",
        schema=sites.schema,
        method=learner.name,
        asks=learner.asks(sites.schema),
        epsilon=exact(epsilon, "epsilon"),
        delta=exact(delta, "delta"),
        dp_model=dp_model,
        n_sites=len(sites.each),
        colluders=colluders,
        threshold=len(sites.each) if threshold is None else threshold,
    )


def train(
    learner: Method, study: Study, sites: Answers, seed: int, limit: Cost | None = None
) -> tuple[TrainingResult, Cost]:
    """The trained model and what its worst path cost, in units of the study's measure."""
    ledger = MemoryLedger(study.limit if limit is None else limit)
    federation = Server(study, InTheClear(study, sites, ledger), ledger)
    trained = run(learner.flow(study.schema, federation, np.random.default_rng(seed)), federation)
    return trained, ledger.spent(study.account)


def probabilities(trained: TrainingResult, X: Any, schema: Schema) -> NDArray[np.float64]:
    return trained.model.predict(encoding.encode_features(X, schema))


def no_limit() -> Cost:
    """For methods whose own accounting is wrong: the ledger then says what they really cost."""
    return math.inf


def _take(X: Any, mask: NDArray[np.bool_]) -> Any:
    return X[mask] if not hasattr(X, "loc") else X.loc[mask]


# --------------------------------------------------------------------------------------------------
# Noise that is drawn the same way again, to compare two fits that differ in one thing. For studies
# and tests alone: a model whose noise is known protects nobody.
@contextmanager
def fixed_noise(first: int = 0) -> Iterator[None]:
    """The noise's and the folds' bytes in a fixed order. Others may ask the system for more."""
    calls = count(first)

    def known(n: int) -> bytes:
        return hashlib.shake_256(str(next(calls)).encode()).digest(n)

    system = SimpleNamespace(urandom=known)
    with ExitStack() as patched:
        for module in (coins, sys.modules[__name__], site_rows):
            patched.enter_context(mock.patch.object(module, "os", system))
        yield
