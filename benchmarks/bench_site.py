"""What a site's service holds in memory, and what an image of it takes.

python -m benchmarks.bench_site       the image, and a study between four containers
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import results
from examples.containers.dry_run import walk_in_containers
from hedgerow.deployment.approve import approve
from hedgerow.deployment.rehearsal import Walk
from hedgerow.deployment.site_state import DataPlace, StateFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.audit_log import Audit, lines_of
from hedgerow.schema.schema import Numeric, Schema
from hedgerow.secagg.keys import Identity

COLUMNS = 30
POLICY = """\
methods = "any"
features = "any"
dp_models = "any"
epsilon_per_study = "1"
delta_per_study = "1e-5"
fewest_sites = 2
[lifetime]
epsilon = "unlimited"
[trusted_sites]
"""


def approved(folder: Path, rows: int) -> StateFolder:
    """A site with a table of random numbers, and a study of two that it has approved."""
    site = StateFolder.create(folder / "site", "site", folder / "anchor")
    peer = Identity.generate()
    site.policy_file.write_text(POLICY + f'peer = "{peer.fingerprint}"\n', encoding="utf-8")
    schema = Schema(
        tuple(Numeric(f"x{k}", 0.0, 1.0) for k in range(COLUMNS)), classes=("no", "yes")
    )
    rng = np.random.default_rng(0)
    table = {name: rng.random(rows, np.float32) for name in schema.names}
    labels = np.array(["no", "yes"])[(table["x0"] > 0.5).astype(int)]
    pq.write_table(pa.table({**table, "target": labels}), folder / "rows.parquet")
    keys = {"site": site.identity().public.hex(), "peer": peer.public.hex()}
    roster = "".join(f'[[site]]\nname = "{n}"\nkey = "{key}"\n' for n, key in keys.items())
    text = schema.to_toml().replace("[[feature]]", "[[schema.feature]]")
    (folder / "study.toml").write_text(
        'version = 1\nname = "memory"\npublic_seed = 0\n'
        '[model]\nestimator = "TreeClassifier"\n'
        f"[schema]\n{text}\n[privacy]\nepsilon = 1\ndelta = 1e-6\n"
        f'[coordinator]\nkey = "{Identity.generate().public.hex()}"\n{roster}',
        encoding="utf-8",
    )
    place = DataPlace(str(folder / "rows.parquet"), "target")
    approve(site, StudyFile.read(folder / "study.toml"), place, Audit(site.audit_file))
    return site


def of_a_service(folder: Path, rows: int) -> dict[str, Any]:
    """Seen from outside: bytes, and CPU seconds until it serves."""
    site = approved(folder, rows)
    walk = Walk(folder, say=lambda text: None)
    try:
        walk.leave_running(f"hedgerow site serve {site.root}")
        process, highest = psutil.Process(walk.running[0].pid), 0
        while not any(line["event"] == "serves" for line in lines_of(site.audit_file)):
            highest = max(highest, process.memory_info().rss)
            time.sleep(0.05)
        spent, resident = process.cpu_times(), process.memory_info().rss
    finally:
        walk.stop()
    return {
        "rows": rows,
        "columns": COLUMNS,
        "cpu": spent.user + spent.system,
        "file_bytes": (folder / "rows.parquet").stat().st_size,
        "resident": resident,
        "highest": max(highest, resident),
    }


# --------------------------------------------------------------------------------------------------
# python -m benchmarks.bench_site: the image's size, and a study between four containers.
PART = "containers"


def measure_containers() -> None:
    with tempfile.TemporaryDirectory() as folder:
        results.write(PART, walk_in_containers(Path(folder), lambda text: print(text, flush=True)))


if __name__ == "__main__":
    measure_containers()
