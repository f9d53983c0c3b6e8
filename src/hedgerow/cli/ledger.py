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
    lines = _lines(path)
    if json:
        say_json({"ledger": str(path), "lines": lines})
    else:
        tell("\n".join(lines[-1:] if quiet else lines))


def _lines(path: Path) -> list[str]:
    """One line per entry, and the total last."""
    if path.is_dir():
        from hedgerow.deployment.site_ledger import told_ledger

        return list(told_ledger(path))
    from hedgerow.methods.ledger import Ledger
    from hedgerow.methods.ledger import describe_event as told_of_fits

    ledger = Ledger(path)
    entries = [told_of_fits(number, event) for number, event in ledger.events()]
    return [*entries, ledger.total().summary]


@app.command()
def verify(path: LedgerPath, json: Json = False, quiet: Quiet = False) -> None:
    """Verify every hash link, signature and sum, and the rollback anchor."""
    words = _verify(path)
    if json:
        say_json({"ledger": str(path), "right": True, "words": words})
    elif not quiet:
        tell(words)


def _verify(path: Path) -> str:
    """Describes what was verified; raises if any check fails."""
    if path.is_dir():
        from hedgerow.deployment.site_ledger import verified_ledger

        return verified_ledger(path)
    from hedgerow.methods.ledger import Ledger

    total = Ledger(path).verify()
    return f"{total.summary}; {total.place}: all links, signatures and sums are ok."


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
