"""`hedgerow fit`: one study in one process, each file the rows of a site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.console import (
    Force,
    Json,
    Latency,
    LedgerFile,
    ModelOutput,
    OptionalTarget,
    Person,
    PushDown,
    Quiet,
    SitesRows,
    Sql,
    check_output,
    on_terminal,
    say,
    say_json,
    tell,
    warnings_as_lines,
)
from hedgerow.errors import ParameterError
from hedgerow.privacy.declaration import STUDY
from hedgerow.schema.schema import Schema

if TYPE_CHECKING:
    from hedgerow.methods.base import PrivateEstimator

# An estimator as it is typed: its name, and parameters after it, "TreeClassifier max_depth=4".

COMMAND_FLAGS = dict.fromkeys(
    ("schema", "epsilon", "delta", "ledger", "hold_out", "progress"), "the flags of this command"
)
"""Parameters that are no part of an estimator's text, and where they are set."""


def parse_estimator(text: str, flags: dict[str, Any]) -> PrivateEstimator:
    """The estimator named by a text, with its parameters and those of flags."""
    from hedgerow.deployment.draft import typed_parameter
    from hedgerow.deployment.study_file import check_estimator
    from hedgerow.methods.registry import estimator_named

    if not text.strip():
        raise ParameterError("an estimator is empty; name one, such as ForestClassifier.")
    name, *assignments = text.split()
    kind, parameters = estimator_named(name), dict(map(typed_parameter, assignments))
    check_estimator(kind, parameters, COMMAND_FLAGS)
    return kind(**flags, **parameters)


def fit(
    study: Annotated[
        Path | None, typer.Argument(help="Read a study file (.toml), instead of flags.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            "-d",
            help="Read one site's rows: a .csv, .parquet or .arrow file, folder or pattern; with "
            "--sql a DuckDB file or postgresql://...; repeat.",
        ),
    ] = None,
    output: ModelOutput = Path("model.json"),
    schema: Annotated[
        Path | None, typer.Option(help="Read the schema from this file (.toml).")
    ] = None,
    target: OptionalTarget = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="Choose an estimator, with parameters in quotes: 'TreeClassifier "
            "max_depth=4 dp_model=per_site'; default: boosted trees."
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Set epsilon; default 1.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Set delta; default: the method's or the paper's.")
    ] = None,
    hold_out: Annotated[int | None, typer.Option(help=STUDY["hold_out"].brief, min=2)] = None,
    person: Person = None,
    sql: Sql = None,
    push_down: PushDown = False,
    temp_folder: Annotated[
        Path | None,
        typer.Option(help="Keep cells in a file of this folder, for data larger than memory."),
    ] = None,
    ledger: LedgerFile = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a private model; write it with its privacy statement."""
    from hedgerow.methods.files import fit_and_evaluate_files, fit_files
    from hedgerow.methods.model_file import check_place
    from hedgerow.report.evaluation import kept_evaluation

    if study is not None and study.suffix != ".toml":
        raise asked_for(f"{study} is no study file (.toml)", f"name rows by --data: --data {study}")
    if not data:
        raise asked_for("no rows were given", "name a file for each site: --data a.csv")
    check_place(output)  # before anything is spent
    check_output(output, study, schema, ledger, *data, force=force)
    flags = {"epsilon": epsilon, "delta": delta, "ledger": ledger, "hold_out": hold_out}
    elsewhere = push_down or temp_folder is not None
    with warnings_as_lines(quiet):
        if study is not None:
            model = _of_study(study, {"schema": schema, "estimator": estimator, **flags}, data)
        else:
            model = _of_flags(schema, estimator, flags, data[0])
        model.progress = on_terminal(quiet)
        if study is None and model.hold_out is None and not (push_down or json or quiet):
            _propose_hold_out(model, _select_sources(data, sql))
        if elsewhere and len(data) > 1:
            raise asked_for(f"{len(data)} sources were given", "let one of them make the sums")
        if elsewhere:
            options: dict[str, Any] = {"sql": sql, "target": target, "person": person}
            model.fit(data[0], push_down=push_down, temp_folder=temp_folder, **options)
        elif model.hold_out is not None:
            fit_and_evaluate_files(model, _select_sources(data, sql), target, person)
        else:
            fit_files(model, _select_sources(data, sql), target, person)
    model.progress = False
    model.save(output)
    evaluation = kept_evaluation(model)
    if json:
        content = {"model": str(output), "privacy": model.privacy_.to_dict()}
        more = {} if evaluation is None else {"evaluation": evaluation.to_dict()}
        say_json(content | more)
    elif not quiet:
        say(f"{model.privacy_}\n")
        if evaluation is not None:
            of_one_run = evaluation.privacy_ is model.privacy_
            say(f"{evaluation}\n" if of_one_run else f"{evaluation}\n\n{evaluation.privacy_}\n")
        say(f"{output}: {type(model).__name__}, {model.privacy_.summary}.")


ENOUGH_TO_HOLD_OUT = 1_000
"""Rows of which a fifth measures an AUC to a few hundredths."""


def _propose_hold_out(model: PrivateEstimator, sources: list[Any]) -> None:
    """With enough rows, proposes to hold some out: asks on a terminal, else prints a hint."""
    from hedgerow.methods.files import first_rows
    from hedgerow.methods.sources import schema_for

    schema = schema_for(model)
    counts = (len(first_rows(source, schema, ENOUGH_TO_HOLD_OUT)) for source in sources)
    if sum(counts) < ENOUGH_TO_HOLD_OUT:
        return
    words = (
        "No record is held out, so nobody will know how good the model is. With --hold-out 5 one "
        f"record in five measures it, for epsilon {model.epsilon:g}, and trains nothing; the "
        "guarantee stays as it is."
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        tell(words, file=sys.stderr)
    elif typer.confirm(f"{words} Hold out one in five?", err=True):
        model.hold_out = 5


def _select_sources(data: list[str], sql: str | None) -> list[Any]:
    from hedgerow.data.reading.databases import Selected

    return [*data] if sql is None else [Selected(place, sql) for place in data]


def _of_study(path: Path, flags: dict[str, Any], data: list[str]) -> PrivateEstimator:
    """The estimator of a study; a flag that repeats one of its values is refused."""
    from hedgerow.deployment.study_file import StudyFile

    ledger = flags.pop("ledger")
    repeated_names = sorted(name for name, value in flags.items() if value is not None)
    if repeated_names:
        raise asked_for(f"the study says {repeated_names} already", "leave these flags out")
    study_file = StudyFile.read(path)
    if len(data) != len(study_file.names):
        raise asked_for(
            f"the study has {len(study_file.names)} sites and {len(data)} files were given",
            f"give one for each of {list(study_file.names)}, in this order",
        )
    model = study_file.estimator()
    model.ledger = ledger
    return model


def _of_flags(
    schema: Path | None, name: str | None, flags: dict[str, Any], rows: str
) -> PrivateEstimator:
    if schema is None:
        todo = f"draft one (hedgerow schema draft {rows}), confirm it, name it by --schema"
        raise asked_for("no schema was given", todo)
    known_schema = Schema.from_toml(schema)
    usual = "BoostedTreesClassifier" if known_schema.target is None else "BoostedTreesRegressor"
    name = name or (usual if known_schema.survival is None else "SurvivalBoostedTrees")
    flag_values = {flag: value for flag, value in flags.items() if value is not None}
    return parse_estimator(name, {"schema": known_schema, **flag_values})


def asked_for(problem: str, todo: str) -> ParameterError:
    return ParameterError(f"{problem}; {todo}.")


# `hedgerow plan`: what to expect of a fit, before anything is spent.


def plan(
    schema: Annotated[Path, typer.Argument(help="Read the schema from this file (.toml).")],
    rows: Annotated[
        int, typer.Option(help="Give the public number of records, all sites together.")
    ],
    epsilon: Annotated[float, typer.Option(help="Set epsilon.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Set delta.")] = 1e-6,
    n_sites: Annotated[int, typer.Option("--sites", help="Set the number of sites.", min=1)] = 1,
    proxy_rows: Annotated[
        str | None, typer.Option("--proxy", help="Use public rows like yours (.csv, .parquet).")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Confirm that the proxy rows are public.")
    ] = False,
    target: OptionalTarget = None,
    repeats: Annotated[int, typer.Option(help="Run each estimator N times.", min=1)] = 2,
    max_rounds: Annotated[
        int, typer.Option(help="Limit the rounds; 0 leaves it to the method.", min=0)
    ] = 0,
    latency: Latency = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate noise, rounds, bytes, seconds and quality; recommend an estimator."""
    from hedgerow.methods.files import rows_of_sites
    from hedgerow.methods.plan import plan as planned

    known_schema = Schema.from_toml(schema)
    if proxy_rows is not None and not public and sys.stdin.isatty():
        words = f"A plan adds no noise to what it shows of the rows in {proxy_rows}."
        public = typer.confirm(f"{words} Are they public?")
    with warnings_as_lines(quiet):
        proxies = rows_of_sites([proxy_rows], known_schema, target)[:2] if proxy_rows else None
        result = planned(
            known_schema,
            rows,
            epsilon,
            delta=delta,
            n_sites=n_sites,
            proxy_rows=proxies,
            public=public,
            repeats=repeats,
            max_rounds=max_rounds,
            latency=latency,
            progress=on_terminal(quiet or json),
        )
    if json:
        say_json(result.to_dict())
    else:
        tell(result.estimator if quiet else result)


# `hedgerow select`: several estimators under one guarantee, compared by one private query.


def select(
    candidates: Annotated[
        list[str],
        typer.Argument(
            help="Name candidates, with parameters in quotes: 'TreeClassifier max_depth=4'."
        ),
    ],
    data: SitesRows,
    schema: Annotated[Path, typer.Option(help="Read the schema from this file (.toml).")],
    epsilon: Annotated[
        float,
        typer.Option(
            help="Set epsilon: the candidates divide it, and held-out records pay it for the "
            "comparison alone."
        ),
    ] = 1.0,
    delta: Annotated[float, typer.Option(help="Set delta; the candidates divide it.")] = 1e-6,
    hold_out: Annotated[
        int, typer.Option(help="Hold out one record in N at random, for evaluation.", min=2)
    ] = 5,
    stage: Annotated[
        list[int] | None,
        typer.Option(
            help="Stop early: compare boosted trees also at this number of trees; "
            "repeat. Dropped trees were paid for.",
            min=1,
        ),
    ] = None,
    target: OptionalTarget = None,
    person: Person = None,
    ledger: LedgerFile = None,
    output: ModelOutput = Path("model.json"),
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train several estimators, compare them by one private query, write the best."""
    from hedgerow.methods.files import rows_of_sites
    from hedgerow.methods.model_file import check_place
    from hedgerow.methods.model_selection import select_model as best_of

    check_place(output)  # before anything is spent
    check_output(output, schema, ledger, *data, force=force)
    known_schema = Schema.from_toml(schema)
    with warnings_as_lines(quiet):
        estimators = _candidates(candidates, known_schema, epsilon, delta, ledger)
    if len(estimators) == 1 and not stage:
        raise asked_for("one candidate was given", "name two or more, or stages of it: --stage 10")
    for estimator in estimators:
        estimator.progress = on_terminal(quiet)
    with warnings_as_lines(quiet):
        rows, labels, whose = rows_of_sites(data, known_schema, target, person)
        options: dict[str, Any] = {"epsilon": epsilon, "hold_out": hold_out, "ledger": ledger}
        comparison = best_of(estimators, rows, labels, stages=stage or (), **options, **whose)
    best = comparison.chosen.keep(comparison)
    best.progress = False
    best.save(output)
    if json:
        names = {"names": list(comparison.names), "chosen": comparison.chosen_name}
        content = {"model": str(output), "comparison": comparison.to_dict() | names}
        say_json(content | {"privacy": best.privacy_.to_dict()})
        return
    tell(f"{comparison}\nThe best: {comparison.chosen_name}")
    if not quiet:
        words = f"{comparison.chosen_name}; its own fit has {best.privacy_.summary}"
        say(f"\n{comparison.privacy_}\n\n{output}: {words}.")


def _candidates(
    texts: list[str], schema: Schema, epsilon: float, delta: float, ledger: Path | None
) -> list[PrivateEstimator]:
    """Each candidate gets an equal part of the budget."""
    from hedgerow.privacy.accounting.conversions import check_guarantee, warn_if_weak
    from hedgerow.privacy.accounting.rounding import float_below
    from hedgerow.schema.rules import exact

    parts = {"epsilon": exact(epsilon, "epsilon"), "delta": exact(delta, "delta")}
    check_guarantee(**parts)
    warn_if_weak(parts["delta"])
    share = {name: float_below(total / len(texts)) for name, total in parts.items()}
    return [parse_estimator(text, {"schema": schema, "ledger": ledger, **share}) for text in texts]
