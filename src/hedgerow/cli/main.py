"""Arguments in, exit codes out: every group of commands has a file of its own beside this one."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgerow.cli import audit, choose, demo, fit, ledger, models, schema, site, study
from hedgerow.cli.console import guarded, tell

# --------------------------------------------------------------------------------------------------
# Compiles all loops ahead of their first use: for images, services and whoever hates to wait.


def warm() -> None:
    """Compile all loops now, so that no first fit waits for them; says where they are kept."""
    from hedgerow.kernels import warming

    warming.warm()
    tell(f"All loops are ready, kept in {warming.place() or 'this process alone'}.")


app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(demo.demo)
app.add_typer(schema.app, name="schema")
app.command()(fit.fit)
app.command()(choose.choose)
app.command()(models.predict)
app.command()(models.show)
app.command()(models.explain)
app.command()(models.evaluate)
app.command()(fit.plan)
app.command()(models.export)
app.command()(models.report)
app.command()(models.verify)
app.command()(audit.audit)
app.command()(warm)
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
