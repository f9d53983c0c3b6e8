"""`hedgerow schema`: draft a schema from rows, check it, and confirm it."""

from __future__ import annotations

import datetime
import threading
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.console import (
    FOUND_SOMETHING,
    Force,
    Json,
    OptionalTarget,
    OutputFile,
    Quiet,
    check_output,
    say_json,
    tell,
    warnings_as_lines,
)
from hedgerow.errors import ParameterError
from hedgerow.schema.schema import Feature, Hashed, Mark, Numeric, Schema, Survival, Target

# One rule for terminal and page: for each part that was read from rows, the person types the
# value or names its public source. Enter alone confirms nothing.

LEAVE_OPEN, SOURCE = "-", "source:"
OUTCOME = ""
"""The key of the classes or the target among answers; no column has this name."""


def mark_reviewed(schema: Schema, answers: Mapping[str, Any], by: str, day: str) -> Schema:
    """The schema with a mark on each part whose value was typed or whose source was named."""

    def review(key: str, mark: Mark | None) -> tuple[str, Mark] | None:
        answer = answers.get(key)
        texts = answer if isinstance(answer, Mapping) else {}
        value, source = (str(texts.get(name) or "").strip() for name in ("value", "source"))
        is_open = mark is not None and mark.is_open and (value or source)
        return (value, Mark(by, day, source or None)) if is_open else None

    features = [
        answer_feature(feature, *pair) if (pair := review(feature.name, feature.mark)) else feature
        for feature in schema.features
    ]
    new_schema = replace(schema, features=tuple(features))
    outcome = review(OUTCOME, shown_outcome(schema)[1])
    return answer_outcome(new_schema, *outcome) if outcome else new_schema


def _ask_all(schema: Schema, source: str | None) -> dict[str, dict[str, str | None]]:
    """Asks at a terminal for each open part; Enter names `source`, if there is one."""
    parts = [(f.name, f.name, shown_feature(f), f.mark) for f in schema.features]
    name = "classes" if schema.classes is not None else "horizon" if schema.survival else "target"
    parts += [(OUTCOME, name, *shown_outcome(schema))]
    answers: dict[str, dict[str, str | None]] = {}
    for key, name, shown, mark in parts:
        if mark is None or not mark.is_open:
            continue
        text = str(typer.prompt(f"{name}: {shown}", default="", show_default=False)).strip()
        if text.lower().startswith(SOURCE):
            answers[key] = {"source": text[len(SOURCE) :]}
        elif text != LEAVE_OPEN:
            answers[key] = {"value": text} if text else {"source": source}
    return answers


def answer_feature(feature: Feature, answer: str, mark: Mark) -> Feature:
    """The feature with a mark, and with the answer's values, if any."""
    if not answer:
        return replace(feature, mark=mark)
    if isinstance(feature, Numeric):
        low, high = _pair(answer)
        return replace(feature, mark=mark, low=low, high=high)
    if isinstance(feature, Hashed):
        if not answer.isdigit():
            raise ParameterError(f"{answer!r} is no number of buckets; give a whole number.")
        return replace(feature, mark=mark, buckets=int(answer))
    return replace(feature, mark=mark, values=_split_values(answer))


def answer_outcome(schema: Schema, answer: str, mark: Mark) -> Schema:
    if schema.classes is not None:
        classes = _split_values(answer) if answer else schema.classes
        return replace(schema, classes=classes, classes_mark=mark)
    target = schema.target
    if target is None:
        return schema
    if schema.survival is not None:
        end = _pair(f"0 {answer}")[1] if answer else schema.survival.horizon
        return replace(schema, target=replace(schema.survival, horizon=end, mark=mark))
    low, high = _pair(answer) if answer else (target.low, target.high)
    return replace(schema, target=replace(target, low=low, high=high, mark=mark))


def shown_outcome(schema: Schema) -> tuple[str, Mark | None]:
    if schema.classes is not None:
        return ", ".join(schema.classes), schema.classes_mark
    return ("", None) if schema.target is None else (_range(schema.target), schema.target.mark)


def shown_feature(feature: Feature) -> str:
    if isinstance(feature, Numeric):
        return _range(feature)
    if isinstance(feature, Hashed):
        return f"{feature.buckets} buckets"
    return ", ".join(feature.values)  # all of them: what is not shown cannot be confirmed


def _range(bound: Numeric | Target) -> str:
    """Both ends with all digits; only the upper end for follow-up."""
    ends = (bound.high,) if isinstance(bound, Survival) else (bound.low, bound.high)
    return " to ".join(repr(end).removesuffix(".0") for end in ends)


def _pair(answer: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in answer.replace(",", " ").split())
    except ValueError:
        raise ParameterError(f"{answer!r} is no range; give two numbers, such as 0 110.") from None
    return low, high


def _split_values(answer: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in answer.split(","))


app = typer.Typer(
    help="Draft, check and confirm a schema: public facts about the data.", no_args_is_help=True
)
SchemaPath = Annotated[Path, typer.Argument(help="Read this schema file (.toml).")]


@app.command()
def draft(
    rows: Annotated[str, typer.Argument(help="Read rows from a .csv or .parquet file.")],
    target: OptionalTarget = None,
    event: Annotated[
        str | None, typer.Option(help="Name the column of events; the target is then their time.")
    ] = None,
    output: OutputFile = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draft a schema from rows, to be corrected and confirmed."""
    from hedgerow.data.schema_draft import diagnose

    if output is not None:
        check_output(output, rows, force=force)
    with warnings_as_lines(quiet):
        diagnosis = diagnose(rows, target, event=event)
    new_schema = diagnosis.schema
    if json:
        say_json(new_schema.to_dict())
    elif output is None:
        tell(diagnosis.to_toml(), end="")
    else:
        output.write_text(diagnosis.to_toml(), encoding="utf-8")
        if not quiet:
            for finding in (*diagnosis.findings, *diagnosis.outcome):
                for reason in finding.reasons:
                    tell(f"{finding.name or 'the outcome'}: {reason}")
            tell(
                f"{output}: {len(new_schema.features)} columns, "
                f"{len(new_schema.unconfirmed)} to confirm."
            )


@app.command()
def check(
    schema: SchemaPath,
    rows: Annotated[list[str] | None, typer.Argument(help="Compare it with these files.")] = None,
    target: OptionalTarget = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a schema, and rows against it. Exit code 1 if there is a problem."""
    known_schema, complaints = _read_schema(schema)
    reports: dict[str, str] = {}
    if known_schema is not None:
        for source in rows or ():
            problems, reports[source] = _problems_of(source, known_schema, target)
            complaints += [f"{source}: {problem}" for problem in problems]
    if json:
        content: dict[str, Any] = {"problems": complaints}
        if known_schema is not None:
            content |= {"digest": known_schema.digest, "columns": list(known_schema.names)}
        say_json(content)
    elif not quiet:
        for source, report in reports.items():
            tell(f"{source}\n{report}\n")
        fine = f"No problems; digest {known_schema.digest[:16]}." if known_schema else ""
        tell("\n".join(complaints) or fine)
    if complaints:
        raise typer.Exit(FOUND_SOMETHING)


def _read_schema(path: Path) -> tuple[Schema | None, list[str]]:
    """The schema, if the file has one, and all its problems."""
    from hedgerow.schema.formats import parsed_toml
    from hedgerow.schema.rules import Problems

    content, problems = parsed_toml(path), Problems()
    schema = problems.past(lambda: Schema.from_dict(content))
    if problems.messages:
        return None, problems.messages
    return schema, [f"{name}: read from rows and not confirmed" for name in schema.unconfirmed]


def _problems_of(source: str, schema: Schema, target: str | None) -> tuple[list[str], str]:
    """Problems of the owner's own rows, all columns at once."""
    from hedgerow.data.reading.encoding import encode
    from hedgerow.data.reading.report import report_of
    from hedgerow.data.reading.sources import open_table

    names = open_table(source, schema.columns).names
    target = target if schema.survival is None else schema.survival.time
    column_names = [*schema.columns, *(schema.label_columns(target) if target else [])]
    absent = [f"there is no column {name!r}" for name in column_names if name not in names]
    if absent:
        return [*absent, f"there are {names}"], "not read, since columns are absent"
    encoded_rows = encode(source, schema, target=target)
    report = report_of([encoded_rows], schema, target or "label")
    if not encoded_rows.n and not encoded_rows.skipped:
        return ["there are no rows"], str(report)
    skip_note = [f"{encoded_rows.skipped} rows are left out: no usable label, or a broken line"]
    return [*report.complaints, *(skip_note if encoded_rows.skipped else [])], str(report)


@app.command()
def confirm(
    schema: SchemaPath,
    by: Annotated[str, typer.Option(help="Give your name, for every privacy statement.")],
    source: Annotated[
        str | None,
        typer.Option(help="Name a public source of the values; Enter then says: as it has it."),
    ] = None,
) -> None:
    """Confirm for each value that was read from rows that it is public.

    Type the values ("0 110", or "north, south"), or "source: " and where anybody may read them.
    Enter alone confirms nothing, nor does "-".
    """
    shown = schema.read_bytes() if schema.is_file() else b""
    draft_schema = Schema.from_toml(schema)
    enter = "not yet" if source is None else f"as in {source}"
    tell(f"Known without the rows? Type the values, or {SOURCE} and where from; Enter = {enter}.")
    answers = _ask_all(draft_schema, source)
    new_schema = mark_reviewed(draft_schema, answers, by, datetime.date.today().isoformat())
    if schema.read_bytes() != shown:
        raise ParameterError(
            f"{schema} was changed while it was being confirmed; nothing was written. Confirm what "
            "it says now."
        )
    schema.write_text(new_schema.to_toml(), encoding="utf-8")
    left = len(new_schema.unconfirmed)
    tell(f"{schema}: {f'{left} still open' if left else 'all confirmed'}.")


@app.command()
def review(
    schema: SchemaPath,
    rows: Annotated[str | None, typer.Argument(help="Show values of these rows beside it.")] = None,
    target: OptionalTarget = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Review a schema on a page of this machine, column by column, and confirm it.

    A value that was read from rows is typed, or its source is named; Enter confirms nothing.
    """
    from hedgerow.cli.review import Review, ReviewServer
    from hedgerow.data.schema_draft import diagnose

    findings = list[Any]()
    if rows is not None:
        with warnings_as_lines(quiet=False):
            diagnosis = diagnose(rows, target)
        findings = [*diagnosis.findings, *diagnosis.outcome]
    waiting = threading.Event()
    server = ReviewServer(Review(schema, findings), lambda left: None if left else waiting.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tell(f"Review {schema} at {server.address} (Ctrl-C ends it).", flush=True)
    if browser:
        webbrowser.open(server.address)
    try:
        waiting.wait()
    except KeyboardInterrupt:
        tell("")
    server.shutdown()
    left = len(Schema.from_toml(schema).unconfirmed)
    tell(f"{schema}: {f'{left} still open' if left else 'all confirmed'}.")
