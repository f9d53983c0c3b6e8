"""`hedgerow audit`: measures the loss of the real pipeline against its claim."""

from __future__ import annotations

from typing import Annotated

import typer


def audit(
    estimator: Annotated[
        str, typer.Option(help="The class to audit, or 'all'.")
    ] = "TreeClassifier",
    placement: Annotated[str, typer.Option(help="curator, shares or silo.")] = "curator",
    epsilon: Annotated[float, typer.Option(help="The claim; loud claims are measured best.")] = 8.0,
    delta: Annotated[float, typer.Option(help="0 audits Laplace noise.")] = 1e-6,
    fits: Annotated[int, typer.Option(help="How many fits are watched.")] = 3,
    canaries: Annotated[int, typer.Option(help="Records that a coin puts in, each fit.")] = 60,
) -> None:
    """Puts canaries into fits of the real pipeline and measures what its releases lose."""
    from hedgerow.audit.running import audited, estimators_named, lines
    from hedgerow.errors import SpecError, UnsupportedQuery

    sound, kinds = True, estimators_named(estimator)
    for kind in kinds:
        try:
            found = audited(kind, placement, epsilon, delta, canaries=canaries, fits=fits)
        except (SpecError, UnsupportedQuery) as refused:
            if len(kinds) == 1:
                raise
            print(f"{kind.__name__} does not run so: {refused}")
            continue
        print("\n".join(lines(kind.__name__, placement, found)))
        sound = sound and found.is_sound
    raise typer.Exit(0 if sound else 1)
