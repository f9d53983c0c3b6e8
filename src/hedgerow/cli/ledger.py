"""`hedgerow ledger`: what was spent, on what, and that nobody changed it.

A ledger is the file that fits name, or the state folder of a site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.console import Json, Quiet, say_json, tell
from hedgerow.cli.writing import Force, check_output

app = typer.Typer(help="What was spent, on what, and that nobody changed it.", no_args_is_help=True)
LedgerPath = Annotated[
    Path, typer.Argument(help="The file that fits name as `ledger`, or a site's state folder.")
]


@app.command()
def show(path: LedgerPath, json: Json = False, quiet: Quiet = False) -> None:
    """Every limit, approval, fit and round, and what they add up to."""
    lines = _lines(path)
    if json:
        say_json({"ledger": str(path), "lines": lines})
    else:
        tell("\n".join(lines[-1:] if quiet else lines))


def _lines(path: Path) -> list[str]:
    """One for each entry, and the sum last."""
    if path.is_dir():
        from hedgerow.deployment.site_ledger import told_ledger

        return list(told_ledger(path))
    from hedgerow.methods.ledger import Ledger
    from hedgerow.methods.ledger import told as told_of_fits

    ledger = Ledger(path)
    entries = [told_of_fits(number, event) for number, event in ledger.events()]
    return [*entries, ledger.total().promise]


@app.command()
def verify(path: LedgerPath, json: Json = False, quiet: Quiet = False) -> None:
    """Checks every link, signature and sum, and the anchor."""
    words = _verified(path)
    if json:
        say_json({"ledger": str(path), "right": True, "words": words})
    elif not quiet:
        tell(words)


def _verified(path: Path) -> str:
    """What is right; an error if anything is not."""
    if path.is_dir():
        from hedgerow.deployment.site_ledger import verified_ledger

        return verified_ledger(path)
    from hedgerow.methods.ledger import Ledger

    total = Ledger(path).verify()
    return f"{total.promise}; {total.place}: all links, signatures and sums are right."


@app.command()
def export(
    path: LedgerPath,
    out: Annotated[Path | None, typer.Option(help="A file; the terminal without it.")] = None,
    force: Force = False,
) -> None:
    """A site's entries as JSON lines, each with its head and signature, for an auditor."""
    from hedgerow.deployment.site_ledger import exported_ledger

    if out is not None:
        check_output(out, path, force=force)
    text = "".join(line + "\n" for line in exported_ledger(path))
    if out is None:
        tell(text, end="")
    else:
        out.write_text(text, encoding="utf-8")
