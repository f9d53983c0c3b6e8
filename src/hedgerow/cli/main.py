"""Arguments in, exit codes out: every group of commands has a file of its own beside this one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli import audit, export, ledger, site
from hedgerow.errors import HedgerowError

app = typer.Typer(
    help="Trees, forests and boosted trees over records that several sites hold.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(ledger.app, name="ledger")
app.add_typer(site.app, name="site")


app.command()(export.export)
app.command()(export.report)
app.command()(audit.audit)


@app.callback()
def main() -> None:
    """Trees, forests and boosted trees over records that several sites hold."""


@app.command()
def demo(
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the tree to this .svg, .png or .pdf file.")
    ] = None,
) -> None:
    """Five parties in one process, on bundled data: accuracy, tree, privacy statement."""
    from rich.console import Console

    from hedgerow.demo import run_demo

    run_demo(Console(), picture=picture)


def entry() -> None:
    """The `hedgerow` command: one clear sentence instead of a traceback."""
    try:
        app()
    except HedgerowError as error:
        print(f"hedgerow: {error}", file=sys.stderr)
        raise SystemExit(2) from None
