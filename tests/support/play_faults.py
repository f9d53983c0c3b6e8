"""python tests/support/play_faults.py [--missing | PLAY ...]: plays faults, for their page.

Without names it plays all, with real processes. What came of each is kept in
benchmarks/results.json, and `make docs` makes the page of it: one play can be made anew, and with
`--missing` those alone are played that were not yet.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from benchmarks import results  # noqa: E402
from support.faults import FAULTS, network  # noqa: E402
from support.flare_world import FLARE_FAULTS, flare_world  # noqa: E402

PART = "faults"
ALL = [fault.name for fault in (*FAULTS, *FLARE_FAULTS)]


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
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        if faults := list(filter(is_asked, FLARE_FAULTS)):
            flare = opened.enter_context(flare_world(Path(folder)))
            for fault in faults:
                outcome, jobs = flare.play(fault, Path(folder))
                keep(fault.name, {**asdict(outcome), "jobs": jobs})


if __name__ == "__main__":
    main(sys.argv[1:])
