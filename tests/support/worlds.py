"""Small worlds that many tests share, all in this process: rows, federations, study folders."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from hedgerow.data.prepared import StudyRows
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.rows import Draws, Rows, public_draws
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.deployment.verify import verify_model
from hedgerow.federation import client
from hedgerow.federation.client import Client, Response
from hedgerow.federation.exchange import Misses, RoundSum, hand_over
from hedgerow.federation.plausibility import Plausibility
from hedgerow.federation.server import Server
from hedgerow.federation.site_store import SiteStore
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks import builder
from hedgerow.methods.blocks.builder import Node
from hedgerow.privacy.accounting.budget import Cost, DPModel, Measure
from hedgerow.privacy.bundles import Weight
from hedgerow.privacy.ledger.charges import Charge, Tally
from hedgerow.privacy.ledger.events import Charged
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import GROUPINGS, STATISTICS, Query, QueryKind, Score
from hedgerow.privacy.statement.record import silent
from hedgerow.privacy.study import Study
from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema, Survival, Target
from hedgerow.secagg import envelope, keys, membership, opening
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import read_body
from hedgerow.secagg.keys import Identity
from hedgerow.secagg.parameters import Parameters

FEATURES = (
    Numeric("age", 0.0, 100.0, bins=8),
    Numeric("dose", 0.0, 1.0, bins=6),
    Categorical("ward", ("north", "south", "west")),
)
EVERY_KIND = frozenset(
    {QueryKind("SumQuery", s, g) for s in STATISTICS for g in GROUPINGS}
    | {QueryKind(kind, score.name) for kind in ("SelectQuery", "LocalSelection") for score in Score}
    | {QueryKind("BoundQuery")}
)
"""A method that asks anything."""
TWO = Schema(FEATURES, classes=("no", "yes"))
THREE = Schema(FEATURES, classes=("a", "b", "c"))
VALUE = Schema(FEATURES, target=Target(-2.0, 6.0))
TIMES = Schema(FEATURES, survival=Survival("time", "event", 6.0, "years"))


def sample(n: int, schema: Schema, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with missing values, values out of range and an unknown ward."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(-10, 110, n), rng.uniform(0, 1, n)
    ward = rng.choice(["north", "south", "west", "elsewhere"], n)
    age[rng.random(n) < 0.1] = np.nan
    score = (age > 40).astype(float) + 2.0 * dose + (ward == "south") + rng.normal(0, 0.4, n)
    if schema.survival is not None:
        y = np.where(rng.random(n) < 0.7, 1.0, -1.0) * np.exp(1.5 - np.nan_to_num(score))
    elif schema.classes is None:
        y = score
    else:
        cuts = 1.4 + np.arange(len(schema.classes) - 1)
        y = np.asarray(schema.classes, dtype=object)[np.searchsorted(cuts, score)]
    return np.stack([age.astype(object), dose.astype(object), ward.astype(object)], axis=1), y


def encoded(feature: Feature, values: Sequence[object]) -> Encoded:
    """One column as a site reads it."""
    column = np.empty((len(values), 1), dtype=object)
    column[:, 0] = list(values)
    return encode(column, Schema((feature,)))


def codes_of(feature: Feature, values: Sequence[object]) -> list[int]:
    return [int(code) for code in encoded(feature, values).codes[0]]


def site_rows(
    X: np.ndarray, y: np.ndarray, owner: np.ndarray, k: int, schema: Schema
) -> list[Rows]:
    """One `Rows` per site 0..k-1, each with a secret of its own; a site may be empty."""
    draws = [Draws(bytes([i]) * 32, "test") for i in range(k)]
    return [
        Rows(encode(X[owner == i], schema, y=y[owner == i]), schema, own)
        for i, own in enumerate(draws)
    ]


def study(
    schema: Schema,
    n_sites: int,
    dp_model: DPModel | None = None,
    epsilon: str = "1",
    delta: str = "0",
    **more: object,
) -> Study:
    numbers = Parameters.default(n_sites) if n_sites > 1 else None
    return Study(
        name="test",
        schema=schema,
        method="test",
        asks=EVERY_KIND,
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        dp_model=dp_model or (DPModel.CENTRAL if n_sites == 1 else DPModel.DISTRIBUTED),
        n_sites=n_sites,
        colluders=numbers.colluders if numbers else 0,
        **{"threshold": numbers.threshold if numbers else 1} | more,  # type: ignore[arg-type]
    )


@contextmanager
def watched_ends() -> Iterator[list[Node]]:
    """The nodes at which trees end while this is open, from the left."""
    seen: list[Node] = []
    real = builder.assemble

    def watching(root, ends, *rest):
        grown = real(root, ends, *rest)
        at = {node.region[len(root) :]: node for node in ends}
        seen.extend(at[region] for region in grown.tree.regions())
        return grown

    with patch.object(builder, "assemble", watching):
        yield seen


def federation(the_study: Study, parts: Sequence[Rows]) -> Server:
    """No honest run is implausible, whatever is learned: it would end here."""
    records = sum(part.n for part in parts)
    return in_process.open_federation(the_study, parts, silent, Plausibility(the_study, records))


def round_of(sites: Any, number: int, queries: Sequence[Query]) -> RoundSum:
    """One round, as a server asks it."""
    return sites.round(number, [priced(sites.study, query) for query in queries])


def tap(patched: pytest.MonkeyPatch, rows: StudyRows, around: Callable[..., Response]) -> None:
    """`around` gets the way to make a site's own responses; other sites are left alone."""
    plain = client.respond

    def tapped(of: StudyRows, *given: Any) -> Response:
        return around(lambda: plain(of, *given)) if of is rows else plain(of, *given)

    patched.setattr(client, "respond", tapped)


class Opened(Exception):
    """Stops a fit at the moment before its first round."""


def opened_by(model: Any, X: Any, y: Any, **how: Any) -> tuple[Study, list[Rows]]:
    """The study and the sites that a fit is about to run with."""

    def stop(the_study: Study, parts: list[Rows], *rest: Any) -> None:
        raise Opened(the_study, parts)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(in_process, "open_federation", stop)
        with pytest.raises(Opened) as opened:
            model.fit(X, y, **how)
    return opened.value.args


# --------------------------------------------------------------------------------------------------
# A study folder and its sites in this process, for tests of runs that stop and go on.
ROWS = 120


def study_text(
    keys: list[str],
    coordinator: str,
    *,
    schema: Schema = TWO,
    dp_model: str = "none",
    reserve: str = "0.3",
    threshold: int | None = None,
    name: str = "wards",
    epsilon: str = "1",
    delta: str = "1e-6",
    hold_out: int | None = None,
    at_once: bool = True,
    influence: str = "",
    model: str = 'estimator = "HistogramTreeClassifier"\n[model.parameters]\nmax_depth = 2',
) -> str:
    sites = "\n".join(
        f'[[site]]\nname = "site-{k + 1}"\nkey = "{key}"' for k, key in enumerate(keys)
    )
    fewest = "" if threshold is None else f"[sum]\nthreshold = {threshold}\n"
    checks = f"[checks]\ninfluence = {influence}\n" if influence else ""
    evaluation = "" if hold_out is None else f"[evaluation]\nhold_out = {hold_out}\n"
    columns = re.sub(r"^\[(\[?)", r"[\1schema.", schema.to_toml(), flags=re.M)
    return f"""\
version = 1
name = "{name}"
public_seed = 7
[model]
{model}
[schema]
{columns}
[privacy]
epsilon = {epsilon}
delta = {delta}
dp_model = "{dp_model}"
retry_budget = {reserve}
{fewest}{evaluation}
[coordinator]
key = "{coordinator}"
{sites}
[timing]
answer_seconds = 1
asks = 2
patience_seconds = 3
return_seconds = 0.1
at_once = {str(at_once).lower()}
{checks}"""


class ByName:
    """An exchange that is told by its `ask`, with messages by the names of sites."""

    names: Sequence[str]

    def __call__(self, messages, accept, quorum) -> Misses:
        by_name = {self.names[site]: message for site, message in messages.items()}
        answers = self.ask(by_name, quorum.seconds)
        by_place = {list(self.names).index(name): answer for name, answer in answers.items()}
        return hand_over(messages, by_place, accept)


class World(ByName):
    """Sites with stores that outlive coordinators, and the exchange with them."""

    def __init__(self, folder: Path, n_sites: int = 3, caps: Cost | None = None, **terms) -> None:
        self.place = folder
        self.identities = [Identity.generate() for _ in range(n_sites)]
        self.folder, own = RunFolder.create(folder / "run")
        keys = [identity.public.hex() for identity in self.identities]
        self.folder.study_file.write_text(study_text(keys, own.public.hex(), **terms), "utf-8")
        self.agreed = StudyFile.read(self.folder.study_file)
        self.study, self.names = self.agreed.study, self.agreed.names
        self.site_stores: list[SiteStore] = [self._site_store(k) for k in range(n_sites)]
        for site_store in self.site_stores:
            lifetime = float("inf") if self.study.limit == float("inf") else Fraction(100)
            site_store.ledger.set_lifetime(Measure.ZCDP, lifetime)
            site_store.ledger.approve(
                self.study.account, self.study.measure, caps or self.study.limit, "wards"
            )
        self.clients = [self._served(k) for k in range(n_sites)]
        self.away: set[str] = set()

    def _site_store(self, k: int) -> SiteStore:
        place = self.place / f"site{k}" / "store.sqlite"
        return SiteStore.open(place, self.identities[k], self.place / f"anchor{k}")

    def _served(self, k: int) -> Client:
        study, roster, rows = self.study, self.agreed.roster, self.rows(k)
        memory, pins = self.site_stores[k].memory(study.account), roster.fingerprints
        parameters = study.parameters
        site = Site(self.identities[k], roster, k, parameters, study.hash, memory, pins=pins)
        return Client(StudyRows(study, rows), site, memory)

    def rows(self, k: int) -> Rows:
        """What a site holds, with its own draws."""
        study = self.study
        X, y = sample(ROWS, study.schema)
        mine = np.arange(ROWS) % study.n_sites == k
        nothing = study.dp_model is DPModel.NONE
        own = Draws(self.site_stores[k].secret(study.account), study.account)
        draws = public_draws(study.public_seed, k) if nothing else own
        return Rows(encode(X[mine], study.schema, y=y[mine]), study.schema, draws)

    def start_anew(self, k: int) -> None:
        """The site's process ends, and another one starts."""
        self.site_stores[k].close()
        self.site_stores[k] = self._site_store(k)
        self.clients[k] = self._served(k)

    def ask(self, messages, timeout):
        return {
            name: self.clients[int(name[5:]) - 1].handle(message)
            for name, message in messages.items()
            if name not in self.away
        }

    def charged(self) -> list[list[str]]:
        """Rounds that each site was charged for."""
        return [
            [
                event.round_id
                for _, event in site_store.ledger.entries()
                if isinstance(event, Charged)
            ]
            for site_store in self.site_stores
        ]

    def verify(self) -> None:
        """Ledgers are whole; and the model, once there is one, follows from the transcript."""
        for site_store in self.site_stores:
            site_store.ledger.verify()
        if self.folder.is_finished:
            transcript = self.folder.path / "transcript.bin"
            checks = verify_model(self.folder.model_file, self.folder.study_file, transcript)
            assert not [check for check in checks if check.has_failed]

    def close(self) -> None:
        for site_store in self.site_stores:
            site_store.close()


# --------------------------------------------------------------------------------------------------
# Hundreds of real sites in one test: what all of them check, the same public bytes, is kept.
@pytest.fixture
def remembered(monkeypatch):
    """All sites check the same public bytes: do it once, for the test's sake only."""
    once = functools.cache(keys.verify_signature)
    for room in (envelope, opening):
        monkeypatch.setattr(room, "verify_signature", once)
    read_once, kept = functools.cache(read_body), {}
    monkeypatch.setattr(membership, "read_body", lambda body, read: read_once(bytes(body), read))

    def once_a_run(step):
        def remembering(what, *rest):
            key = (step, what if isinstance(what, bytes) else rest[0])
            if key not in kept:
                kept[key] = step(what, *rest)
            return kept[key]

        return remembering

    monkeypatch.setattr(membership, "read_keys", once_a_run(membership.read_keys))
    monkeypatch.setattr(membership, "form_session", once_a_run(membership.form_session))


def worst_total(charges: Iterable[Charge]) -> Cost:
    """The total of the worst-case record: tests and studies add, outcomes of one test do not."""
    tally = Tally()
    tally.add(tuple(charges))
    return tally.total


def weight_of(bundle: Sequence[Query]) -> int:
    """An upper bound on the bytes of a bundle."""
    weight = Weight()
    for query in bundle:
        weight.with_query(query)
    return weight.bytes
