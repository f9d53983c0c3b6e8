"""`study.toml`: all that the parties of a study agree on, as a file that people read.

Its content, not its spelling, has the hash that sites approve and that every message and ledger
entry names. `[timing]` is the coordinator's own business and not part of it, and so is `[about]`,
what people say of the model: who publishes it, for what, where and when.
"""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

from hedgerow.errors import HedgerowError, SpecError
from hedgerow.federation.exchange import Timing
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.common import CommonParameters
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import declared
from hedgerow.methods.registry import Maker, estimator_named
from hedgerow.methods.saving import read_parameters
from hedgerow.methods.training import agree
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.declaration import (
    COUNT,
    FIELD_OF,
    MOST,
    STUDY,
    TABLES,
    Entries,
    Entry,
    Problem,
    dotted,
    read_table,
    table_schema,
)
from hedgerow.privacy.statement.about import About, Curator
from hedgerow.privacy.study import Study
from hedgerow.schema.rules import Rule, a, number, one_of, whole
from hedgerow.schema.schema import Schema
from hedgerow.secagg.keys import Roster, is_weak

# --------------------------------------------------------------------------------------------------
# Where an entry stands in a TOML text, so that an error can name the line.

EntryPath = tuple[str | int, ...]
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


def _entries(text: str) -> Iterator[tuple[EntryPath, int]]:
    """Every table and every entry of it, with its line; the insides of values are passed over."""
    table: EntryPath = ()
    many: dict[str, int] = {}
    for k, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            name = header[2]
            table = tuple(part.strip().strip("\"'") for part in name.split("."))
            if header[1] == "[[":
                many[name] = many.get(name, -1) + 1
                table = (*table, many[name])
            yield table, k
        elif entry := _ENTRY.match(line):
            yield (*table, entry[1].strip("\"'")), k


# --------------------------------------------------------------------------------------------------
# Tables beside those of the study's declaration: model, roster, timing, words about the model.

VERSION = 1
COMMON = {one.name for one in declared(CommonParameters)}
ELSEWHERE = {
    "schema": "[schema]",
    "random_state": "public_seed",
    "ledger": "each site's own vault",
    "progress": "the command line",
    "n_jobs": "each site's own machine",
    **{name: f"[{one.table}]" for name, one in STUDY.items() if name in COMMON},
}
"""Parameters of an estimator that a study says in another place."""
PRINTED = "printed_epsilon"
"""A parameter of methods that work out their true epsilon from the one their paper prints."""


def _text(pattern: str = r"[\s\S]*") -> Rule:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError
        return value

    return Rule("str", "another text", read, {"type": "string", "pattern": f"^{pattern}$"})


def _choice(*words: str) -> Entry:
    return Entry(one_of({word: word for word in words}))


def _table(inside: Entries, words: str = "", **more: Any) -> Entry:
    rule = replace(TABLE, json=table_schema(inside))
    return Entry(rule, words, "write a table", inside=inside, **more)


def _tables(inside: Entries, words: str = "", **more: Any) -> Entry:
    rule = replace(a(list), json={"type": "array", "items": table_schema(inside)})
    return Entry(rule, words, "write a list of tables", inside=inside, **more)


TABLE = replace(a(dict), json={"type": "object"})
SECONDS = Entry(number(above=0.0, below=MOST), usual=60.0)
NAME = Entry(
    _text("[A-Za-z0-9][A-Za-z0-9._-]{0,62}"),
    todo="use letters, digits, dots, dashes and underlines, 63 at most",
    needed=True,
)
KEY = Entry(
    _text("[0-9a-f]{64}"),
    todo="write the 64 hexadecimal digits of a public key, as `hedgerow site init` shows them",
    needed=True,
)
CURATOR = {
    "name": Entry(_text(r"[\s\S]+"), needed=True),
    "kind": _choice("Government", "Industry", "Nonprofit"),
}
FILE: Entries = {
    "version": Entry(
        replace(whole(VERSION, VERSION), json={"const": VERSION}),
        todo=f"this hedgerow reads version {VERSION}, so update hedgerow or write the file anew",
        needed=True,
    ),
    "name": NAME,
    "public_seed": Entry(
        whole(0, 2**32 - 1), "Public randomness: random cuts, orders. Never noise.", needed=True
    ),
    "model": _table(
        {"estimator": Entry(_text(), needed=True), "parameters": Entry(TABLE, usual={})},
        "An estimator of hedgerow, or a paper's method: papers.wang.local_rnm; and those of its "
        "parameters that are not its defaults.",
        needed=True,
    ),
    "schema": Entry(
        TABLE,
        "Public facts: ranges, categories and classes that are known without looking at a row. "
        '`file = "schema.toml"` instead takes them from a file beside this one.',
        needed=True,
    ),
    "privacy": _table(TABLES["privacy"], needed=True),
    "sum": _table(TABLES["sum"]),
    "evaluation": _table(TABLES["evaluation"]),
    "coordinator": _table({"key": KEY}, needed=True),
    "site": _tables(
        {"name": NAME, "key": KEY},
        "Every site's public key, as `hedgerow site init` shows it, compared by telephone.",
        needed=True,
    ),
    "timing": _table(
        {
            "answer_seconds": SECONDS,
            "asks": Entry(COUNT, usual=3),
            "patience_seconds": Entry(number(least=0.0, below=MOST), usual=3600.0),
            "return_seconds": SECONDS,
        },
        "The coordinator's own, not part of the agreement: seconds for one exchange, how often the "
        "silent are asked again before a round goes on without them, how long a run waits while "
        "too few are there, how often a lost site is asked whether it is back.",
    ),
    "about": _table(
        {
            "curator": _tables(CURATOR),
            "intended_use": Entry(_text()),
            "region": Entry(_text()),
            "sector": _choice(
                "Technology", "Healthcare", "Education", "Government", "Energy", "Finance"
            ),
            "publication_date": Entry(
                _text("[0-9]{4}-[0-9]{2}-[0-9]{2}"), todo="write it as 2026-11-16"
            ),
        },
        "For readers of the model, not part of the agreement: who publishes it, for what, where "
        "and when.",
    ),
}


def study_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The whole file as JSON Schema, given that of `[schema]`."""
    found = table_schema(FILE)
    found["properties"]["schema"] = schema
    found["properties"]["privacy"]["required"] = []
    promised = {"properties": {"privacy": {"required": ["epsilon"]}}}
    printed = {"properties": {"parameters": {"required": [PRINTED]}}, "required": ["parameters"]}
    return found | {"anyOf": [promised, {"properties": {"model": printed}}]}


class ModelTable(NamedTuple):
    """The estimator, by its name in hedgerow, and those of its parameters that are its own."""

    estimator: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class StudyFile:
    """A study as its file says it; `study` is what sites approve."""

    content: Mapping[str, Any]
    """Table by table, as it is written; what a file leaves out at what that usually is."""

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """From a file; a schema in a file of its own is found beside it and taken in."""
        where = Path(path)
        try:
            text = where.read_text(encoding="utf-8")
        except OSError as error:
            raise SpecError(f"{path} cannot be read: {error.strerror}; check the path.") from None
        except UnicodeDecodeError:
            raise SpecError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
        return cls.parse(text, where)

    @classmethod
    def parse(cls, text: str, path: Path) -> Self:
        """`path` is named in errors, and schema files are looked for beside it."""
        try:
            content = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # numbers or brackets without an end, too
            raise SpecError(f"{path} is not valid TOML: {error}; correct that line.") from None
        return cls.checked(content, path, text)

    @classmethod
    def checked(cls, content: dict[str, Any], path: Path, text: str = "") -> Self:
        """From parsed content; `text` is where lines are looked for."""
        try:
            problems: list[Problem] = []
            whole = {"sum": {}, "timing": {}, **_with_schema(content, path)}
            found = cls(read_table(_entries_for(content), whole, (), problems))
            problems = problems or list(found.conflicts())[:1]
            if not problems:
                _ = found.study, found.roster, found.estimator(), found.about
                return found
        except HedgerowError as error:
            raise SpecError(f"{_where(path, _line_of_error(text, str(error)))}: {error}") from None
        told = [f"{_where(path, line_of(text, place))}: {words}" for place, words in problems]
        raise SpecError("; ".join(told) + ".")

    def conflicts(self) -> Iterator[Problem]:
        """What no entry shows by itself, with the place of the entry that is one too many."""
        if len(self.names) < 2:
            yield ("site",), f"site stands there {len(self.names)} times; name two sites or more"
        for k, name in enumerate(self.names):
            if name in self.names[:k]:
                words = f"site.{k}.name is {name!r}, as another site's; name every site once"
                yield ("site", k, "name"), words
        places: list[tuple[str | int, ...]] = [("site", k, "key") for k in range(len(self.names))]
        keys = [one["key"] for one in (*self.content["site"], self.content["coordinator"])]
        for k, place in enumerate([*places, ("coordinator", "key")]):
            name = dotted(place)
            if is_weak(bytes.fromhex(keys[k])):
                yield place, f"{name} is no key that anybody can hold alone; ask for another one"
            if keys[k] in keys[:k]:
                yield place, f"{name} stands above already; everybody needs a key of their own"

    # ------------------------------------------------------------------------------- what it says
    @property
    def name(self) -> str:
        return str(self.content["name"])

    @property
    def model(self) -> ModelTable:
        return ModelTable(**self.content["model"])

    @property
    def names(self) -> tuple[str, ...]:
        """Of the sites, in the order of the roster."""
        return tuple(one["name"] for one in self.content["site"])

    @cached_property
    def roster(self) -> Roster:
        keys = tuple(bytes.fromhex(one["key"]) for one in self.content["site"])
        return Roster(keys, bytes.fromhex(self.content["coordinator"]["key"]))

    @cached_property
    def schema_given(self) -> Schema:
        return Schema.from_dict(self.content["schema"])

    @property
    def study(self) -> Study:
        """What sites approve; its hash covers everything but `[timing]` and `[about]`."""
        return self._agreed[0]

    @property
    def recipe(self) -> Recipe:
        return self._agreed[1]

    @property
    def _declared(self) -> dict[str, Any]:
        """What the file says of the study's declaration, by the names of its fields."""
        said = {
            FIELD_OF[table, name]: value
            for table in TABLES
            for name, value in self.content.get(table, {}).items()
        }
        return {name: STUDY[name].value_of(value) for name, value in said.items()}

    @cached_property
    def _agreed(self) -> tuple[Study, Recipe]:
        said = self._declared.items()
        terms = {name: STUDY[name].rule.read(value) for name, value in said if name not in COMMON}
        terms |= {"name": self.name, "names": self.names}
        terms |= {"sites": self.roster.sites, "coordinator": self.roster.coordinator}
        return agree(self.estimator(), self.schema_given, len(self.names), terms)

    @property
    def rounds(self) -> int:
        """The most that a run takes, those that fail not counted."""
        return self.recipe.largest(self.study.schema).rounds + bool(self.study.asks_held_out)

    def estimator(self) -> PrivateEstimator:
        """A new one with the parameters that were agreed on, not yet fitted.

        What the file does not say is the method's own, or the paper's.
        """
        kind = estimator_named(self.model.estimator)
        own = _own_parameters(self.model.parameters)
        _check_parameters(kind, own)
        said = {name: value for name, value in self._declared.items() if name in COMMON}
        seed = self.content["public_seed"]
        return kind(schema=self.schema_given, random_state=seed, **said, **own)

    @property
    def about(self) -> About | None:
        if "about" not in self.content:
            return None
        told = dict(self.content["about"])
        curators = tuple(Curator(**one) for one in told.pop("curator", ()))
        return About(curators=curators, **told)

    @property
    def timing(self) -> Timing:
        return Timing(**self.content["timing"])


def _entries_for(content: dict[str, Any]) -> Entries:
    """A method that works out its own epsilon is told none."""
    model = content.get("model")
    own = model.get("parameters") if isinstance(model, dict) else None
    if not isinstance(own, dict) or PRINTED not in own:
        return FILE
    silent = replace(STUDY["epsilon"], needed=False)
    return {**FILE, "privacy": _table({**TABLES["privacy"], "epsilon": silent}, needed=True)}


def _own_parameters(given: dict[str, Any]) -> dict[str, Any]:
    try:
        return read_parameters(given)
    except HedgerowError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise SpecError(
            f"parameters of the model are not spelled as hedgerow spells them ({error}); write "
            "numbers and texts, or let `hedgerow study init` write them."
        ) from None


def _check_parameters(kind: Maker, given: dict[str, Any]) -> None:
    for name, value in given.items():
        if type(value) is int and abs(value) >= MOST:
            raise SpecError(f"{name} has more than 12 digits; use a number that it can have.")
        if name in ELSEWHERE:
            raise SpecError(f"{name} stands among the parameters; it belongs to {ELSEWHERE[name]}.")
    if not isinstance(kind, type):
        return  # a paper's method knows its own
    known = {p.name for p in declared(kind)} - set(ELSEWHERE)
    for name in sorted(set(given) - known):
        raise SpecError(f"{name} is no parameter of {kind.__name__}; use some of {sorted(known)}.")


def _with_schema(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """A schema named by its file becomes part of the study, before anything is hashed."""
    schema = content.get("schema")
    if not isinstance(schema, dict) or set(schema) != {"file"}:
        return content
    return content | {"schema": Schema.from_toml(path.parent / str(schema["file"])).to_dict()}


# ------------------------------------------------------------------------------------------ errors
def _where(path: Path, line: int | None) -> str:
    return str(path) if line is None else f"{path}, line {line}"


def _line_of_error(text: str, message: str) -> int | None:
    """Our own errors begin with the name of what they are about, or say what it is."""
    names = [message.split(" ", 1)[0], *re.findall(r"(\w+) is ", message)]
    return next((line for name in names if (line := line_of_name(text, name))), None)


# --------------------------------------------------------------------------------------------------
# A study as a commented file.

HEADING = """\
# What all parties of this study agree on. Its content has the hash that sites approve: change
# anything but [timing] and [about], and everybody has to approve it anew.
"""


def as_text(agreed: StudyFile) -> str:
    """The whole study, schema included; reading it again gives the same hash."""
    content = agreed.content
    plain = {name: content[name] for name in FILE if isinstance(content.get(name), str | int)}
    parts = [HEADING + _lines(plain)]
    for table, one in FILE.items():
        if table in TABLES or isinstance(content.get(table), dict | list):
            parts += ["\n".join([*_comment(one.words), text]) for text in _texts(agreed, table)]
    return "\n".join(parts)


def _texts(agreed: StudyFile, table: str) -> Iterator[str]:
    said = agreed.content.get(table, {})
    match table:
        case "model":
            own = f"[model.parameters]\n{_lines(agreed.model.parameters)}"
            yield f"[model]\n{_lines({'estimator': agreed.model.estimator})}\n{own}"
        case "schema":
            yield _schema(agreed.schema_given)
        case "site":
            yield "\n".join(f"[[site]]\n{_lines(one)}" for one in said)
        case _ if table in TABLES:
            yield from _declared_table(agreed, table)
        case _:
            yield f"[{table}]\n{_lines(said)}"


def _declared_table(agreed: StudyFile, table: str) -> Iterator[str]:
    """Each entry after its words: as it was written, or as it was worked out from the rest."""
    said, lines = agreed.content.get(table, {}), []
    for name, one in TABLES[table].items():
        if name in said or not one.needed:
            value = said.get(name, getattr(agreed.study, FIELD_OF[table, name]))
            lines += [*_comment(one.words), f"{name} = {_value(value)}"]
    if lines:
        yield "\n".join([f"[{table}]", *lines, ""])


def _comment(words: str) -> list[str]:
    return textwrap.wrap(words, 100, initial_indent="# ", subsequent_indent="# ")


def _schema(schema: Schema) -> str:
    """Its own TOML, one table deeper."""
    deeper = re.sub(r"(?m)^(\[\[?)([a-z]+\]\]?)$", r"\1schema.\2", schema.to_toml().rstrip())
    return f"[schema]\n{deeper}\n"


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Placement):
        value = value.name.lower()
    if isinstance(value, Fraction):
        value = float(value) if Fraction(str(float(value))) == value else str(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
