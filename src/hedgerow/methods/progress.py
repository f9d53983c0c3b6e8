"""A progress bar over rounds and rehearsals; as a rule, nothing of what is over in two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hedgerow.privacy.statement.record import Listener, Progress, silent

WORTH_A_BAR_SECONDS = 2.0


_T = TypeVar("_T")


@contextmanager
def bar(show: bool, expected: int | None, *, at_once: bool = False) -> Iterator[Listener]:
    """Listens to rounds; draws them if asked to, `at_once` where even the first takes long."""
    with _drawn(show, "rounds", expected, at_once) as told:

        def listen(event: Progress) -> None:
            told(event.round if event.done else None)

        yield listen if show else silent


@contextmanager
def counted_steps(show: bool, what: str, expected: int) -> Iterator[Callable[[_T], _T]]:
    """Hands on whatever is finished, and draws how many of them there are."""
    done = 0
    with _drawn(show, what, expected) as told:

        def step(finished: _T) -> _T:
            nonlocal done
            done += 1
            told(done)
            return finished

        yield step


@contextmanager
def _drawn(
    show: bool, what: str, expected: int | None, at_once: bool = False
) -> Iterator[Callable[[int | None], None]]:
    """A bar that is told how many are done; None is only a sign of life."""
    if not show:
        yield lambda done: None
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
    task = drawing.add_task(what, total=expected)

    def told(done: int | None) -> None:
        if at_once or time.monotonic() - began > WORTH_A_BAR_SECONDS:
            drawing.start()
        if done is not None:
            drawing.update(task, completed=done)

    if at_once:
        told(0)
    try:
        yield told
    finally:
        drawing.stop()
