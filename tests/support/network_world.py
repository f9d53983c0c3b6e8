"""A consortium in a temporary folder, for tests: state folders, a study file, rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from hedgerow.deployment.approve import approve
from hedgerow.deployment.site_state import DataPlace, StateFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.audit_log import Audit, lines_of
from hedgerow.federation.exchange import Carrier, Patience, Timing, patient
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.federation.transports.certificates import (
    Authority,
    Request,
    accept_certificate,
    authority_id,
    key_bytes,
    new_key,
)
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.training import Circumstances, train
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, fingerprint
from hedgerow.secagg.server import Coordinator
from support.worlds import TWO, sample

ROOT = Path(__file__).parents[2]
QUICK = Timing(answer_seconds=20, asks=3, patience_seconds=300, return_seconds=2)
OPEN_POLICY = """\
recipes = "any"
features = "any"
placements = "any"
epsilon_per_study = "100"
delta_per_study = "1e-5"
fewest_parties = 2

[lifetime]
epsilon = "{epsilon}"
delta = "1e-5"

[trusted_sites]
{pins}
"""


@dataclass
class World:
    """Sites `site-1`, `site-2`, ... with 40 rows each, and one coordinator."""

    folder: Path
    parties: int = 3
    placement: str = "nowhere"
    lifetime: str = "unlimited"
    sites: list[StateFolder] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.coordinator = Identity.generate()
        self.authority = Authority.open(self.folder / "authority")
        for k in range(self.parties):
            name = f"site-{k + 1}"
            anchor = self.folder / "anchors" / name
            self.sites.append(StateFolder.create(self.folder / name, name, anchor))
        self._write_policies()
        X, y = sample(40 * self.parties, TWO)
        self.X = pd.DataFrame(X, columns=list(TWO.names))
        self.y = y
        self.owner = np.arange(len(y)) % self.parties
        for k, site in enumerate(self.sites):
            rows = self.X[self.owner == k].assign(target=y[self.owner == k])
            rows.to_csv(self.data_of(site), index=False)
        self.study_file = self.write_study("study")

    @property
    def names(self) -> list[str]:
        return [site.name for site in self.sites]

    def data_of(self, site: StateFolder) -> Path:
        return self.folder / f"{site.name}.csv"

    def write_study(self, name: str, **change: object) -> Path:
        """`change` replaces words of the text."""
        roster = "".join(
            f'[[site]]\nname = "{site.name}"\nkey = "{site.identity().public.hex()}"\n\n'
            for site in self.sites
        )
        schema = TWO.to_toml().replace("[[feature]]", "[[schema.feature]]")
        text = (
            f'version = 1\nname = "{name}"\npublic_seed = 7\n\n'
            '[model]\nestimator = "HistogramTreeClassifier"\n\n'
            "[model.parameters]\nmax_depth = 2\n\n"
            f"[schema]\n{schema}\n"
            f'[privacy]\nepsilon = 1\ndelta = 1e-6\nplacement = "{self.placement}"\n\n'
            f'[coordinator]\nkey = "{self.coordinator.public.hex()}"\n\n{roster}'
        )
        for old, new in change.items():
            text = text.replace(old, str(new))
        path = self.folder / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def _write_policies(self) -> None:
        for site in self.sites:
            pins = "".join(
                f'"{peer.name}" = "{fingerprint(peer.identity().public)}"\n'
                for peer in self.sites
                if peer is not site
            )
            site.policy_file.write_text(OPEN_POLICY.format(epsilon=self.lifetime, pins=pins))

    def approve(self, study: Path, url: str | None = None) -> None:
        for site in self.sites:
            self.approve_at(site, study, url)

    def approve_at(self, site: StateFolder, study: Path, url: str | None = None) -> None:
        authority = self.certify(site) if url else None
        place = DataPlace(str(self.data_of(site)), "target", coordinator=url, authority=authority)
        approve(site, StudyFile.read(study), place, Audit(site.audit_file))

    def certify(self, site: StateFolder) -> str:
        """As `site request`, `study sign` and `site certify` do."""
        key, identity = new_key(), site.identity()
        reply = self.authority.sign(Request.make(site.name, identity, key), identity.public)
        own, root = accept_certificate(reply, self.authority.fingerprint, key, site.name)
        place = site.tls / authority_id(root)
        place.mkdir(exist_ok=True)
        (site.tls / "site.key").write_bytes(key_bytes(key))
        (place / "site.crt").write_bytes(own)
        (place / "authority.crt").write_bytes(root)
        return place.name

    # ------------------------------------------------------------------------------------ training
    def link(self, carrier: Carrier, study: Path | None = None, timing: Timing = QUICK):
        agreed = StudyFile.read(study or self.study_file)
        parameters = Parameters.of(agreed.study.parameters)
        hub = Coordinator(self.coordinator, agreed.roster, parameters, agreed.study.hash)
        patience = Patience(agreed.names, timing)
        return SecureSites(agreed.study, hub, patient(carrier, patience), patience)

    def train(self, carrier: Carrier, study: Path | None = None) -> PrivateEstimator:
        agreed = StudyFile.read(study or self.study_file)
        link = self.link(carrier, study)
        federation = Server(agreed.study, link, MemoryLedger(agreed.study.limit))
        model = agreed.estimator()
        train(model, agreed.study, agreed.recipe, federation, Circumstances(simulated=False))
        return model

    def in_one_process(self, study: Path | None = None) -> PrivateEstimator:
        """The same study, all rows in one process."""
        model = StudyFile.read(study or self.study_file).estimator()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(self.X, self.y, party=np.array(self.names)[self.owner])

    def lines(self, site: int, event: str) -> list[dict]:
        return [x for x in lines_of(self.sites[site].audit_file) if x["event"] == event]


def tree_of(model: PrivateEstimator) -> str:
    """All of a model but its statement."""
    return json.dumps(model.model_.to_dict(), sort_keys=True)


# -------------------------------------------------------------------------------------- processes
class Processes:
    """Those that a test started, and no others: each is stopped by its own id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []

    @staticmethod
    def environment(**more: str) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        return {**os.environ, "PYTHONPATH": path, **more}

    def start(
        self,
        *words: str | Path,
        folder: Path | None = None,
        within: Sequence[str] = (),
        **env: str,
    ) -> subprocess.Popen[bytes]:
        """`within`: the words of a command that runs others, in a namespace for example."""
        log = (self.folder / f"process-{len(self.running)}.log").open("wb")
        process = subprocess.Popen(
            [*within, sys.executable, *map(str, words)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self.environment(**env),
            cwd=folder,
        )
        log.close()
        self.running.append(process)
        return process

    def hedgerow(
        self, *words: str | Path, within: Sequence[str] = (), **env: str
    ) -> subprocess.Popen[bytes]:
        run = "from hedgerow.cli.main import entry; entry()"
        return self.start("-c", run, *words, within=within, **env)

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    started = Processes(folder)
    try:
        yield started
    finally:
        started.stop()
