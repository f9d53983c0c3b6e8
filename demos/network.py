"""`make demo-network`: three sites and a coordinator as processes on the loopback, over HTTPS."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from demos.flare_network import free_port
from demos.walk import SITES, over_https, walking


def show(folder: Path) -> None:
    """Table, tree, and the last lines of one site's audit log."""
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    import hedgerow as hr
    from hedgerow.report.text import show_tree
    from hedgerow.site.audit import in_words, lines_of

    console = Console()
    model = hr.load(folder / "study/model.json")
    test = pd.read_csv(folder / "test.csv")
    table = Table("model", "rows it was trained on", "test accuracy")
    accuracy = model.score(test.drop(columns="diagnosis"), test["diagnosis"])
    table.add_row("one tree over three hospitals", "stay where they are", f"{accuracy:.3f}")
    console.print(table)
    console.print(show_tree(model), highlight=False)
    console.print(f"\nThe audit log of {SITES[0]}:", highlight=False)
    for line in list(lines_of(folder / SITES[0] / "audit.jsonl"))[-8:]:
        console.print(in_words(line), highlight=False, soft_wrap=True)


def main() -> None:
    from hedgerow.kernels.warming import warm

    print("compiling loops, once ...", flush=True)
    warm()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with walking(folder, say=lambda text: print(text, flush=True)) as walk:
            over_https(walk, free_port())
            show(folder)
    print(f"\nAll processes are stopped. {time.monotonic() - begun:.0f} s.")


if __name__ == "__main__":
    sys.exit(main())
