# ruff: noqa: E501
"""python make_faults_page.py [--missing | PLAY ...]: plays faults, writes docs/faults.md.

Without names it plays all, with real processes. What came of each is kept in
docs/results/faults/plays.json, and the page is written from there: one play can be made anew, and
with `--missing` those alone are played that were not yet.
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
a clock that is a day behind (`clock`) or ahead (`ahead`). A killed process is started again at once.

Without noise the model must be, bit for bit, that of a run that nobody disturbed. `charged` counts
the rounds in each site's own ledger, which is verified; the second site is the one that is hurt. A
void round is one that could not be opened any more: a site had died in it before its answer was
stored. Seconds include the restart, on a machine with other work to do.

Made by `python tests/contract/make_faults_page.py`; `tests/contract/test_faults.py` plays the same.

"""
ALL = {fault.name for fault in (*FAULTS, *FLARE_FAULTS)}
COLUMNS = ("play", "same model", "rounds", "void", "charged", "each round once", "seconds")
FLARE = """
## Over FLARE

The same study through a FLARE network of one server and three clients. Killed by SIGKILL, before or
after an exchange: the job process of the first site (`job`), FLARE's server with its own job
(`server`), the service of the first site (`site`), or the coordinator (`coordinator`), whose run
`hedgerow study resume --flare` takes up. `during` is in the middle of an exchange, when the first site
has just stored its answer. `unmask-3` is the last exchange of the run. If a job is lost another one
is submitted by itself; `jobs` counts them. Before the first exchange there is no job that could die.
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


def kept() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(PLAYS.read_text()) if PLAYS.exists() else {}
    return found


def keep(name: str, play: dict[str, Any]) -> None:
    plays = kept() | {name: play}
    PLAYS.write_text(json.dumps(plays, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(plays), encoding="utf-8")
    print(name, play, flush=True)


def main(words: Sequence[str]) -> None:
    PLAYS.parent.mkdir(exist_ok=True)
    known = kept()

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
