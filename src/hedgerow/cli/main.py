"""Arguments in, exit codes out: every group of commands has a file of its own beside this one."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgerow.cli import (
    audit,
    choosing,
    demo,
    export,
    fitting,
    ledger,
    models,
    planning,
    schema,
    site,
    study,
    verify,
    warming,
)
from hedgerow.cli.console import guarded, tell

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo.demo)
app.add_typer(schema.app, name="schema")
app.command()(fitting.fit)
app.command()(choosing.choose)
app.command()(models.predict)
app.command()(models.show)
app.command()(models.explain)
app.command()(models.evaluate)
app.command()(planning.plan)
app.command()(export.export)
app.command()(export.report)
app.command()(verify.verify)
app.command()(audit.audit)
app.command()(warming.warm)
app.add_typer(ledger.app, name="ledger")
app.add_typer(site.app, name="site")
app.add_typer(study.app, name="study")


def _version(wanted: bool) -> None:
    if wanted:
        from hedgerow.version import __version__

        tell(f"hedgerow {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Say which release this is.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Trees, forests and boosted trees over records that several sites hold.

    Exit codes:
    0 done; 1 a check found something;
    2 a mistake in what was asked; 3 a budget said no;
    4 a ledger cannot be trusted;
    5 a site or a round gave no answer;
    130 stopped from the keyboard.
    """


def entry() -> None:
    """The `hedgerow` command."""
    guarded(app)
