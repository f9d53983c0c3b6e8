"""`hedgerow schema`: a draft from rows, a check of all problems at once, and a person's word."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.console import FOUND_SOMETHING, Json, Quiet, say_json, tell, warnings_as_lines
from hedgerow.cli.writing import Force, check_output

if TYPE_CHECKING:
    from hedgerow.values.schema import Schema

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
    from hedgerow.values.schema import Schema

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
    from hedgerow.values.problems import Problems
    from hedgerow.values.schema import Schema
    from hedgerow.values.schema_text import parsed_toml

    content, problems = parsed_toml(path), Problems()
    known = problems.past(lambda: Schema.from_dict(content))
    if problems.found:
        return None, problems.found
    return known, [f"{what}: read from rows and not confirmed" for what in known.unconfirmed]


def _problems_of(source: str, schema: Schema, target: str | None) -> tuple[list[str], str]:
    """Of the owner's own rows, all columns at once."""
    from hedgerow.site.reading.encoding import encode
    from hedgerow.site.reading.report import report_of
    from hedgerow.site.reading.sources import open_table

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
    from hedgerow.cli.confirming import confirmed
    from hedgerow.errors import SpecError
    from hedgerow.values.schema import Mark, Schema

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
