"""The command line's entry point; each group of commands has its own file."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgerow.cli import demo, fit, ledger, models, project, schema, site, study
from hedgerow.cli.console import run_guarded, tell
from hedgerow.errors import ParameterError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(demo.demo)
app.command()(project.new)
app.command()(project.rehearse)
app.add_typer(schema.app, name="schema")
app.command()(fit.fit)
app.command()(fit.select)
app.command()(models.predict)
app.command()(models.show)
app.command()(models.compare)
app.command()(models.explain)
app.command()(models.evaluate)
app.command()(fit.plan)
app.command()(models.export)
app.command()(models.serve)
app.command()(models.report)
app.command()(models.sign)
app.command()(models.verify)
app.command()(models.audit)
app.add_typer(ledger.app, name="ledger")
app.add_typer(site.app, name="site")
app.add_typer(study.app, name="study")


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
