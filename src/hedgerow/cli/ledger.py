"""`hedgerow ledger`: what was spent, on what, and that nobody changed it.

A ledger is the file that fits name, or the state folder of a site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="What was spent, on what, and that nobody changed it.", no_args_is_help=True)
LedgerPath = Annotated[
    Path, typer.Argument(help="The file that fits name as `ledger`, or a site's state folder.")
]


@app.command()
def show(path: LedgerPath) -> None:
    """Every limit, approval, fit and round, and what they add up to."""
    if path.is_dir():
        from hedgerow.agreement.site_ledger import told_ledger

        print("\n".join(told_ledger(path)))
        return
    from hedgerow.estimators.ledger import Ledger
    from hedgerow.estimators.ledger import told as told_of_fits

    ledger = Ledger(path)
    for number, event in ledger.events():
        print(told_of_fits(number, event))
    print(ledger.total().promise)


@app.command()
def verify(path: LedgerPath) -> None:
    """Checks every link, signature and sum, and the anchor."""
    if path.is_dir():
        from hedgerow.agreement.site_ledger import verified_ledger

        print(verified_ledger(path))
        return
    from hedgerow.estimators.ledger import Ledger

    total = Ledger(path).verify()
    print(f"{total.promise}; {total.place}: all links, signatures and sums are right.")


@app.command()
def export(
    path: LedgerPath,
    out: Annotated[Path | None, typer.Option(help="A file; the terminal without it.")] = None,
) -> None:
    """A site's entries as JSON lines, each with its head and signature, for an auditor."""
    from hedgerow.agreement.site_ledger import exported_ledger

    text = "".join(line + "\n" for line in exported_ledger(path))
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")
