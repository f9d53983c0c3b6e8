"""How much memory `hedgerow site serve` takes for many rows."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hedgerow.deployment.approve import approve
from hedgerow.deployment.site_state import DataPlace, StateFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.audit_log import Audit, lines_of
from hedgerow.schema.schema import Numeric, Schema
from hedgerow.secagg.keys import Identity, fingerprint

ROWS, COLUMNS = 1_000_000, 30
WAIT_SECONDS = 600.0
POLICY = """\
methods = "any"
features = "any"
dp_models = "any"
epsilon_per_study = "10"
delta_per_study = "1e-5"
fewest_sites = 2
[lifetime]
epsilon = "10"
delta = "1e-5"
[trusted_sites]
"peer" = "{pin}"
"""


@dataclass(frozen=True)
class Memory:
    rows: int
    columns: int
    file_bytes: int
    resident: int
    highest: int


def of_a_service(folder: Path) -> Memory:
    """A site that serves one study of boosted trees from a Parquet file, seen from outside."""
    schema = Schema(
        tuple(Numeric(f"x{k}", 0.0, 1.0) for k in range(COLUMNS)), classes=("no", "yes")
    )
    rows = _written(folder / "rows.parquet")
    state = StateFolder.create(folder / "site", "north", folder / "anchor")
    peer, own = Identity.generate(), Identity.generate()
    state.policy_file.write_text(POLICY.format(pin=fingerprint(peer.public)), encoding="utf-8")
    study = folder / "study.toml"
    sites = {"north": state.identity().public, "peer": peer.public}
    study.write_text(_study(schema, sites, own.public), encoding="utf-8")
    approve(state, StudyFile.read(study), DataPlace(str(rows), "target"), Audit(state.audit_file))
    words = ["-c", "from hedgerow.cli.main import entry; entry()", "site", "serve", str(state.root)]
    process = subprocess.Popen([sys.executable, *words, "--json"], stdout=subprocess.DEVNULL)
    try:
        _wait_until_it_serves(state, process)
        resident, highest = (_status(process.pid, name) for name in ("VmRSS", "VmHWM"))
    finally:
        process.terminate()
        process.wait(30)
    return Memory(ROWS, COLUMNS, rows.stat().st_size, resident, highest)


def _written(path: Path) -> Path:
    rng = np.random.default_rng(0)
    columns = {f"x{k}": rng.random(ROWS) for k in range(COLUMNS)}
    target = np.where(columns["x0"] > 0.5, "yes", "no")
    pq.write_table(pa.table({**columns, "target": target}), path)
    return path


def _study(schema: Schema, sites: dict[str, bytes], coordinator: bytes) -> str:
    roster = "".join(
        f'[[site]]\nname = "{name}"\nkey = "{key.hex()}"\n' for name, key in sites.items()
    )
    features = schema.to_toml().replace("[[feature]]", "[[schema.feature]]")
    return (
        'version = 1\nname = "memory"\npublic_seed = 7\n'
        '[model]\nestimator = "BoostedTreesClassifier"\n'
        f"[schema]\n{features}\n[privacy]\nepsilon = 1\n"
        f'[coordinator]\nkey = "{coordinator.hex()}"\n{roster}'
    )


def _wait_until_it_serves(state: StateFolder, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not any(line["event"] == "serves" for line in lines_of(state.audit_file)):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the site does not serve; see {state.log_file}")
        time.sleep(0.2)


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(found) * 1024
