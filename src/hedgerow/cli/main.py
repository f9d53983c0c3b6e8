"""The command line's entry point; each group of commands has its own file."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgerow.cli import demo, fit, ledger, models, project, schema, site, study
from hedgerow.cli.console import run_guarded, tell
from hedgerow.errors import ParameterError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
COMMANDS = (
    *(demo.demo, project.new, project.rehearse, fit.fit, fit.select, models.predict, models.show),
    *(models.compare, models.explain, models.evaluate, fit.plan, models.export, models.serve),
    *(models.report, models.sign, models.verify, models.audit),
)
for command in COMMANDS:
    app.command()(command)
for group in (schema, ledger, site, study):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])


def _version(is_wanted: bool) -> None:
    if is_wanted:
        from hedgerow.version import __version__

        tell(f"hedgerow {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="Separate cells of text files by this character; default: by the header."
        ),
    ] = None,
) -> None:
    """Train trees, forests and boosted trees with differential privacy, at one site or federated.

    Exit codes:
    0 done; 1 a check found something;
    2 wrong usage; 3 the privacy budget is exhausted;
    4 a ledger cannot be trusted;
    5 a site or a round gave no answer;
    130 interrupted from the keyboard.
    """
    if delimiter is not None:
        declare_delimiter(delimiter)


def declare_delimiter(sign: str) -> None:
    from hedgerow.data.reading.files import DELIMITER

    sign = sign.replace("\\t", "\t")
    if len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in '"\r\n':
        raise ParameterError(f"delimiter is {sign!r}; use one sign, such as ';' or '\\t'.")
    DELIMITER.set(sign)


def entry() -> None:
    """The `hedgerow` command."""
    run_guarded(app)
