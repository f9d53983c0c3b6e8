"""`hedgerow plan`: what to expect of a fit, before anything is spent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.console import Json, Quiet, on_terminal, say_json, tell, warnings_as_lines


def plan(
    schema: Annotated[Path, typer.Argument(help="The schema file (.toml).")],
    rows: Annotated[int, typer.Option(help="Records of all sites together, as known in public.")],
    epsilon: Annotated[float, typer.Option(help="The promise.")] = 1.0,
    delta: Annotated[float, typer.Option(help="How often it may fail.")] = 1e-6,
    parties: Annotated[int, typer.Option(help="Sites.", min=1)] = 1,
    stand_in: Annotated[
        str | None, typer.Option(help="Public rows that resemble yours (.csv, .parquet).")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Do not ask: the rows of the stand-in are public.")
    ] = False,
    target: Annotated[
        str | None, typer.Option(help="The column of the stand-in to predict.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs of each estimator.", min=1)] = 2,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Noise, rounds, bytes, seconds and quality to expect, and which estimator to take."""
    from hedgerow.estimators.planning import plan as planned
    from hedgerow.values.schema import Schema

    known = Schema.from_toml(schema)
    public = public or (stand_in is not None and _is_public(stand_in))
    with warnings_as_lines(quiet):
        found = planned(
            known,
            rows,
            epsilon,
            delta=delta,
            parties=parties,
            stand_in=None if stand_in is None else _public_rows(stand_in, known, target),
            public=public,
            repeats=repeats,
            progress=on_terminal(quiet or json),
        )
    if json:
        say_json(found.to_dict())
    else:
        tell(found.estimator if quiet else found)


def _is_public(source: str) -> bool:
    """A person's word; where nobody can be asked there is none."""
    words = f"A plan tells of the rows in {source} without noise. Can everybody have them?"
    return sys.stdin.isatty() and typer.confirm(words)


def _public_rows(source: str, schema: Any, target: str | None) -> tuple[Any, Any]:
    from hedgerow.estimators.files import whole_table
    from hedgerow.estimators.sources import Columns, the_other_column

    label = target or the_other_column(source, schema, Columns())
    table = whole_table(source, [*schema.names, label])
    return table[:, :-1], table[:, -1]
