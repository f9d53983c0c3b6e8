# ruff: noqa: E501
"""python make_faults_page.py [PLAY ...]: plays faults with real processes, writes docs/faults.md.

Without names it plays all. What came of each is kept in docs/results/faults/plays.json, and the page
is written from there, so that one play can be made anew.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from contract.faults import FAULTS, network  # noqa: E402
from contract.flare_world import FLARE_FAULTS, flare_world  # noqa: E402

PAGE = ROOT / "docs" / "faults.md"
PLAYS = ROOT / "docs" / "results" / "faults" / "plays.json"
HEAD = """\
# When something goes wrong

For engineers of sites and coordinators: what happens, and what to do.

| what | what happens | what to do |
|---|---|---|
| a site is silent | it is asked the same again, at no charge; with enough others the run goes on without it, and takes it back later | start its process again |
| too few are there | the run waits as long as `[timing]` says, then ends and names the silent | `hedgerow study resume` once they are back: the same round, at no charge |
| the coordinator dies | nothing is lost: what was answered is on disk before it is used | `hedgerow study resume` |
| a site's process dies in a round | if its answer was stored, it is sent again; if not, the others paid for that round, and it is asked once more out of `retry_reserve` | start it again |
| a site refuses | the run ends and names the site and a constant code; the reason is in the site's own log | ask the site, then `resume` |
| a site lost its file | it refuses until it knows what it forgot | `hedgerow site restore`, with what `hedgerow study receipts` prints for it |

Why in this order: [decision 81](decisions/0081-the-cheapest-remedy-first.md).

## Played with real processes

Three site processes and a coordinator on one machine, over HTTPS, grow one tree in three rounds;
nobody may be missing when a sum is opened. In each line one process is hurt once: killed by
SIGKILL before or after it did its part of an exchange (JOIN and OPEN begin an epoch, ROUND asks,
UNMASK opens), stopped for ten seconds (`frozen`), unable to write (`full`), cut off by a rule in its
own network namespace until the others have waited in vain (`cut`), or killed and started again with
a clock that is a day behind (`clock`). A killed process is started again at once.

Without noise the model must be, bit for bit, that of a run that nobody disturbed. `charged` counts
the rounds in each site's own ledger, which is verified; the second site is the one that is hurt. A
void round is one that could not be opened any more: a site had died in it before its answer was
stored. Seconds include the restart, on a machine with other work to do.

Made by `python tests/contract/make_faults_page.py`; `tests/contract/test_faults.py` plays the same.

"""
COLUMNS = ("play", "same model", "rounds", "void", "charged", "each round once", "seconds")
FLARE = """
## Over FLARE

The same study through a FLARE network of one server and three clients. Killed by SIGKILL: the job
process of the first site (`job`), or FLARE's server with its own job (`server`), before an exchange or
in the middle of one, when that site has just stored its answer (`during`). Another job is submitted
by itself; `jobs` counts them. Before the first exchange a site has no job process that could die.
`tests/contract/test_flare.py` plays the same.

"""


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def cells(name: str, play: dict[str, Any]) -> list[str]:
    yes = {True: "yes", False: "NO"}
    return [
        f"`{name}`",
        yes[play["same_model"]],
        str(play["rounds"]),
        str(play["void"]),
        ", ".join(map(str, play["charged"])),
        yes[play["charged_once"]],
        f"{play['seconds']:.0f}",
    ]


def page(plays: dict[str, dict[str, Any]]) -> str:
    https = [cells(f.name, plays[f.name]) for f in FAULTS if f.name in plays]
    flare = [
        [*cells(f.name, plays[f.name]), plays[f.name]["jobs"]]
        for f in FLARE_FAULTS
        if f.name in plays
    ]
    text = HEAD + "".join(map(row, [COLUMNS, ["---"] * len(COLUMNS), *https]))
    columns = [*COLUMNS, "jobs"]
    return text + FLARE + "".join(map(row, [columns, ["---"] * len(columns), *flare]))


def main(names: Sequence[str]) -> None:
    PLAYS.parent.mkdir(exist_ok=True)

    def keep(name: str, play: dict[str, Any]) -> None:
        plays = json.loads(PLAYS.read_text()) if PLAYS.exists() else {}
        plays[name] = play
        PLAYS.write_text(json.dumps(plays, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        PAGE.write_text(page(plays), encoding="utf-8")
        print(name, play, flush=True)

    def is_asked(fault: Any) -> bool:
        return not names or fault.name in names

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
