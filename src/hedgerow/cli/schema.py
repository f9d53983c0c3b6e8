"""`hedgerow schema`: a draft from rows, a check of all problems at once, and a person's word."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.console import FOUND_SOMETHING, Json, Quiet, say_json, tell, warnings_as_lines
from hedgerow.cli.writing import Force, check_output
from hedgerow.errors import SpecError
from hedgerow.schema.schema import Feature, Hashed, Mark, Numeric, Schema, Target

# --------------------------------------------------------------------------------------------------
# One question for each value of a schema that was read from rows.

LEAVE_OPEN = "-"


def confirmed(schema: Schema, mark: Mark) -> Schema:
    """The schema with this mark on all that the person at the keyboard says is public."""
    features = tuple(_feature(feature, mark) for feature in schema.features)
    return _outcome(replace(schema, features=features), mark)


def _is_open(mark: Mark | None) -> bool:
    return mark is not None and mark.is_open


def _feature(feature: Feature, mark: Mark) -> Feature:
    said = _asked(feature.name, _shown(feature)) if _is_open(feature.mark) else LEAVE_OPEN
    if said == LEAVE_OPEN:
        return feature
    agreed = replace(feature, mark=mark)
    if not said:
        return agreed
    if isinstance(agreed, Numeric):
        low, high = _pair(said)
        return replace(agreed, low=low, high=high)
    if isinstance(agreed, Hashed):
        return replace(agreed, buckets=_whole(said))
    return replace(agreed, values=_listed(said))


def _outcome(schema: Schema, mark: Mark) -> Schema:
    """The classes, or the range of the target."""
    if schema.classes is not None and _is_open(schema.classes_mark):
        said = _asked("classes", ", ".join(schema.classes))
        if said == LEAVE_OPEN:
            return schema
        classes = _listed(said) if said else schema.classes
        return replace(schema, classes=classes, classes_mark=mark)
    target = schema.target
    if target is not None and _is_open(target.mark):
        said = _asked("target", _range(target))
        if said == LEAVE_OPEN:
            return schema
        low, high = _pair(said) if said else (target.low, target.high)
        return replace(schema, target=replace(target, low=low, high=high, mark=mark))
    return schema


def _shown(feature: Feature) -> str:
    if isinstance(feature, Numeric):
        return _range(feature)
    if isinstance(feature, Hashed):
        return f"{feature.buckets} buckets"
    return ", ".join(feature.values)  # all of them: nobody confirms what is not shown


def _range(bound: Numeric | Target) -> str:
    """Both ends with every digit that they have."""
    return " to ".join(repr(end).removesuffix(".0") for end in (bound.low, bound.high))


def _asked(name: str, shown: str) -> str:
    return str(typer.prompt(f"{name}: {shown}", default="", show_default=False)).strip()


def _pair(said: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in said.replace(",", " ").split())
    except ValueError:
        raise SpecError(f"{said!r} is no range; give two numbers, such as 0 110.") from None
    return low, high


def _whole(said: str) -> int:
    if not said.isdigit():
        raise SpecError(f"{said!r} is no number of buckets; give a whole number.")
    return int(said)


def _listed(said: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in said.split(","))


app = typer.Typer(
    help="Public facts about the data, and where they come from.", no_args_is_help=True
)
SchemaPath = Annotated[Path, typer.Argument(help="A schema file (.toml).")]
OptionalTarget = Annotated[str | None, typer.Option("--target", help="The column to be predicted.")]


@app.command()
def draft(
    rows: Annotated[str, typer.Argument(help="A .csv or .parquet file.")],
    target: OptionalTarget = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Types, round ranges and values as rows show them, to be corrected and confirmed."""
    if output is not None:
        check_output(output, rows, force=force)
    with warnings_as_lines(quiet):
        drafted = Schema.draft(rows, target)
    if json:
        say_json(drafted.to_dict())
    elif output is None:
        tell(drafted.to_toml(), end="")
    else:
        output.write_text(drafted.to_toml(), encoding="utf-8")
        if not quiet:
            tell(
                f"{output}: {len(drafted.features)} columns, {len(drafted.unconfirmed)} to confirm."
            )


@app.command()
def check(
    schema: SchemaPath,
    rows: Annotated[list[str] | None, typer.Argument(help="Files to compare it with.")] = None,
    target: OptionalTarget = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """All that is wrong with a schema, and with rows under it. Exit code 1 if anything is."""
    known, found = _read(schema)
    told: dict[str, str] = {}
    if known is not None:
        for source in rows or ():
            problems, told[source] = _problems_of(source, known, target)
            found += [f"{source}: {problem}" for problem in problems]
    if json:
        told_of = {"digest": known.digest, "columns": list(known.names)} if known else {}
        say_json({**told_of, "problems": found})
    elif not quiet:
        for source, report in told.items():
            tell(f"{source}\n{report}\n")
        fine = f"Nothing to complain of; digest {known.digest[:16]}." if known else ""
        tell("\n".join(found) or fine)
    if found:
        raise typer.Exit(FOUND_SOMETHING)


def _read(path: Path) -> tuple[Schema | None, list[str]]:
    """The schema, if the file tells one, and all that is wrong with it."""
    from hedgerow.schema.problems import Problems
    from hedgerow.schema.toml import parsed_toml

    content, problems = parsed_toml(path), Problems()
    known = problems.past(lambda: Schema.from_dict(content))
    if problems.found:
        return None, problems.found
    return known, [f"{what}: read from rows and not confirmed" for what in known.unconfirmed]


def _problems_of(source: str, schema: Schema, target: str | None) -> tuple[list[str], str]:
    """Of the owner's own rows, all columns at once."""
    from hedgerow.data.reading.encoding import encode
    from hedgerow.data.reading.report import report_of
    from hedgerow.data.reading.sources import open_table

    names = open_table(source, schema.names).names
    wanted = [*schema.names, *([target] if target else [])]
    absent = [f"there is no column {name!r}" for name in wanted if name not in names]
    if absent:
        return [*absent, f"there are {names}"], "not read, since columns are absent"
    read = encode(source, schema, target=target)
    report = report_of([read], schema, target or "label")
    if not read.n and not read.skipped:
        return ["there are no rows"], str(report)
    skipped = [f"{read.skipped} rows are left out: no usable label, or a broken line"]
    return [*report.complaints, *(skipped if read.skipped else [])], str(report)


@app.command()
def confirm(
    schema: SchemaPath,
    by: Annotated[str, typer.Option(help="Your name. It stands in every statement.")],
) -> None:
    """Asks of each value that was read from rows whether it is known in public.

    Enter confirms; new values replace those shown ("0 110", or "north, south"); "-" leaves it open.
    """
    shown = schema.read_bytes() if schema.is_file() else b""
    known = Schema.from_toml(schema)
    tell("Known without looking at the rows? Enter = yes, new values replace, - = not yet.")
    settled = confirmed(known, Mark(by, datetime.date.today().isoformat()))
    if schema.read_bytes() != shown:
        raise SpecError(
            f"{schema} was changed while it was being confirmed; nothing was written. Confirm what "
            "it says now."
        )
    schema.write_text(settled.to_toml(), encoding="utf-8")
    left = len(settled.unconfirmed)
    tell(f"{schema}: {f'{left} still open' if left else 'all confirmed'}.")
