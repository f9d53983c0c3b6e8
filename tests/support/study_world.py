"""A study folder and its sites in this process, for tests of runs that stop and go on."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from hedgerow.data.prepared import StudyRows
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Draws, Rows, public_draws
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.client import Client
from hedgerow.federation.store.vault import Vault
from hedgerow.privacy.accounting.budget import Cost, Measure, Placement
from hedgerow.privacy.ledger.events import Charged
from hedgerow.secagg.client import Site
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity
from support.worlds import TWO, sample

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
