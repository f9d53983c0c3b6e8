"""`hedgerow verify`: whether a model file is what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.console import FOUND_SOMETHING, Json, Quiet, say_json
from hedgerow.cli.models import ModelPath


def verify(
    model: ModelPath,
    roster: Annotated[
        Path | None, typer.Option(help="The study file, whose keys the signatures are held to.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Checks a model's form, hashes and sums and, with its study, everybody's signatures."""
    from hedgerow.agreement.verifying import verified

    checks = verified(model, roster)
    if json:
        say_json([{"what": c.what, "right": c.is_right, "words": c.words} for c in checks])
    elif not quiet:
        for check in checks:
            print(f"{'right' if check.is_right else 'WRONG':>6}  {check.what:<14} {check.words}")
    if not all(check.is_right for check in checks):
        raise typer.Exit(FOUND_SOMETHING)
