# ruff: noqa: E501
"""python make_faults_page.py: plays every fault with real processes and writes docs/faults.md."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from contract.faults import FAULTS, Outcome, network  # noqa: E402

PAGE = ROOT / "docs" / "faults.md"
HEAD = """\
# When something goes wrong

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
UNMASK opens), stopped for ten seconds (`frozen`), unable to write (`full`), or killed and started
again with a clock that is a day behind (`clock`). A killed process is started again at once.

Without noise the model must be, bit for bit, that of a run that nobody disturbed. `charged` counts
the rounds in each site's own ledger, which is verified; the second site is the one that is hurt. A
void round is one that could not be opened any more: a site had died in it before its answer was
stored. Seconds include the restart, on a machine with other work to do.

Made by `python tests/contract/make_faults_page.py`; `tests/contract/test_faults.py` plays the same.

| play | same model | rounds | void | charged | each round once | seconds |
|---|---|---|---|---|---|---|
"""


def line(name: str, outcome: Outcome) -> str:
    yes = {True: "yes", False: "NO"}
    charged = ", ".join(map(str, outcome.charged))
    cells = [
        f"`{name}`",
        yes[outcome.same_model],
        str(outcome.rounds),
        str(outcome.void),
        charged,
        yes[outcome.charged_once],
        f"{outcome.seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder, network(Path(folder)) as consortium:
        for fault in FAULTS:
            lines.append(line(fault.name, consortium.play(fault)))
            print(lines[-1], end="", flush=True)
    PAGE.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
