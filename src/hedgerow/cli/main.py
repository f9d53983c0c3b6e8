"""Arguments in, exit codes out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli import export
from hedgerow.errors import HedgerowError

app = typer.Typer(
    help="Trees, forests and boosted trees over records that several sites hold.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


ledgers = typer.Typer(help="What fits that name one ledger add up to.", no_args_is_help=True)
app.add_typer(ledgers, name="ledger")
LedgerPath = Annotated[Path, typer.Argument(help="The file that fits name as `ledger`.")]


app.command()(export.export)


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


@ledgers.command()
def show(path: LedgerPath) -> None:
    """Every limit and every fit, and what they add up to."""
    from hedgerow.estimators.ledger import Ledger, told

    ledger = Ledger(path)
    for number, event in ledger.events():
        print(told(number, event))
    print(ledger.total().promise)


@ledgers.command("verify")
def verify_ledger(path: LedgerPath) -> None:
    """Checks every link, signature and sum, and the anchor."""
    from hedgerow.estimators.ledger import Ledger

    total = Ledger(path).verify()
    print(f"{total.promise}; {total.place}: all links, signatures and sums are right.")


def entry() -> None:
    """The `hedgerow` command: one clear sentence instead of a traceback."""
    try:
        app()
    except HedgerowError as error:
        print(f"hedgerow: {error}", file=sys.stderr)
        raise SystemExit(2) from None
