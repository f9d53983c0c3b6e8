"""Where an entry stands in a TOML text, so that an error can name the line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Path = tuple[str | int, ...]
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]")
_ENTRY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(\s*\.\s*[A-Za-z0-9_.-]+)?\s*=""")


def line_of(text: str, wanted: Sequence[str | int]) -> int | None:
    """The line of an entry, or of the innermost table around it that is written down."""
    lines = dict(_entries(text))
    path = tuple(wanted)
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def line_of_name(text: str, name: str) -> int | None:
    """The first line that gives a value to `name`, in whatever table."""
    return next((line for path, line in _entries(text) if path[-1] == name), None)


def _entries(text: str) -> Iterator[tuple[Path, int]]:
    """Every table and every entry of it, with its line; the insides of values are passed over."""
    table: Path = ()
    many: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            name = header[2]
            table = tuple(part.strip().strip("\"'") for part in name.split("."))
            if header[1] == "[[":
                many[name] = many.get(name, -1) + 1
                table = (*table, many[name])
            yield table, number
        elif entry := _ENTRY.match(line):
            yield (*table, entry[1].strip("\"'")), number
