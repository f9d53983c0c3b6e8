"""`hedgerow demo`: what it is for, in some seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.console import Json, Quiet, on_terminal, say_json


def demo(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also save the model to this file.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Five simulated hospitals: together, alone and pooled at the same promise."""
    from rich.console import Console

    from hedgerow.demo import run_demo

    shown = Console(quiet=json or quiet, highlight=False)
    result = run_demo(shown, show_progress=on_terminal(quiet or json))
    if output is not None:
        result.model.save(output)
    if json:
        say_json({"auc": result.auc, "privacy": result.model.privacy_.to_dict()})
