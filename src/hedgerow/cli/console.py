"""What all commands share: how they speak, and what their exit codes mean.

0  done
1  a check found something, and said what
2  a mistake in what was asked: a flag, a file, a schema, a parameter, rows
3  a budget or a policy said no; nothing was released
4  a ledger cannot be trusted or written
5  a site refused, or a round gave no answer
130  stopped from the keyboard
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from hedgerow.errors import (
    BudgetExceeded,
    ComputationFailed,
    HedgerowError,
    LedgerError,
    PartyRefused,
    RoundFailed,
)
from hedgerow.schema.visible import visible_lines

FOUND_SOMETHING, MISTAKE, NO_BUDGET, BAD_LEDGER, NO_ANSWER, STOPPED = 1, 2, 3, 4, 5, 130
EXIT_CODES: tuple[tuple[type[HedgerowError], int], ...] = (
    (BudgetExceeded, NO_BUDGET),
    (LedgerError, BAD_LEDGER),
    (ComputationFailed, NO_ANSWER),
    (PartyRefused, NO_ANSWER),
    (RoundFailed, NO_ANSWER),
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but what was asked for.")]


def _as_line(words: str) -> None:
    """A warning without the place in our source that raised it."""
    tell(f"hedgerow: warning: {words}", file=sys.stderr)


def exit_code_of(error: HedgerowError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), MISTAKE)


def guarded(command: Callable[[], Any]) -> None:
    """Runs the program: one clear sentence instead of a traceback for a user's mistake."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without a letter shows a mark
    warnings.showwarning = lambda message, *_, **__: _as_line(str(message))
    try:
        command()
    except HedgerowError as error:
        complain(str(error))
        raise SystemExit(exit_code_of(error)) from None
    except BrokenPipeError:  # the reader of a pipe had enough
        sys.stderr.close()
        raise SystemExit(0) from None
    except OSError as error:
        complain(f"{error.filename or 'a file'} cannot be used: {error.strerror}; check the path.")
        raise SystemExit(MISTAKE) from None
    except KeyboardInterrupt:
        complain("stopped. What was charged before stays charged.")
        raise SystemExit(STOPPED) from None


def complain(words: str) -> None:
    tell(f"hedgerow: {words}", file=sys.stderr)


def tell(words: object, **how: Any) -> None:
    """Prints. Whoever wrote a text that is shown, no character of it steers the terminal."""
    print(visible_lines(str(words)), **how)


def say(text: str) -> None:
    """Lines as wide as the terminal; whole ones where a program reads them."""
    from hedgerow.report.text import hanging

    tell(hanging(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)


def say_json(value: Any) -> None:
    print(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=True))


@contextmanager
def warnings_as_lines(quiet: bool) -> Iterator[None]:
    """All warnings of a command, once each, when it is done; none if it is to be quiet."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            told = dict.fromkeys(str(one.message) for one in caught)
            for words in () if quiet else told:
                _as_line(words)


def on_terminal(quiet: bool) -> bool:
    """Whether progress can be shown to anybody."""
    return not quiet and sys.stderr.isatty()
