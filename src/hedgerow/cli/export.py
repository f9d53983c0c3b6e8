"""`hedgerow export` and `hedgerow report`: a model for other programs and for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.console import Json, Quiet, say_json, tell
from hedgerow.cli.models import ModelPath
from hedgerow.cli.writing import Force, check_output


def export(
    model: ModelPath,
    to: Annotated[str, typer.Option(help="onnx, python, sql, xgboost, dot, text or registry.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Writes a model for another program, or its statement for a registry."""
    from hedgerow.estimators.saving import load

    check_output(output, model, force=force)
    _say(load(model).export(output, to=to), "", json, quiet)


def report(
    model: ModelPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Writes one HTML page about a model, for everybody whom it concerns."""
    from hedgerow.estimators.saving import load

    hint = " Open it in a browser; it asks no network."
    loaded = load(model)
    check_output(output, model, force=force, digest=loaded.model_.score.digest)
    _say(loaded.report(output), hint, json, quiet)


def _say(written: Path, hint: str, json: bool, quiet: bool) -> None:
    size = written.stat().st_size
    if json:
        say_json({"file": str(written), "bytes": size})
    elif not quiet:
        tell(f"{written}: {size} bytes.{hint}")
