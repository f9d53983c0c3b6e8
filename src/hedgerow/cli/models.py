"""`hedgerow predict | show | explain | evaluate`: commands on a saved model."""

from __future__ import annotations

import csv
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from hedgerow.cli.console import (
    FOUND_SOMETHING,
    Force,
    Json,
    LedgerFile,
    OptionalTarget,
    OutputFile,
    Quiet,
    SitesRows,
    address,
    check_output,
    say,
    say_json,
    tell,
    warnings_as_lines,
)
from hedgerow.errors import ParameterError, UnsupportedQuery

ModelPath = Annotated[Path, typer.Argument(help="Read this model file.")]
RowsPath = Annotated[str, typer.Argument(help="Read rows from a .csv or .parquet file.")]
Times = Annotated[
    list[float] | None, typer.Option(help="Give chances until this time, not the model's; repeat.")
]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
MOST_IMPORTANCES = 10
BAR = 30


def predict(
    model: ModelPath,
    rows: RowsPath,
    output: OutputFile = None,
    time: Times = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict each row; write CSV with probabilities of classes, or chances over time."""
    from hedgerow.methods.files import predict_file
    from hedgerow.methods.saving import load

    if output is not None:
        check_output(output, model, rows, force=force)
    with warnings_as_lines(quiet):
        estimator = load(model)
        outputs, names = predict_file(estimator, rows, time or ())
    classes = estimator.schema_.classes
    head = names if classes is None else ["prediction", *(f"probability of {n}" for n in names)]
    class_names = [[] if classes is None else [classes[int(row.argmax())]] for row in outputs]
    lines = [
        [*name, *(float(f"{number:.6g}") for number in row)]
        for name, row in zip(class_names, outputs, strict=True)
    ]
    if json:
        say_json([dict(zip(head, line, strict=True)) for line in lines])
    elif output is None:
        _write(sys.stdout, head, lines)
    else:
        with output.open("w", encoding="utf-8", newline="") as file:
            _write(file, head, lines)
        if not quiet:
            tell(f"{output}: {len(lines)} predictions.")


def _write(file: IO[str], head: list[str], lines: list[list[Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(map(_cell, line) for line in lines)


def _cell(value: str | float) -> str:
    """Marks a class such as =1+1 as text, so that a spreadsheet does not compute it."""
    if isinstance(value, float):
        return f"{value:g}"
    is_formula = value.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def show(
    model: ModelPath,
    depth: Annotated[int, typer.Option(help="Show at most N levels of a tree.", min=0)] = 6,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show a model, its privacy guarantee, and what it depends on."""
    from hedgerow.methods.saving import load
    from hedgerow.report.importances import importances
    from hedgerow.report.text import show_tree
    from hedgerow.report.view import is_one_tree

    estimator = load(model)
    parts = importances(estimator)
    if json:
        content = {"estimator": type(estimator).__name__, "importances": parts}
        say_json(
            {**content, "privacy": estimator.privacy_.to_dict(), "run": estimator.run_.to_dict()}
        )
        return
    tell(f"{type(estimator).__name__}: {estimator.privacy_.summary}\n")
    tell(_bars(parts))
    if is_one_tree(estimator):
        tell(f"\n{show_tree(estimator, depth)}")
    if not quiet:
        say(f"\n{estimator.privacy_}")


def compare(
    models: Annotated[list[Path], typer.Argument(help="Read two model files or more (.json).")],
    json: Json = False,
) -> None:
    """Compare models: guarantees, quality, feature importance. Spends nothing."""
    from hedgerow.methods.saving import load
    from hedgerow.report.evaluation import compare_models

    comparison = compare_models(*map(load, models), names=[str(path) for path in models])
    if json:
        say_json({"models": list(comparison.names), **dict(comparison.lines)})
    else:
        tell(comparison)


def _bars(parts: dict[str, float]) -> str:
    """Importances as bars of plain characters."""
    width, most = max(map(len, parts)), max(max(parts.values()), 1e-9)
    shown = [(name, part) for name, part in parts.items() if part > 0][:MOST_IMPORTANCES]
    lines = [
        f"  {name:<{width}} {part:5.1%} {'#' * max(1, round(BAR * part / most))}"
        for name, part in shown
    ]
    rest = len(parts) - len(shown)
    more = [f"  ... {rest} more columns"] if rest else []
    return "\n".join(["Feature importance:", *lines, *more])


def explain(
    model: ModelPath,
    rows: RowsPath,
    first: Annotated[int, typer.Option(help="Explain at most N rows.", min=1)] = 5,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain the prediction of each row."""
    from hedgerow.methods.files import first_rows
    from hedgerow.methods.saving import load
    from hedgerow.report.text import explain as reasons

    with warnings_as_lines(quiet):
        estimator = load(model)
        sentences = reasons(estimator, first_rows(rows, estimator.schema_, first))
    if json:
        say_json(sentences)
        return
    for number, words in enumerate(sentences, 1):
        tell(f"{number}. {words}")


def evaluate(
    model: ModelPath,
    data: SitesRows,
    epsilon: Annotated[float, typer.Option(help="Set epsilon for these records.")],
    delta: Annotated[
        float, typer.Option(help="Set delta; 0 gives pure DP, and here the least noise.")
    ] = 0.0,
    target: OptionalTarget = None,
    by: Annotated[
        str | None, typer.Option(help="Group by a column; by a number with cuts: age=40,65.")
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(
            help="Give the public number of records, roughly: groups "
            "below the noise are refused before anything is charged.",
            min=1,
        ),
    ] = None,
    ledger: LedgerFile = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Also store it in the model file, for its report.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate a model by one private query over test records."""
    from hedgerow.methods import model_file
    from hedgerow.methods.evaluate import evaluate as measured
    from hedgerow.methods.evaluated_rows import column_and_cuts
    from hedgerow.methods.files import rows_of_sites
    from hedgerow.methods.saving import load

    estimator = load(model)
    groups = None if by is None else column_and_cuts(by, estimator.schema_.names)
    rows, truth, whose = rows_of_sites(data, estimator.schema_, target)
    options: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "by": groups, "ledger": ledger}
    with warnings_as_lines(quiet):
        result = measured(estimator, rows, truth, records=records, **options, **whose)
    if keep:
        model_file.add(model, "evaluation", result.to_dict())
    if json:
        say_json(result.to_dict())
    else:
        tell(result if quiet else f"{result}\n\n{result.privacy_}")


def export(
    model: ModelPath,
    to: Annotated[
        str,
        typer.Option(
            help="Choose onnx, python, sql, xgboost, skops, mlflow, dot, text, registry, "
            "model-card, cyclonedx, croissant, annex-iv, signature."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write to this file or folder.")],
    key: Annotated[
        Path | None, typer.Option(help="Sign with the private key in this PEM file.")
    ] = None,
    time: Times = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Export a model for another program, or its statement for a registry."""
    from hedgerow.methods.saving import load
    from hedgerow.report.exports.export import write_signature

    check_output(output, model, key, force=force)
    estimator, is_signature = load(model), to == "signature"
    path = (
        write_signature(model, output, key)
        if is_signature
        else estimator.export(output, to, time or ())
    )
    _say(path, "", json, quiet)


def report(
    model: ModelPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the page here.")] = Path(
        "report.html"
    ),
    sheet: Annotated[
        bool, typer.Option("--sheet", help="Write one printable A4 page for the privacy officer.")
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(help="With --sheet: add all studies of this ledger or site's state folder."),
    ] = None,
    roster: Annotated[
        Path | None, typer.Option(help="With --sheet: verify signatures by this study file.")
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report of a model as one HTML page, or a sheet of one printed page."""
    from hedgerow.methods.saving import load

    estimator = load(model)
    check_output(output, model, ledger, roster, force=force, digest=estimator.model_.score.digest)
    if sheet:
        from hedgerow.deployment.site_ledger import lifetime_lines
        from hedgerow.deployment.verify import verdict, verify_model
        from hedgerow.report.page.sheet import Context
        from hedgerow.report.page.sheet import sheet as write_sheet

        lines = [] if ledger is None else lifetime_lines(ledger)
        context = Context(lines, verdict(verify_model(model, roster)))
        _say(write_sheet(estimator, output, context), " Print it, or save it as PDF.", json, quiet)
        return
    _say(estimator.report(output), " Open it in a browser; it asks no network.", json, quiet)


def serve(
    model: ModelPath,
    listen: Annotated[
        str, typer.Option(envvar="HEDGEROW_LISTEN", help="Listen on this address and port, HTTP.")
    ] = "127.0.0.1:8080",
) -> None:
    """Serve a model over HTTP: /v1/predict, /health, /metrics, /openapi.json."""
    from hedgerow.deployment.model_server import serve as listening
    from hedgerow.methods.saving import load

    host, port = address(listen)
    listening(
        load(model),
        host,
        port,
        lambda own: tell(f"serving {model} at http://{host}:{own}", flush=True),
    )


def _say(path: Path, hint: str, json: bool, quiet: bool) -> None:
    files = (file for file in [path, *path.rglob("*")] if file.is_file())
    size = sum(file.stat().st_size for file in files)
    if json:
        say_json({"file": str(path), "bytes": size})
    elif not quiet:
        tell(f"{path}: {size} bytes.{hint}")


# `hedgerow verify`: whether a model file is authentic and correct.


def sign(
    model: ModelPath,
    key: Annotated[
        Path, typer.Option(envvar="HEDGEROW_KEY", help="Sign with the private key in this file.")
    ] = Path("~/.config/hedgerow/signing.key"),
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Create the key first, readable by you alone.")
    ] = False,
) -> None:
    """Sign a model that was trained in one process, with a key of your own.

    `hedgerow verify` names the key. Read its six words to whoever gets the model.
    """
    from hedgerow.deployment.verify import sign_fit, signing_key
    from hedgerow.secagg.keys import spoken_words

    identity = signing_key(key.expanduser(), new_key)
    sign_fit(model, identity)
    tell(f"{model}: signed with the key {identity.fingerprint}")
    tell(f"its words: {spoken_words(identity.public)}")


def verify(
    model: ModelPath,
    roster: Annotated[
        Path | None, typer.Option(help="Check signatures against this study file.")
    ] = None,
    transcript: Annotated[
        Path | None,
        typer.Option(help="The run's transcript.bin: sums and model are computed anew from it."),
    ] = None,
    signer: Annotated[
        str | None,
        typer.Option(help="The fingerprint or the six words of the key that signed it alone."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Rows of your own (.csv, .parquet): what could one have changed?"),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Verify a model's format, hashes and sums and, with its study, all signatures.

    With the transcript of the run the sums are opened again from the sites' signed messages, and
    the method must learn the same model from them.

    With --against, the run is made again from the record beside the model, and a second accountant
    works out what single records of yours could have changed. Nobody is asked and nothing leaves.

    Exit code 1 if a check failed; one that was not made says so, and why.
    """
    from hedgerow.deployment.verify import verdict, verify_model

    checks = verify_model(model, roster, transcript, signer)
    if against is not None:
        checks += _against(model, against)
    if json:
        check_content = [
            {"what": c.name, "outcome": c.outcome.value, "words": c.words} for c in checks
        ]
        say_json({"verdict": verdict(checks), "checks": check_content})
    tell_checks(checks, quiet or json)


def tell_checks(checks: list[Any], quiet: bool = False) -> None:
    """One line per check and one for all; exit code 1 if one failed."""
    from hedgerow.deployment.verify import verdict

    if not quiet:
        for check in checks:
            tell(f"{check.outcome.value:>8}  {check.name:<14} {check.words}")
        tell(verdict(checks))
    if any(check.has_failed for check in checks):
        raise typer.Exit(FOUND_SOMETHING)


def _against(model: Path, rows: str) -> list[Any]:
    """Repeats the run, and computes its privacy loss for single records of these rows."""
    from hedgerow.audit.transcript import claim_of, judge_records
    from hedgerow.deployment.verify import CheckResult, Outcome, replay_run
    from hedgerow.methods.files import rows_of_sites
    from hedgerow.methods.saving import load

    run = replay_run(model)
    is_same = load(model).model_.score.digest == run.model.model_.score.digest
    words = f"the recorded answers of {len(run.rounds)} rounds give this model"
    replay_result = CheckResult.of("replay", is_same, words)
    if run.model.privacy_.spent_fraction is None:
        words = "no noise was added; nothing is guaranteed to any of them"
        return [replay_result, CheckResult("your records", Outcome.SKIPPED, words)]
    claim = None if run.has_failures else claim_of(run.sites.spent(), run.model.privacy_)
    X, y, _ = rows_of_sites([rows], run.study.schema, None)
    verdicts = judge_records(run.study, run.rounds, (X, y), claim).values()
    problems = dict.fromkeys(words for verdict in verdicts for words in verdict.problems)
    lost, worst = (
        float(max(costs) / next(iter(verdicts)).budget)
        for costs in ([v.lost for v in verdicts], [v.worst for v in verdicts])
    )
    words = "; ".join(problems) or (
        f"{len(verdicts)} of {len(y)} records left out in turn; one could have changed at most "
        f"what {lost:.1%} of the budget allows, and {worst:.1%} was charged"
    )
    return [replay_result, CheckResult.of("your records", not problems, words)]


# `hedgerow audit`: measures the loss of the real pipeline against its claim.


def audit(
    estimator: Annotated[
        str, typer.Option(help="Name a class, papers.AUTHOR.METHOD, or 'all'.")
    ] = "TreeClassifier",
    dp_model: Annotated[
        str, typer.Option(help="Choose central, distributed, per_site or label.")
    ] = "central",
    epsilon: Annotated[
        float, typer.Option(help="Set epsilon; large ones are measured best.")
    ] = 8.0,
    delta: Annotated[float, typer.Option(help="Set delta; 0 audits Laplace noise.")] = 1e-6,
    fits: Annotated[int, typer.Option(help="Run N fits.", min=1)] = 3,
    canaries: Annotated[
        int, typer.Option(help="Insert N canaries, each with probability 1/2.", min=1)
    ] = 60,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Audit the real pipeline with canaries: measure a lower bound of epsilon.

    Evaluations, records held out, model selection, persons, rows in a database and rounds
    that fail are each run with a record and without it, and judged by a second accountant.

    Exit code 1 if anything is above its claim.
    """
    from hedgerow.audit.running import audit_estimator, estimators_named, lines

    results: dict[str, Any] = {}
    kinds = estimators_named(estimator)
    for name, kind in kinds.items():
        try:
            with warnings_as_lines(quiet):
                how: dict[str, Any] = {"canaries": canaries, "fits": fits, "paths": True}
                result = audit_estimator(kind, dp_model, epsilon, delta, **how)
        except (ParameterError, UnsupportedQuery) as refusal:
            if len(kinds) == 1:
                raise
            results[name], words = {"refused": str(refusal)}, f"{name} does not run so: {refusal}"
        else:
            results[name] = {"is_sound": result.is_sound, **asdict(result)}
            words = "\n".join(lines(name, dp_model, result))
        if not json and not quiet:
            tell(words)
    if json:
        say_json(results)
    is_sound = all(result.get("is_sound", True) for result in results.values())
    raise typer.Exit(0 if is_sound else FOUND_SOMETHING)
