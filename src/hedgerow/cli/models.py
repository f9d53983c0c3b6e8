"""`hedgerow predict | show | explain | evaluate`: what a saved model says."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from hedgerow.cli.console import (
    FOUND_SOMETHING,
    Json,
    Quiet,
    say,
    say_json,
    tell,
    warnings_as_lines,
)
from hedgerow.cli.writing import Force, check_output

ModelPath = Annotated[Path, typer.Argument(help="A model file, written by save().")]
RowsPath = Annotated[str, typer.Argument(help="A .csv or .parquet file.")]
OutputPath = Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
MOST_COLUMNS = 10
BAR = 30


def predict(
    model: ModelPath,
    rows: RowsPath,
    output: OutputPath = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """A line of CSV for each row: the prediction, and for classes their probabilities."""
    from hedgerow.methods.files import predict_file
    from hedgerow.methods.saving import load

    if output is not None:
        check_output(output, model, rows, force=force)
    with warnings_as_lines(quiet):
        loaded = load(model)
        outputs, names = predict_file(loaded, rows)
    classes = loaded.schema_.classes
    head = names if classes is None else ["prediction", *(f"probability of {n}" for n in names)]
    named = [[] if classes is None else [classes[int(row.argmax())]] for row in outputs]
    lines = [[*name, *map(_six_digits, row)] for name, row in zip(named, outputs, strict=True)]
    if json:
        say_json([dict(zip(head, line, strict=True)) for line in lines])
    elif output is None:
        _write(sys.stdout, head, lines)
    else:
        with output.open("w", encoding="utf-8", newline="") as file:
            _write(file, head, lines)
        if not quiet:
            tell(f"{output}: {len(lines)} predictions.")


def _six_digits(number: float) -> float:
    return float(f"{number:.6g}")


def _write(file: IO[str], head: list[str], lines: list[list[Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(map(_cell, line) for line in lines)


def _cell(value: str | float) -> str:
    """A class that a spreadsheet would compute, such as =1+1, is marked as text; no number is."""
    if isinstance(value, float):
        return f"{value:g}"
    is_formula = value.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def show(
    model: ModelPath,
    depth: Annotated[int, typer.Option(help="Levels of a tree to show.", min=0)] = 6,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What a model is, what it promises, and what it depends on; a single tree whole."""
    from hedgerow.methods.saving import load
    from hedgerow.report.importances import importances
    from hedgerow.report.text import show_tree
    from hedgerow.report.view import is_one_tree

    loaded = load(model)
    found = importances(loaded)
    if json:
        said = {"estimator": type(loaded).__name__, "importances": found}
        say_json({**said, "privacy": loaded.privacy_.to_dict(), "run": loaded.run_.to_dict()})
        return
    tell(f"{type(loaded).__name__}: {loaded.privacy_.promise}\n")
    tell(_bars(found))
    if is_one_tree(loaded):
        tell(f"\n{show_tree(loaded, depth)}")
    if not quiet:
        say(f"\n{loaded.privacy_}")


def _bars(found: dict[str, float]) -> str:
    """Columns by what they bring about, in letters that every terminal has."""
    width = max(len(name) for name in found)
    shown = [(name, part) for name, part in found.items() if part > 0][:MOST_COLUMNS]
    most = max((part for _, part in shown), default=1.0)
    lines = [
        f"  {name:<{width}} {part:5.1%} {'#' * max(1, round(BAR * part / most))}"
        for name, part in shown
    ]
    rest = len(found) - len(shown)
    more = [f"  ... {rest} more columns"] if rest else []
    return "\n".join(["What predictions depend on:", *lines, *more])


def explain(
    model: ModelPath,
    rows: RowsPath,
    first: Annotated[int, typer.Option(help="How many rows to explain.", min=1)] = 5,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Why each row is called what it is called."""
    from hedgerow.methods.files import first_rows
    from hedgerow.methods.saving import load
    from hedgerow.report.text import explain as reasons

    with warnings_as_lines(quiet):
        loaded = load(model)
        said = reasons(loaded, first_rows(rows, loaded.schema_, first))
    if json:
        say_json(said)
        return
    for number, words in enumerate(said, 1):
        tell(f"{number}. {words}")


def evaluate(
    model: ModelPath,
    data: Annotated[
        list[str], typer.Option("--data", "-d", help="Rows of one site, never trained on; repeat.")
    ],
    epsilon: Annotated[float, typer.Option(help="The promise to these records.")],
    delta: Annotated[float, typer.Option(help="0 has the smallest noise here.")] = 0.0,
    target: Annotated[str | None, typer.Option(help="The column with the truth.")] = None,
    by: Annotated[
        str | None,
        typer.Option(help="A column: each of its values by itself; a number with cuts: age=40,65."),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(
            help="About how many records there are, if that is public: groups that noise would "
            "hide are refused before anything is charged.",
            min=1,
        ),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="A file in which all adds up.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Also put it into the model's file, for its page.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How good a model is, by one private query over records it was not trained on."""
    from hedgerow.methods import model_file
    from hedgerow.methods.evaluate import evaluate as measured
    from hedgerow.methods.evaluated_rows import column_and_cuts
    from hedgerow.methods.files import rows_of_sites
    from hedgerow.methods.saving import load

    loaded = load(model)
    groups = None if by is None else column_and_cuts(by, loaded.schema_.names)
    rows, truth, whose = rows_of_sites(data, loaded.schema_, target)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "by": groups, "ledger": ledger}
    with warnings_as_lines(quiet):
        found = measured(loaded, rows, truth, records=records, **asked, **whose)
    if keep:
        model_file.add(model, "evaluation", found.to_dict())
    if json:
        say_json(found.to_dict())
    else:
        tell(found if quiet else f"{found}\n\n{found.privacy_}")


# --------------------------------------------------------------------------------------------------
# `hedgerow export` and `hedgerow report`: a model for other programs and for people.


def export(
    model: ModelPath,
    to: Annotated[str, typer.Option(help="onnx, python, sql, xgboost, dot, text or registry.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Writes a model for another program, or its statement for a registry."""
    from hedgerow.methods.saving import load

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
    from hedgerow.methods.saving import load

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


# --------------------------------------------------------------------------------------------------
# `hedgerow verify`: whether a model file is what it says.


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
    from hedgerow.deployment.verify import verdict, verified

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
