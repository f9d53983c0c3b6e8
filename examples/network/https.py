"""`make demo-network`: three sites and a coordinator as processes on the loopback, over HTTPS."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from examples.network.walk import SITES, over_https
from hedgerow.deployment.rehearsal import Walk, free_port, walking


def show(folder: Path) -> None:
    """How good the model is, and the last lines of one site's audit log."""
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    import hedgerow as hr
    from hedgerow.federation.audit_log import in_words, lines_of

    model = hr.load(folder / "study/model.json")
    test = pd.read_csv(folder / "test.csv")
    accuracy = model.score(test.drop(columns="outcome"), test["outcome"])
    usual = test["outcome"].value_counts(normalize=True).max()
    table = Table("who says whether a patient returns", "accuracy on new patients")
    table.add_row("one tree over three hospitals, rows stay", f"{accuracy:.3f}")
    table.add_row("always the more frequent answer", f"{usual:.3f}")
    Console().print(table)
    print(f"\nThe audit log of {SITES[0]}:")
    for line in list(lines_of(folder / SITES[0] / "audit.jsonl"))[-8:]:
        print(in_words(line))


def demo(steps: Callable[[Walk], None]) -> None:
    """The steps in a folder that is thrown away, and what came of them."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with walking(folder, say=lambda text: print(text, flush=True)) as walk:
            steps(walk)
            show(folder)
    print(f"\nAll processes are stopped. {time.monotonic() - begun:.0f} s.")


if __name__ == "__main__":
    sys.exit(demo(lambda walk: over_https(walk, free_port())))
