"""`hedgerow audit`: measures the loss of the real pipeline against its claim."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from hedgerow.cli.console import FOUND_SOMETHING, Json, Quiet, say_json, tell, warnings_as_lines


def audit(
    estimator: Annotated[
        str, typer.Option(help="Its class, papers.AUTHOR.METHOD, or 'all'.")
    ] = "TreeClassifier",
    placement: Annotated[str, typer.Option(help="curator, shares, silo or label.")] = "curator",
    epsilon: Annotated[float, typer.Option(help="The claim; loud claims are measured best.")] = 8.0,
    delta: Annotated[float, typer.Option(help="0 audits Laplace noise.")] = 1e-6,
    fits: Annotated[int, typer.Option(help="How many fits are watched.", min=1)] = 3,
    canaries: Annotated[
        int, typer.Option(help="Records that a coin puts in, each fit.", min=1)
    ] = 60,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Puts canaries into fits of the real pipeline and measures what its releases lose.

    Exit code 1 if anything is above its claim.
    """
    from hedgerow.audit.running import audited, estimators_named, lines
    from hedgerow.errors import SpecError, UnsupportedQuery

    told: dict[str, Any] = {}
    kinds, sound = estimators_named(estimator), True
    for name, kind in kinds.items():
        try:
            with warnings_as_lines(quiet):
                found = audited(kind, placement, epsilon, delta, canaries=canaries, fits=fits)
        except (SpecError, UnsupportedQuery) as refused:
            if len(kinds) == 1:
                raise
            told[name] = {"refused": str(refused)}
            words = [f"{name} does not run so: {refused}"]
        else:
            told[name] = {"is_sound": found.is_sound, **asdict(found)}
            words = [*lines(name, placement, found)]
            sound = sound and found.is_sound
        if not json and not quiet:
            tell("\n".join(words))
    if json:
        say_json(told)
    raise typer.Exit(0 if sound else FOUND_SOMETHING)
