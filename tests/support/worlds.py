"""Small worlds that many tests share, all in this process: rows, federations, study folders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
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
from hedgerow.federation import response
from hedgerow.federation.client import Client
from hedgerow.federation.exchange import Collected
from hedgerow.federation.response import Response
from hedgerow.federation.server import Server
from hedgerow.federation.store.vault import Vault
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks import builder
from hedgerow.methods.blocks.builder import Node
from hedgerow.privacy.accounting.budget import Cost, Measure, Placement
from hedgerow.privacy.ledger.events import Charged
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import GROUPINGS, STATISTICS, Query, QueryKind, Score
from hedgerow.privacy.study import Study
from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema, Target
from hedgerow.secagg import envelope, keys, membership, opening
from hedgerow.secagg.client import Site
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity
from hedgerow.secagg.messages import Open

FEATURES = (
    Numeric("age", 0.0, 100.0, bins=8),
    Numeric("dose", 0.0, 1.0, bins=6),
    Categorical("ward", ("north", "south", "west")),
)
EVERY_KIND = frozenset(
    {QueryKind("SumQuery", s, g) for s in STATISTICS for g in GROUPINGS}
    | {QueryKind(kind, score.name) for kind in ("SelectQuery", "LocalChoice") for score in Score}
    | {QueryKind("BoundQuery")}
)
"""A recipe that asks anything."""
TWO = Schema(FEATURES, classes=("no", "yes"))
THREE = Schema(FEATURES, classes=("a", "b", "c"))
VALUE = Schema(FEATURES, target=Target(-2.0, 6.0))


def sample(n: int, schema: Schema, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with missing values, values out of range and an unknown ward."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(-10, 110, n), rng.uniform(0, 1, n)
    ward = rng.choice(["north", "south", "west", "elsewhere"], n)
    age[rng.random(n) < 0.1] = np.nan
    score = (age > 40).astype(float) + 2.0 * dose + (ward == "south") + rng.normal(0, 0.4, n)
    if schema.classes is None:
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


def holders(X: np.ndarray, y: np.ndarray, owner: np.ndarray, k: int, schema: Schema) -> list[Rows]:
    """One `Rows` per party 0..k-1, each with a secret of its own; a party may be empty."""
    draws = [Draws(bytes([i]) * 32, "test") for i in range(k)]
    return [
        Rows(encode(X[owner == i], schema, y=y[owner == i]), schema, own)
        for i, own in enumerate(draws)
    ]


def study(
    schema: Schema,
    parties: int,
    placement: Placement | None = None,
    epsilon: str = "1",
    delta: str = "0",
    **more: object,
) -> Study:
    numbers = Parameters.default(parties) if parties > 1 else None
    return Study(
        name="test",
        schema=schema,
        recipe="test",
        asks=EVERY_KIND,
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        placement=placement or (Placement.CURATOR if parties == 1 else Placement.SHARES),
        parties=parties,
        colluders=numbers.colluders if numbers else 0,
        threshold=numbers.threshold if numbers else 1,
        **more,  # type: ignore[arg-type]
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
    return in_process.open_federation(the_study, parts)


def round_of(sites: Any, number: int, queries: Sequence[Query]) -> Collected:
    """One round, as a server asks it."""
    return sites.round(number, [priced(sites.study, query) for query in queries])


def tap(patched: pytest.MonkeyPatch, rows: StudyRows, around: Callable[..., Response]) -> None:
    """`around` gets the way to make a site's own responses; other sites are left alone."""
    plain = response.respond

    def tapped(of: StudyRows, *given: Any) -> Response:
        return around(lambda: plain(of, *given)) if of is rows else plain(of, *given)

    patched.setattr(response, "respond", tapped)


class Opened(Exception):
    """Stops a fit at the moment before its first round."""


def opened_by(model: Any, X: Any, y: Any, **how: Any) -> tuple[Study, list[Rows]]:
    """The study and the holders that a fit is about to run with."""

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
SCHEMA = TWO.to_toml().replace("[[feature]]", "[[schema.feature]]")


def study_text(
    keys: list[str],
    coordinator: str,
    *,
    placement: str = "nowhere",
    reserve: str = "0.3",
    threshold: int | None = None,
    name: str = "wards",
    epsilon: str = "1",
    hold_out: int | None = None,
    model: str = 'estimator = "HistogramTreeClassifier"\n[model.parameters]\nmax_depth = 2',
) -> str:
    sites = "\n".join(
        f'[[site]]\nname = "site-{k + 1}"\nkey = "{key}"' for k, key in enumerate(keys)
    )
    fewest = "" if threshold is None else f"[sum]\nthreshold = {threshold}\n"
    evaluation = "" if hold_out is None else f"[evaluation]\nhold_out = {hold_out}\n"
    return f"""\
version = 1
name = "{name}"
public_seed = 7
[model]
{model}
[schema]
{SCHEMA}
[privacy]
epsilon = {epsilon}
delta = 1e-6
placement = "{placement}"
retry_reserve = {reserve}
{fewest}{evaluation}
[coordinator]
key = "{coordinator}"
{sites}
[timing]
answer_seconds = 1
asks = 2
patience_seconds = 3
return_seconds = 0.1
"""


class World:
    """Sites with vaults that outlive coordinators; `ask` is the carrier."""

    def __init__(self, folder: Path, parties: int = 3, caps: Cost | None = None, **terms) -> None:
        self.place = folder
        self.identities = [Identity.generate() for _ in range(parties)]
        self.folder, own = RunFolder.create(folder / "run")
        keys = [identity.public.hex() for identity in self.identities]
        self.folder.study_file.write_text(study_text(keys, own.public.hex(), **terms), "utf-8")
        self.agreed = StudyFile.read(self.folder.study_file)
        self.study = self.agreed.study
        self.vaults: list[Vault] = [self._vault(k) for k in range(parties)]
        for vault in self.vaults:
            lifetime = float("inf") if self.study.limit == float("inf") else Fraction(100)
            vault.ledger.set_lifetime(Measure.ZCDP, lifetime)
            vault.ledger.approve(
                self.study.account, self.study.measure, caps or self.study.limit, "wards"
            )
        self.clients = [self._served(k) for k in range(parties)]
        self.away: set[str] = set()

    def _vault(self, k: int) -> Vault:
        place = self.place / f"site{k}" / "vault.sqlite"
        return Vault.open(place, self.identities[k], self.place / f"anchor{k}")

    def _served(self, k: int) -> Client:
        study, roster = self.study, self.agreed.roster
        X, y = sample(ROWS, TWO)
        mine = np.arange(ROWS) % study.parties == k
        nothing = study.placement is Placement.NOWHERE
        own = Draws(self.vaults[k].secret(study.account), study.account)
        draws = public_draws(study.public_seed, k) if nothing else own
        rows = Rows(encode(X[mine], study.schema, y=y[mine]), study.schema, draws)
        memory, pins = self.vaults[k].memory(study.account), roster.fingerprints
        parameters = Parameters.of(study.parameters)
        site = Site(self.identities[k], roster, k, parameters, study.hash, memory, pins=pins)
        return Client(StudyRows(study, rows), site, memory)

    def start_anew(self, k: int) -> None:
        """The site's process ends, and another one starts."""
        self.vaults[k].close()
        self.vaults[k] = self._vault(k)
        self.clients[k] = self._served(k)

    def ask(self, letters, timeout):
        return {
            name: self.clients[int(name[5:]) - 1].handle(letter)
            for name, letter in letters.items()
            if name not in self.away
        }

    def charged(self) -> list[list[str]]:
        """Rounds that each site was charged for."""
        return [
            [event.round_id for _, event in vault.ledger.entries() if isinstance(event, Charged)]
            for vault in self.vaults
        ]

    def verify(self) -> None:
        for vault in self.vaults:
            vault.ledger.verify()

    def close(self) -> None:
        for vault in self.vaults:
            vault.close()


# --------------------------------------------------------------------------------------------------
# Hundreds of real sites in one test: what all of them check, the same public bytes, is kept.
@pytest.fixture
def remembered(monkeypatch):
    """All sites check the same public bytes: do it once, for the test's sake only."""
    once = functools.cache(keys.verify)
    for room in (envelope, opening):
        monkeypatch.setattr(room, "verify", once)
    read_open, kept = functools.cache(Open.read), {}
    monkeypatch.setattr(Open, "read", lambda body: read_open(bytes(body)))

    def once_a_run(step):
        def remembering(what, *rest):
            key = (step, what if isinstance(what, bytes) else rest[0])
            if key not in kept:
                kept[key] = step(what, *rest)
            return kept[key]

        return remembering

    monkeypatch.setattr(membership, "read_keys", once_a_run(membership.read_keys))
    monkeypatch.setattr(membership, "form_epoch", once_a_run(membership.form_epoch))
