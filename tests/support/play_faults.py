"""python tests/support/play_faults.py [--missing | PLAY ...]: plays faults, for their page.

Without names it plays all, with real processes. What came of each is kept in
benchmarks/results.json, and `make docs` makes the page of it: one play can be made anew, and with
`--missing` those alone are played that were not yet.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:1] = [str(ROOT / "tests"), str(ROOT)]  # this folder has an `examples` of its own

from benchmarks import results  # noqa: E402
from support.engine_world import FLARE_FAULTS, FLOWER_FAULTS, EngineWorld  # noqa: E402
from support.faults import FAULTS, network  # noqa: E402

PART = "faults"
ALL = [fault.name for fault in (*FAULTS, *FLARE_FAULTS, *FLOWER_FAULTS)]


def flare(folder: Path) -> AbstractContextManager[EngineWorld]:
    from support.flare_world import flare_world

    return flare_world(folder)


def flower(folder: Path) -> AbstractContextManager[EngineWorld]:
    """With the Python of the environment that has Flower."""
    from support.flower_world import flower_world

    return flower_world(folder)


def keep(name: str, play: dict[str, Any]) -> None:
    plays = results.read(PART) | {name: play}
    results.write(PART, {name: plays[name] for name in ALL if name in plays})
    print(name, play, flush=True)


def main(words: Sequence[str]) -> None:
    known = results.read(PART)

    def is_asked(fault: Any) -> bool:
        return fault.name not in known if words == ["--missing"] else fault.name in (words or ALL)

    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        if faults := list(filter(is_asked, FAULTS)):
            consortium = opened.enter_context(network(Path(folder)))
            for fault in faults:
                keep(fault.name, asdict(consortium.play(fault)))
    for plays, module, world in ((FLARE_FAULTS, "nvflare", flare), (FLOWER_FAULTS, "flwr", flower)):
        faults = list(filter(is_asked, plays))
        if faults and find_spec(module) is None:
            print(f"not played, since {module} is not installed here: {len(faults)} plays")
        elif faults:
            with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as engine:
                for fault in faults:
                    outcome, jobs = engine.play(fault, Path(folder))
                    keep(fault.name, {**asdict(outcome), "jobs": jobs})


if __name__ == "__main__":
    main(sys.argv[1:])
