"""python -m benchmarks.bench_containers: the image's size, and a study between four containers."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import results
from examples.containers.dry_run import walk_in_containers

PART = "containers"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        results.write(PART, walk_in_containers(Path(folder), lambda text: print(text, flush=True)))


if __name__ == "__main__":
    main()
