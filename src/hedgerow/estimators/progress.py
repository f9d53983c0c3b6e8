"""A progress bar over rounds, or silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hedgerow.coordinator.record import Listener, Progress, silent


@contextmanager
def bar(show: bool, expected: int | None) -> Iterator[Listener]:
    """Listens to rounds; draws them if asked to."""
    if not show:
        yield silent
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns) as drawing:
        task = drawing.add_task("rounds", total=expected)

        def listen(event: Progress) -> None:
            if event.done:
                drawing.update(task, completed=event.round)

        yield listen
