"""`hedgerow verify`: whether a model file is what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.console import FOUND_SOMETHING, Json, Quiet, say_json, tell
from hedgerow.cli.models import ModelPath


def verify(
    model: ModelPath,
    roster: Annotated[
        Path | None, typer.Option(help="The study file, whose keys the signatures are held to.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Checks a model's form, hashes and sums and, with its study, everybody's signatures.

    Exit code 1 if a check failed; one that was not made says so, and why.
    """
    from hedgerow.agreement.verifying import verdict, verified

    checks = verified(model, roster)
    if json:
        told = [{"what": c.what, "outcome": c.outcome.value, "words": c.words} for c in checks]
        say_json({"verdict": verdict(checks), "checks": told})
    elif not quiet:
        for check in checks:
            tell(f"{check.outcome.value:>8}  {check.what:<14} {check.words}")
        tell(verdict(checks))
    if any(check.has_failed for check in checks):
        raise typer.Exit(FOUND_SOMETHING)
