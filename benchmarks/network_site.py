"""python -m benchmarks.network_site K PLACE PORT FOLDER: one site of `bench_network`, as a process.

It answers letters of the secure sum from a vault on disk, and echoes whatever else comes: as many
bytes as the first eight say.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from benchmarks.network_world import MARK, identities, rows_of, study_of
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.secagg.keys import Roster
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.site import Site
from hedgerow.site.member import Member
from hedgerow.site.policy import Policy
from hedgerow.site.vault import Vault
from hedgerow.transport.certificates import client_context
from hedgerow.transport.endpoint import Endpoint
from hedgerow.transport.https import Caller


def endpoint(parties: int, place: int, folder: Path) -> Endpoint:
    *sites, coordinator = identities(parties)
    roster = Roster(tuple(one.public for one in sites), coordinator.public)
    study = study_of(parties)
    own = folder / f"site-{place + 1}"
    vault = Vault.open(own / "vault.sqlite", sites[place], folder / f"anchor-{place}")
    vault.ledger.set_lifetime(Measure.ZCDP, math.inf)
    vault.ledger.approve(study.account, study.measure, study.limit, study.name)
    memory = vault.memory(study.account)
    parameters = Parameters.of(study.parameters)
    pins = roster.fingerprints
    site = Site(sites[place], roster, place, parameters, study.hash, memory, pins=pins)
    member = Member(study, rows_of(study, place), Policy.open())
    return Endpoint(member, site, vault, lambda: vault.head(study.account))


def main(parties: int, place: int, port: int, folder: Path) -> None:
    serving = endpoint(parties, place, folder)

    def handle(letter: bytes) -> bytes:
        if letter.startswith(MARK):
            return bytes(int.from_bytes(letter[len(MARK) : len(MARK) + 8], "big"))
        return serving.handle(letter)

    name = f"site-{place + 1}"
    files = (folder / f"{name}{end}" for end in (".key", ".crt", ".authority.crt"))
    Caller(f"https://127.0.0.1:{port}", client_context(*files), handle, note=print).run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), Path(sys.argv[4]))
