"""`hedgerow ledger`: the budget spent by each study, and a check that no entry was changed.

A ledger is the file that fits name, or the state folder of a site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.console import Force, Json, Quiet, check_output, say_json, tell

app = typer.Typer(help="Show and verify the privacy ledger.", no_args_is_help=True)
LedgerPath = Annotated[Path, typer.Argument(help="Read a ledger file, or a site's state folder.")]


@app.command()
def show(path: LedgerPath, json: Json = False, quiet: Quiet = False) -> None:
    """Show every limit, approval, fit and round, and the total."""
    if path.is_dir():
        from hedgerow.deployment.site_ledger import told_ledger

        lines = list(told_ledger(path))
    else:
        from hedgerow.methods.ledger import Ledger, describe_event

        ledger = Ledger(path)
        lines = [describe_event(number, event) for number, event in ledger.events()]
        lines.append(ledger.total().summary)
    if json:
        say_json({"ledger": str(path), "lines": lines})
    else:
        tell("\n".join(lines[-1:] if quiet else lines))


@app.command()
def verify(path: LedgerPath, json: Json = False, quiet: Quiet = False) -> None:
    """Verify every hash link, signature and sum, and the rollback anchor."""
    if path.is_dir():
        from hedgerow.deployment.site_ledger import verified_ledger

        words = verified_ledger(path)
    else:
        from hedgerow.methods.ledger import Ledger

        total = Ledger(path).verify()
        words = f"{total.summary}; {total.place}: all links, signatures and sums are ok."
    if json:
        say_json({"ledger": str(path), "right": True, "words": words})
    elif not quiet:
        tell(words)


@app.command()
def export(
    path: LedgerPath,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file instead of the terminal.")
    ] = None,
    force: Force = False,
) -> None:
    """Export a site's entries as signed JSON lines, for an auditor."""
    from hedgerow.deployment.site_ledger import exported_ledger

    if out is not None:
        check_output(out, path, force=force)
    text = "".join(line + "\n" for line in exported_ledger(path))
    if out is None:
        tell(text, end="")
    else:
        out.write_text(text, encoding="utf-8")
