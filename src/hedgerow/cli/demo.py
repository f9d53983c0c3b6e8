"""`hedgerow demo`: what it is for, in some seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.console import Json, Quiet, on_terminal, say_json
from hedgerow.cli.writing import Force, check_output


def demo(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also save the model to this file.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write the model's report page to this .html file.")
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(help="Write the made-up patients to this .csv file instead, and end."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open that page in a browser.")] = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Five simulated hospitals: together, alone and pooled at the same promise."""
    from rich.console import Console

    from hedgerow.demo import run_demo, write_patients

    for path in (output, page, rows):
        if path is not None:
            check_output(path, force=force)
    if rows is not None:
        write_patients(rows)
        return
    shown = Console(quiet=json or quiet, highlight=False)
    result = run_demo(shown, show_progress=on_terminal(quiet or json))
    if output is not None:
        result.model.save(output)
    if page is not None:
        result.model.report(page)
    if show:
        typer.launch(str(page if page is not None else _page_of(result.model)))
    if json:
        say_json({"auc": result.auc, "privacy": result.model.privacy_.to_dict()})


def _page_of(model: Any) -> Path:
    """A page nobody named stays in the folder for such things until the system clears it."""
    import tempfile

    page = Path(tempfile.mkdtemp(prefix="hedgerow-demo-")) / "report.html"
    model.report(page)
    return page
