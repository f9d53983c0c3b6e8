# ruff: noqa: E501
"""The page of faults: what happens, what to do, and what came of every play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import results

HEAD = """\
# When something goes wrong

For engineers of sites and coordinators: what happens, and what to do.

| what | what happens | what to do |
|---|---|---|
| a site is silent | it is asked the same again, at no charge; with enough others the run goes on without it, and takes it back later | start its process again |
| too few are there | the run waits as long as `[timing]` says, then ends and names the silent | `hedgerow study resume` once they are back: the same round, at no charge |
| the coordinator dies | nothing is lost: what was answered is on disk before it is used | `hedgerow study resume` |
| a site's process dies in a round | if its answer was stored, it is sent again; if not, the others paid for that round, and it is asked once more out of `retry_budget` | start it again |
| a site refuses | the run ends and names the site and a constant code; the reason is in the site's own log | ask the site, then `resume` |
| a site lost its file | it refuses until it knows what it forgot | `hedgerow site restore`, with what `hedgerow study receipts` prints for it |

Why in this order: [rounds](design/rounds.md).

## Played with real processes

Three site processes and a coordinator on one machine, over HTTPS, grow one tree in three rounds;
nobody may be missing when a sum is opened. In each line one process fails once: killed by
SIGKILL before or after it did its part of an exchange (JOIN and OPEN begin a key session, ROUND asks,
UNMASK opens), stopped for ten seconds (`frozen`), unable to write (`full`), cut off by a rule in its
own network namespace until the others have waited in vain (`cut`), or killed and started again with
a clock that is a day behind (`clock`) or ahead (`ahead`). A killed process is started again at once.

Without noise the model must be, bit for bit, that of a run that nobody disturbed. `charged` counts
the rounds in each site's own ledger, which is verified; the second site is the one that fails. A
void round is one that could not be opened any more: a site had died in it before its answer was
stored. Seconds include the restart, on a machine with other work to do.

Played by `python tests/support/play_faults.py`; `tests/deployment/test_faults.py` plays the same.

"""
COLUMNS = ("play", "same model", "rounds", "void", "charged", "each round once", "seconds")
FLARE = """
## Over FLARE

The same study through a FLARE network of one server and three clients. Killed by SIGKILL, before or
after an exchange: the job process of the first site (`job`), FLARE's server with its own job
(`server`), the service of the first site (`site`), or the coordinator (`coordinator`), whose run
`hedgerow study resume --flare` takes up. `during` is in the middle of an exchange, when the first site
has just stored its answer. `unmask-3` is the last exchange of the run. If a job is lost another one
is submitted by itself; `jobs` counts them. Before the first exchange there is no job that could die.
`tests/federation/test_flare.py` plays the same.

"""
FLOWER = """
## Over Flower

The same study through a SuperLink and three SuperNodes with our executors. Killed by SIGKILL: the ServerApp
(`job`), the SuperLink with all it runs (`server`), the SuperNode of the first site (`node`), its executor
(`executor`), or ours as above. Started again at once are all; a SuperNode is refused for a while until the
SuperLink believes that the one before is dead. `tests/federation/test_flower_network.py` plays the same.

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


def page() -> str:
    plays = results.read("faults")
    https = [cells(name, play) for name, play in plays.items() if "jobs" not in play]
    text = HEAD + "".join(map(row, [COLUMNS, ["---"] * len(COLUMNS), *https]))
    return text + FLARE + _engine("flare", plays) + FLOWER + _engine("flower", plays)


def _engine(engine: str, plays: Mapping[str, dict[str, Any]]) -> str:
    columns = [*COLUMNS, "jobs"]
    of = [name for name, play in plays.items() if "jobs" in play and name.startswith(engine)]
    lines = [[*cells(name, plays[name]), plays[name]["jobs"]] for name in of]
    return "".join(map(row, [columns, ["---"] * len(columns), *lines]))
