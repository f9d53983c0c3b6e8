"""Shared parts of all commands: options, output, warnings, exit codes, files that stay.

0  success
1  a check failed; the output says which
2  wrong usage: a flag, a file, a schema, a parameter, rows
3  refused by a budget or a policy; nothing was released
4  a ledger cannot be trusted or written
5  a site refused, or a round got no answer
130  interrupted from the keyboard
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.errors import (
    BudgetExceeded,
    ComputationFailed,
    HedgerowError,
    LedgerError,
    ParameterError,
    RoundFailed,
    SiteRefused,
)
from hedgerow.schema.visible import visible_lines

FOUND_SOMETHING, MISTAKE, NO_BUDGET, BAD_LEDGER, NO_ANSWER, STOPPED = 1, 2, 3, 4, 5, 130
EXIT_CODES: tuple[tuple[type[HedgerowError], int], ...] = (
    (BudgetExceeded, NO_BUDGET),
    (LedgerError, BAD_LEDGER),
    (ComputationFailed, NO_ANSWER),
    (SiteRefused, NO_ANSWER),
    (RoundFailed, NO_ANSWER),
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
WatchOption = Annotated[
    bool, typer.Option("--watch", help="Show it in a browser of this machine too.")
]
OutputFile = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")]
ModelOutput = Annotated[Path, typer.Option("--output", "-o", help="Write the model to this file.")]
SitesRows = Annotated[
    list[str], typer.Option("--data", "-d", help="Read one site's rows from this file; repeat.")
]
OptionalTarget = Annotated[
    str | None, typer.Option("--target", help="Name the column to predict, if it is not clear.")
]
Person = Annotated[str | None, typer.Option(help="Name the column that identifies the person.")]
Sql = Annotated[str | None, typer.Option(help="Select these rows, where --data is a database.")]
PushDown = Annotated[bool, typer.Option("--push-down", help="Let the database compute the sums.")]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Charge the cost to this ledger file.")
]
Latency = Annotated[
    float | None, typer.Option(help="Name the network's round trip in milliseconds.", min=0)
]


def _warn(words: str) -> None:
    """A warning without its location in our source."""
    tell(f"hedgerow: warning: {words}", file=sys.stderr)


def exit_code_of(error: HedgerowError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), MISTAKE)


def show_page(place: str) -> None:
    """Opens a page in a browser; without a screen, prints its location."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform.startswith("linux") and not any(map(os.environ.get, screens)):
        tell(f"there is no screen; open {place} in a browser.", file=sys.stderr)
    else:
        typer.launch(place)


def run_guarded(command: Callable[[], Any]) -> None:
    """Runs the program: one clear sentence instead of a traceback for a user's mistake."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a mark for what the terminal lacks
    warnings.showwarning = lambda message, *_, **__: _warn(str(message))
    try:
        command()
    except HedgerowError as error:
        complain(str(error))
        raise SystemExit(exit_code_of(error)) from None
    except BrokenPipeError:  # the reader of the pipe closed it
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
    """Prints, with control characters escaped, so that no text can control the terminal."""
    print(visible_lines(str(words)), **how)


def say(text: str) -> None:
    """Wraps lines to the terminal; does not wrap for programs."""
    from hedgerow.report.text import hanging

    tell(hanging(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)


def line_printer(as_json: bool, in_words: Callable[[Any], str]) -> Callable[[Any], None]:
    """Prints events: JSON for programs, words for a terminal, otherwise nothing."""
    if as_json:
        return lambda event: tell(json.dumps(event), flush=True)
    if sys.stdout.isatty():
        return lambda event: tell(in_words(event), flush=True)
    return lambda event: None


def say_json(value: Any) -> None:
    print(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=True))


@contextmanager
def warnings_as_lines(quiet: bool) -> Iterator[None]:
    """Shows all warnings of a command once each, at its end; none if `quiet`."""
    from hedgerow.data.reading.containers import ROWS_READ

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        token = ROWS_READ.set(ReadingProgress(quiet).note)
        try:
            yield
        finally:
            ROWS_READ.reset(token)
            messages = dict.fromkeys(str(warning.message) for warning in caught)
            for words in () if quiet else messages:
                _warn(words)


def address(text: str) -> tuple[str, int]:
    """Splits the value of `--listen` into host and port."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ParameterError(f"--listen is {text!r}; write an address and a port, 0.0.0.0:8443.")
    return host.strip("[]"), int(port)


SECONDS_BETWEEN_LINES = 3.0


class ReadingProgress:
    """Reports every few seconds how many rows are read, on a terminal and in a pipe."""

    def __init__(self, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock, self._last = quiet, clock, clock()

    def note(self, where: str, rows: int) -> None:
        now = self._clock()
        if not self._quiet and now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            tell(f"hedgerow: {where}: {rows:,} rows read", file=sys.stderr, flush=True)


def on_terminal(quiet: bool) -> bool:
    """Whether progress can be shown on a terminal."""
    return not quiet and sys.stderr.isatty()


# Which files a command may overwrite: never its inputs, nor what was paid for or confirmed. One
# rule for every command that names an output file, checked before anything is spent.

Force = Annotated[
    bool, typer.Option("--force", help="Overwrite a model, a report or a confirmed schema.")
]
SQLITE = b"SQLite format 3\0"


def check_output(
    output: Path, *inputs: str | Path | None, force: bool = False, digest: str = ""
) -> None:
    """Refuses to overwrite a file. `digest` is that of the model whose report is written."""
    if not output.is_file():  # nothing is lost; a pipe or a device is not read
        return
    for path in inputs:
        if path is not None and any(
            os.path.samefile(existing, output) for existing in _files_at(path)
        ):
            raise ParameterError(f"{output} is read by this command; name another file to write.")
    content_words = None if force else _precious(output, digest)
    if content_words is not None:
        raise ParameterError(
            f"{output} holds {content_words}, which would be lost; name another file to write, or "
            "say --force."
        )


def _files_at(place: str | Path) -> Iterator[Path]:
    """One file, all files of a folder, or all that match a pattern; none for a database."""
    path = Path(place)
    if path.is_dir():
        yield from (file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        yield path
    elif glob.has_magic(str(place)):
        yield from (Path(file) for file in glob.glob(str(place)) if Path(file).is_file())


def _precious(path: Path, digest: str) -> str | None:
    """The kind of a file that cannot simply be recreated; None for anything else."""
    from hedgerow.methods.model_file import MODEL_FORMAT

    content = path.read_bytes()
    if content.startswith(SQLITE):
        return "a ledger or another database"
    if content.lstrip().startswith(b"{") and f'"{MODEL_FORMAT}"'.encode() in content:
        return "a model"
    if b"[[site]]" in content and b"[privacy]" in content:
        return "a study"
    if b"[[feature]]" in content and not _is_draft(path):
        return "a schema that somebody wrote or confirmed"
    if b"hedgerow</title>" in content and (not digest or digest.encode() not in content):
        return "a report of another model"
    return None


def _is_draft(path: Path) -> bool:
    """Whether the whole schema was read from rows, so that it can be drafted again."""
    from hedgerow.schema.schema import Schema

    try:
        schema = Schema.from_toml(path)
    except ParameterError:
        return False
    has_outcome = schema.classes is not None or schema.target is not None
    return len(schema.unconfirmed) == len(schema.features) + has_outcome
