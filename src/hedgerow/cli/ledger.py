"""`hedgerow ledger`: what fits that name one ledger add up to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="What fits that name one ledger add up to.", no_args_is_help=True)
LedgerPath = Annotated[Path, typer.Argument(help="The file that fits name as `ledger`.")]


@app.command()
def show(path: LedgerPath) -> None:
    """Every limit and every fit, and what they add up to."""
    from hedgerow.estimators.ledger import Ledger, told

    ledger = Ledger(path)
    for number, event in ledger.events():
        print(told(number, event))
    print(ledger.total().promise)


@app.command()
def verify(path: LedgerPath) -> None:
    """Checks every link, signature and sum, and the anchor."""
    from hedgerow.estimators.ledger import Ledger

    total = Ledger(path).verify()
    print(f"{total.promise}; {total.place}: all links, signatures and sums are right.")
