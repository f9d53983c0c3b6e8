"""`hedgerow fit`: one study in one process, each file the rows of a site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.console import Json, Quiet, on_terminal, say, say_json, tell, warnings_as_lines
from hedgerow.cli.writing import Force, check_output
from hedgerow.privacy.declaration import STUDY

if TYPE_CHECKING:
    from hedgerow.methods.base import PrivateEstimator


# --------------------------------------------------------------------------------------------------
# An estimator as it is typed: its name, and parameters after it, "TreeClassifier max_depth=4".

FLAGS = ("schema", "epsilon", "delta", "ledger", "hold_out", "progress")
"""Parameters that the commands have flags for, or that are their own business."""


def typed_estimator(text: str, flags: dict[str, Any]) -> PrivateEstimator:
    """What a text names, with its own parameters and with those that flags said."""
    from hedgerow.deployment.draft import typed_parameter
    from hedgerow.errors import SpecError
    from hedgerow.methods.parameters import declared
    from hedgerow.methods.registry import estimator_named

    if not text.strip():
        raise SpecError("an estimator is empty; name one, such as ForestClassifier.")
    name, *given = text.split()
    parameters = dict(typed_parameter(one) for one in given)
    kind = estimator_named(name)
    said = sorted(set(parameters) & set(FLAGS))
    if said:
        raise SpecError(f"{text!r} sets {said}, which flags of this command say; leave it out.")
    if isinstance(kind, type):  # a paper's method knows its own
        known = {one.name for one in declared(kind)} - set(FLAGS)
        for strange in sorted(set(parameters) - known):
            raise SpecError(f"{strange} is no parameter of {name}; use some of {sorted(known)}.")
    return kind(**flags, **parameters)


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
    delta: Annotated[
        float | None, typer.Option(help="The method's or the paper's own if left out.")
    ] = None,
    hold_out: Annotated[int | None, typer.Option(help=STUDY["hold_out"].brief, min=2)] = None,
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
    from hedgerow.methods.files import fit_and_evaluate_files, fit_files
    from hedgerow.methods.model_file import check_place
    from hedgerow.report.evaluation import kept_evaluation

    if not data:
        raise asked_for("no rows were given", "name a file for each site: --data a.csv")
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
    from hedgerow.data.reading.databases import Selected

    return [*data] if sql is None else [Selected(place, sql) for place in data]


def _pushed_down(model: PrivateEstimator, data: list[str], **asked: Any) -> None:
    if len(data) > 1:
        raise asked_for(f"{len(data)} databases were given", "let one of them make the sums")
    if model.hold_out is not None:
        raise asked_for(
            "records are to be held out, which a database that makes the sums cannot do",
            "leave out --push-down, or hold none out",
        )
    model.fit(data[0], push_down=True, **asked)


def _of_study(path: Path, flags: dict[str, Any], data: list[str]) -> PrivateEstimator:
    """All that a study says is agreed on; a flag that says it again would be a second truth."""
    from hedgerow.deployment.study_file import StudyFile

    said = sorted(name for name, value in flags.items() if value is not None and name != "ledger")
    if said:
        raise asked_for(f"the study says {said} already", "leave these flags out")
    read = StudyFile.read(path)
    if len(data) != len(read.names):
        raise asked_for(
            f"the study has {len(read.names)} sites and {len(data)} files were given",
            f"give one for each of {list(read.names)}, in this order",
        )
    model = read.estimator()
    model.ledger = flags["ledger"]
    return model


def _of_flags(schema: Path | None, name: str | None, flags: dict[str, Any]) -> PrivateEstimator:
    import hedgerow

    if schema is None:
        raise asked_for("no schema was given", "draft one: hedgerow schema draft rows.csv")
    known = hedgerow.Schema.from_toml(schema)
    if name is None:
        name = ESTIMATOR if known.target is None else ESTIMATOR.replace("Classifier", "Regressor")
    given = {flag: value for flag, value in flags.items() if value is not None}
    return typed_estimator(name, {"schema": known, **given})


def asked_for(found: str, todo: str) -> Exception:
    from hedgerow.errors import SpecError

    return SpecError(f"{found}; {todo}.")


# --------------------------------------------------------------------------------------------------
# `hedgerow plan`: what to expect of a fit, before anything is spent.


def plan(
    schema: Annotated[Path, typer.Argument(help="The schema file (.toml).")],
    rows: Annotated[int, typer.Option(help="Records of all sites together, as known in public.")],
    epsilon: Annotated[float, typer.Option(help="The promise.")] = 1.0,
    delta: Annotated[float, typer.Option(help="How often it may fail.")] = 1e-6,
    parties: Annotated[int, typer.Option(help="Sites.", min=1)] = 1,
    stand_in: Annotated[
        str | None, typer.Option(help="Public rows that resemble yours (.csv, .parquet).")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Do not ask: the rows of the stand-in are public.")
    ] = False,
    target: Annotated[
        str | None, typer.Option(help="The column of the stand-in to predict.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs of each estimator.", min=1)] = 2,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Noise, rounds, bytes, seconds and quality to expect, and which estimator to take."""
    from hedgerow.methods.plan import plan as planned
    from hedgerow.schema.schema import Schema

    known = Schema.from_toml(schema)
    public = public or (stand_in is not None and _is_public(stand_in))
    with warnings_as_lines(quiet):
        found = planned(
            known,
            rows,
            epsilon,
            delta=delta,
            parties=parties,
            stand_in=None if stand_in is None else _public_rows(stand_in, known, target),
            public=public,
            repeats=repeats,
            progress=on_terminal(quiet or json),
        )
    if json:
        say_json(found.to_dict())
    else:
        tell(found.estimator if quiet else found)


def _is_public(source: str) -> bool:
    """A person's word; where nobody can be asked there is none."""
    words = f"A plan tells of the rows in {source} without noise. Can everybody have them?"
    return sys.stdin.isatty() and typer.confirm(words)


def _public_rows(source: str, schema: Any, target: str | None) -> tuple[Any, Any]:
    from hedgerow.methods.files import whole_table
    from hedgerow.methods.sources import Columns, the_other_column

    label = target or the_other_column(source, schema, Columns())
    table = whole_table(source, [*schema.names, label])
    return table[:, :-1], table[:, -1]
