"""`hedgerow choose`: several estimators on one promise, compared by one private query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.console import Json, Quiet, on_terminal, say, say_json, tell, warnings_as_lines
from hedgerow.cli.fit import asked_for, typed_estimator
from hedgerow.cli.writing import Force, check_output

if TYPE_CHECKING:
    from hedgerow.methods.base import PrivateEstimator
    from hedgerow.schema.schema import Schema


def choose(
    candidates: Annotated[
        list[str],
        typer.Argument(
            help="Such as ForestClassifier, or with parameters in quotes: 'TreeClassifier "
            "max_depth=4'."
        ),
    ],
    data: Annotated[
        list[str], typer.Option("--data", "-d", help="Rows of one site, a file each; repeat.")
    ],
    schema: Annotated[Path, typer.Option(help="The schema file (.toml).")],
    epsilon: Annotated[
        float,
        typer.Option(
            help="The promise to every record: candidates share it, and records that are held out "
            "pay it for the comparison alone."
        ),
    ] = 1.0,
    delta: Annotated[float, typer.Option(help="Shared by the candidates.")] = 1e-6,
    hold_out: Annotated[
        int, typer.Option(help="One record in so many is held out, by a secret draw.", min=2)
    ] = 5,
    stage: Annotated[
        list[int] | None,
        typer.Option(
            help="Early stopping: compare boosted trees with their own first trees too, so many of "
            "them; repeat. Trees that are dropped were paid for.",
            min=1,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column to be predicted, if the schema leaves several.")
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="The column that says whose record a row is.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="A file in which fits and comparison add up.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the best goes.")] = Path(
        "model.json"
    ),
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Trains some estimators, compares them by one private query, and writes the best."""
    from hedgerow.methods.choose import choose as best_of
    from hedgerow.methods.files import rows_of_sites
    from hedgerow.methods.model_file import check_place
    from hedgerow.schema.schema import Schema

    check_place(output)  # before anything is spent
    check_output(output, schema, ledger, *data, force=force)
    known = Schema.from_toml(schema)
    with warnings_as_lines(quiet):
        made = _candidates(candidates, known, epsilon, delta, ledger)
    if len(made) == 1 and not stage:
        raise asked_for("one candidate was given", "name two or more, or stages of it: --stage 10")
    for one in made:
        one.progress = on_terminal(quiet)
    with warnings_as_lines(quiet):
        rows, labels, whose = rows_of_sites(data, known, target, person)
        asked: dict[str, Any] = {"epsilon": epsilon, "hold_out": hold_out, "ledger": ledger}
        found = best_of(made, rows, labels, stages=stage or (), **asked, **whose)
    best = found.chosen.keep(found)
    best.progress = False
    best.save(output)
    if json:
        told = found.to_dict() | {"names": list(found.names), "chosen": found.chosen_name}
        say_json({"model": str(output), "comparison": told, "privacy": best.privacy_.to_dict()})
        return
    tell(f"{found}\nThe best: {found.chosen_name}")
    if not quiet:
        words = f"{found.chosen_name}; its own fit has {best.privacy_.promise}"
        say(f"\n{found.privacy_}\n\n{output}: {words}.")


def _candidates(
    texts: list[str], schema: Schema, epsilon: float, delta: float, ledger: Path | None
) -> list[PrivateEstimator]:
    """Each with an equal part of the promise, so that all of them together keep it."""
    from hedgerow.privacy.accounting.conversions import check_promise, warn_if_weak
    from hedgerow.privacy.accounting.rounding import float_below
    from hedgerow.schema.rules import exact

    parts = {"epsilon": exact(epsilon, "epsilon"), "delta": exact(delta, "delta")}
    check_promise(**parts)
    warn_if_weak(parts["delta"])
    share = {name: float_below(total / len(texts)) for name, total in parts.items()}
    return [typed_estimator(text, {"schema": schema, "ledger": ledger, **share}) for text in texts]
