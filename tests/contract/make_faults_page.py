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
# What happens when a process dies

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
