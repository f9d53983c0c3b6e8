"""A progress bar over rounds, or silence. Nothing is drawn of what is over in two seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from hedgerow.coordinator.record import Listener, Progress, silent

WORTH_A_BAR_SECONDS = 2.0


@contextmanager
def bar(show: bool, expected: int | None) -> Iterator[Listener]:
    """Listens to rounds; draws them if asked to."""
    if not show:
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    began = time.monotonic()
    drawing = Bar(*columns, console=Console(stderr=True))
    task = drawing.add_task("rounds", total=expected)

    def listen(event: Progress) -> None:
        if time.monotonic() - began > WORTH_A_BAR_SECONDS:
            drawing.start()
        if event.done:
            drawing.update(task, completed=event.round)

    try:
        yield listen
    finally:
        drawing.stop()
