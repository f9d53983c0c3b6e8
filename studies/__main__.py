"""`python -m studies NAME --data DIR`: a paper's experiments, made again, and the page about them.

What is read from a grid lands in a CSV file cell by cell, so a run that was stopped goes on where
it was. `--quick` runs a small grid beside the committed pages, never over them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.errors import HedgerowError, SpecError

RESULTS = Path("docs/results")
"""The committed pages."""
QUICK_RESULTS = Path("studies/quick")
"""Where `--quick` writes; git does not look at it."""

app = typer.Typer(
    help="The papers' experiments, made again: numbers, figures and a page.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Data = Annotated[
    Path | None,
    typer.Option(exists=True, file_okay=False, help="Folder of Parquet files (or HEDGEROW_DATA)."),
]
Out = Annotated[Path | None, typer.Option(help="Where results go; docs/results/NAME if not given.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="A small grid, in minutes, written to studies/quick/NAME.")
]
Workers = Annotated[int | None, typer.Option(help="Processes; all cores if not given.")]


def place(name: str, out: Path | None, quick: bool) -> Path:
    """Where a study writes. A small grid must not pass for the whole one."""
    if quick and out is not None and out.resolve().is_relative_to(RESULTS.resolve()):
        raise SpecError(
            f"--quick was asked to write to {out}, where the committed pages are; give another "
            f"folder, or none for {QUICK_RESULTS / name}."
        )
    return out or (QUICK_RESULTS if quick else RESULTS) / name


@app.command()
def gubler(
    data: Data = None,
    out: Out = None,
    quick: Quick = False,
    full: Annotated[bool, typer.Option("--full", help="All 50 runs of the report.")] = False,
    workers: Workers = None,
) -> None:
    """One private tree from histograms: Gubler 2023, Figures 2 to 5, and real data."""
    from studies.gubler.run import run

    run(place("gubler", out, quick), data, quick, workers, full)


@app.command()
def topdown(
    data: Data = None, out: Out = None, quick: Quick = False, workers: Workers = None
) -> None:
    """Private best-first trees: Wang, Dick and Balcan 2020, Figures 1 to 3."""
    from studies.topdown.run import run

    run(place("topdown", out, quick), data, quick, workers)


@app.command()
def boosted(
    data: Data = None,
    out: Out = None,
    quick: Quick = False,
    workers: Workers = None,
    splits: Annotated[int, typer.Option(help="Splits of each data set; the paper has 15.")] = 15,
) -> None:
    """Boosted trees: Maddock et al. 2022, Tables 3 to 6 and 9 to 12, and our default recipe."""
    from studies.boosted.run import run

    run(place("boosted", out, quick), data, quick, workers, splits)


@app.command()
def ours(data: Data = None, out: Out = None, quick: Quick = False, workers: Workers = None) -> None:
    """Our own tree, forest and regression on all data sets, beside the papers' methods."""
    from studies.ours.run import run

    run(place("ours", out, quick), data, quick, workers)


@app.command()
def which(
    data: Data = None,
    out: Out = None,
    quick: Quick = False,
    workers: Workers = None,
    splits: Annotated[int, typer.Option(help="Fresh splits of the default classifier.")] = 5,
    tasks: Annotated[int, typer.Option(help="Splits of every task of the overview.")] = 3,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="Run nothing; the page from what is finished.")
    ] = False,
) -> None:
    """Which estimator for which data and epsilon, and the default classifier on fresh splits."""
    from studies.which.run import Wanted, run

    wanted = Wanted(1, 1, True) if quick else Wanted(splits, tasks, False)
    run(place("which", out, quick), data, wanted, workers, page_only)


@app.command("open-ranges")
def open_ranges(
    data: Data = None,
    out: Out = None,
    quick: Quick = False,
    workers: Workers = None,
    splits: Annotated[int, typer.Option(help="Splits of each data set.")] = 8,
) -> None:
    """What it costs to declare no ranges, beside wide ones and the rows' own."""
    from studies.open_ranges import run

    run(place("open_ranges", out, quick), data, 1 if quick else splits, quick, workers)


@app.command("extra-trees")
def extra_trees(
    data: Data = None,
    out: Out = None,
    quick: Quick = False,
    workers: Workers = None,
    repeats: Annotated[int, typer.Option(help="Divisions of each data set.")] = 30,
) -> None:
    """Federated extra-trees: Liu et al. 2020, Table 2 and Figure 3."""
    from studies.extra_trees.run import run

    run(place("extra-trees", out, quick), data, quick, workers, repeats)


@app.command()
def diprime(
    data: Data = None, out: Out = None, quick: Quick = False, workers: Workers = None
) -> None:
    """Median forests: Consul and Williamson 2020, Tables 1 and 2, Figures 1 to 4, 7 and 8."""
    from studies.diprime.run import run

    run(place("diprime", out, quick), data, quick, workers)


if __name__ == "__main__":
    try:
        app(prog_name="python -m studies")
    except HedgerowError as error:
        print(f"studies: {error}", file=sys.stderr)
        raise SystemExit(2) from None
