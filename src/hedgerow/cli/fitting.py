"""`hedgerow fit`: one study in one process, each file the rows of a site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.console import Json, Quiet, on_terminal, say, say_json, warnings_as_lines
from hedgerow.cli.estimating import typed_estimator
from hedgerow.cli.writing import Force, check_output

if TYPE_CHECKING:
    from hedgerow.estimators.base import PrivateEstimator

ESTIMATOR = "BoostedTreesClassifier"


def fit(
    study: Annotated[
        Path | None, typer.Argument(help="A study file (.toml); without one, flags say it all.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            "-d",
            help="Rows of one site: a .csv, .parquet or .arrow file, a folder or a pattern; with "
            "--sql a DuckDB file or postgresql://...; repeat.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path(
        "model.json"
    ),
    schema: Annotated[Path | None, typer.Option(help="The schema file (.toml).")] = None,
    target: Annotated[
        str | None, typer.Option(help="The column to be predicted, if the schema leaves several.")
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="Such as TreeClassifier, or with parameters in quotes: 'TreeClassifier "
            "max_depth=4 placement=silo'; the boosted trees if left out."
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The promise; 1 if left out.")] = None,
    delta: Annotated[float | None, typer.Option(help="1e-6 if left out.")] = None,
    hold_out: Annotated[
        int | None,
        typer.Option(
            help="One record in so many is held out, by a secret draw; these tell under the same "
            "promise how good the model is.",
            min=2,
        ),
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="The column that says whose record a row is.")
    ] = None,
    sql: Annotated[
        str | None, typer.Option(help="What to select, where --data is a database.")
    ] = None,
    push_down: Annotated[
        bool, typer.Option("--push-down", help="The database makes the sums; integers come back.")
    ] = False,
    ledger: Annotated[Path | None, typer.Option(help="A file in which all fits add up.")] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Trains a private model and writes it with its statement."""
    from hedgerow.estimators.files import fit_and_evaluate_files, fit_files
    from hedgerow.estimators.model_file import check_place
    from hedgerow.report.evaluation import kept_evaluation

    if not data:
        raise _asked_for("no rows were given", "name a file for each site: --data a.csv")
    check_place(output)  # before anything is spent
    check_output(output, study, schema, ledger, *data, force=force)
    flags = {"epsilon": epsilon, "delta": delta, "ledger": ledger, "hold_out": hold_out}
    with warnings_as_lines(quiet):
        if study is not None:
            model = _of_study(study, {"schema": schema, "estimator": estimator, **flags}, data)
        else:
            model = _of_flags(schema, estimator, flags)
        model.progress = on_terminal(quiet)
        if push_down:
            _pushed_down(model, data, sql=sql, target=target, person=person)
        elif model.hold_out is not None:
            fit_and_evaluate_files(model, _selected(data, sql), target, person)
        else:
            fit_files(model, _selected(data, sql), target, person)
    model.progress = False
    model.save(output)
    measured = kept_evaluation(model)
    if json:
        told = {} if measured is None else {"evaluation": measured.to_dict()}
        say_json({"model": str(output), "privacy": model.privacy_.to_dict(), **told})
    elif not quiet:
        say(f"{model.privacy_}\n")
        if measured is not None:
            say(f"{measured}\n\n{measured.privacy_}\n")
        say(f"{output}: {type(model).__name__}, {model.privacy_.promise}.")


def _selected(data: list[str], sql: str | None) -> list[Any]:
    from hedgerow.site.reading.databases import Selected

    return [*data] if sql is None else [Selected(place, sql) for place in data]


def _pushed_down(model: PrivateEstimator, data: list[str], **asked: Any) -> None:
    if len(data) > 1:
        raise _asked_for(f"{len(data)} databases were given", "let one of them make the sums")
    if model.hold_out is not None:
        raise _asked_for(
            "records are to be held out, which a database that makes the sums cannot do",
            "leave out --push-down, or hold none out",
        )
    model.fit(data[0], push_down=True, **asked)


def _of_study(path: Path, flags: dict[str, Any], data: list[str]) -> PrivateEstimator:
    """All that a study says is agreed on; a flag that says it again would be a second truth."""
    from hedgerow.agreement.study_file import StudyFile

    said = sorted(name for name, value in flags.items() if value is not None and name != "ledger")
    if said:
        raise _asked_for(f"the study says {said} already", "leave these flags out")
    read = StudyFile.read(path)
    if len(data) != len(read.site):
        raise _asked_for(
            f"the study has {len(read.site)} sites and {len(data)} files were given",
            f"give one for each of {list(read.names)}, in this order",
        )
    model = read.estimator()
    model.ledger = flags["ledger"]
    return model


def _of_flags(schema: Path | None, name: str | None, flags: dict[str, Any]) -> PrivateEstimator:
    import hedgerow

    if schema is None:
        raise _asked_for("no schema was given", "draft one: hedgerow schema draft rows.csv")
    known = hedgerow.Schema.from_toml(schema)
    if name is None:
        name = ESTIMATOR if known.target is None else ESTIMATOR.replace("Classifier", "Regressor")
    given = {flag: value for flag, value in flags.items() if value is not None}
    return typed_estimator(name, {"schema": known, **given})


def _asked_for(found: str, todo: str) -> Exception:
    from hedgerow.errors import SpecError

    return SpecError(f"{found}; {todo}.")
