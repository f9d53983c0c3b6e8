"""Arguments in, exit codes out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.errors import HedgerowError

app = typer.Typer(
    help="Trees, forests and boosted trees over records that several sites hold.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Trees, forests and boosted trees over records that several sites hold."""


@app.command()
def demo(
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the tree to this .svg, .png or .pdf file.")
    ] = None,
) -> None:
    """Five parties in one process, on bundled data: accuracy, tree, privacy statement."""
    from rich.console import Console

    from hedgerow.demo import run_demo

    run_demo(Console(), picture=picture)


# ------------------------------------------------------------------------------------ reproduce
reproduce = typer.Typer(
    help="The papers' experiments, made again: numbers, figures and a page.", no_args_is_help=True
)
app.add_typer(reproduce, name="reproduce")

Data = Annotated[
    Path | None,
    typer.Option(exists=True, file_okay=False, help="Folder of Parquet files (or HEDGEROW_DATA)."),
]
Out = Annotated[Path | None, typer.Option(help="Where results go; docs/results/NAME if not given.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small grid, in minutes.")]
Workers = Annotated[int | None, typer.Option(help="Processes; all cores if not given.")]


@reproduce.command()
def gubler(
    data: Data = None,
    out: Out = None,
    quick: Quick = False,
    full: Annotated[bool, typer.Option("--full", help="All 50 runs of the report.")] = False,
    workers: Workers = None,
) -> None:
    """One private tree from histograms: Gubler 2023, Figures 2 to 5, and real data."""
    from hedgerow.reproduce.gubler import run

    place = Path("docs/results/gubler_quick" if quick else "docs/results/gubler")
    run(out or place, data, quick, workers, full)


@reproduce.command()
def topdown(
    data: Data = None, out: Out = None, quick: Quick = False, workers: Workers = None
) -> None:
    """Private best-first trees: Wang, Dick and Balcan 2020, Figures 1 to 3."""
    from hedgerow.reproduce.topdown import run

    run(out or Path("docs/results/topdown"), data, quick, workers)


@reproduce.command()
def boosted(
    data: Data = None,
    out: Out = None,
    quick: Quick = False,
    workers: Workers = None,
    splits: Annotated[int, typer.Option(help="Splits of each data set; the paper has 15.")] = 15,
) -> None:
    """Boosted trees: Maddock et al. 2022, Tables 3 to 6 and 9 to 12, and our default recipe."""
    from hedgerow.reproduce.boosted import run

    run(out or Path("docs/results/boosted"), data, quick, workers, splits)


@reproduce.command()
def ours(data: Data = None, out: Out = None, quick: Quick = False, workers: Workers = None) -> None:
    """Our own tree, forest and regression on all data sets, beside the papers' methods."""
    from hedgerow.reproduce.ours import run

    run(out or Path("docs/results/ours"), data, quick, workers)


@reproduce.command("extra-trees")
def extra_trees(
    data: Data = None,
    out: Out = None,
    quick: Quick = False,
    workers: Workers = None,
    repeats: Annotated[int, typer.Option(help="Divisions of each data set.")] = 30,
) -> None:
    """Federated extra-trees: Liu et al. 2020, Table 2 and Figure 3."""
    from hedgerow.reproduce.extra_trees import run

    run(out or Path("docs/results/extra-trees"), data, quick, workers, repeats)


@reproduce.command()
def diprime(
    data: Data = None, out: Out = None, quick: Quick = False, workers: Workers = None
) -> None:
    """Median forests: Consul and Williamson 2020, Tables 1 and 2, Figures 1 to 4, 7 and 8."""
    from hedgerow.reproduce.diprime import run

    run(out or Path("docs/results/diprime"), data, quick, workers)


def entry() -> None:
    """The `hedgerow` command: one clear sentence instead of a traceback."""
    try:
        app()
    except HedgerowError as error:
        print(f"hedgerow: {error}", file=sys.stderr)
        raise SystemExit(2) from None
