"""`hedgerow export` and `hedgerow report`: a model for other programs and for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.models import ModelPath


def export(
    model: ModelPath,
    to: Annotated[str, typer.Option(help="onnx, python, sql, xgboost, dot, text or registry.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
) -> None:
    """Writes a model for another program, or its statement for a registry."""
    from hedgerow.estimators.saving import load

    written = load(model).export(output, to=to)
    print(f"{written}: {written.stat().st_size} bytes.")


def report(
    model: ModelPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Writes one HTML page about a model, for everybody whom it concerns."""
    from hedgerow.estimators.saving import load

    written = load(model).report(output)
    print(f"{written}: {written.stat().st_size} bytes. Open it in a browser; it asks no network.")
