"""`study.toml`: the agreement of a study's sites, as a file that people read.

Sites approve the hash of its content, which every message and ledger entry names; layout and
comments do not change it. `[timing]` and `[checks]` belong to the coordinator and `[about]` (who
publishes the model, for which purpose) describes it; none of them is part of the hash.
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

from hedgerow.errors import HedgerowError, ParameterError
from hedgerow.federation.exchange import Timing
from hedgerow.federation.plausibility import Influence
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.common import CommonParameters
from hedgerow.methods.dry_run import most_rounds
from hedgerow.methods.method import Method, check_size
from hedgerow.methods.parameters import declared_parameters
from hedgerow.methods.registry import EstimatorMaker, estimator_named
from hedgerow.methods.saving import read_parameters
from hedgerow.methods.training import agree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.declaration import (
    COUNT,
    FIELD_OF,
    MOST,
    STUDY,
    TABLES,
    Entries,
    Problem,
    StudyEntry,
    join_place,
    read_table,
    table_schema,
)
from hedgerow.privacy.statement.record import About, Curator
from hedgerow.privacy.study import Study
from hedgerow.schema.rules import Rule, a, number, one_of, whole
from hedgerow.schema.schema import Schema
from hedgerow.secagg.keys import Roster, is_weak

# Where an entry stands in a TOML text, so that an error can name the line.

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]")
_ENTRY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(\s*\.\s*[A-Za-z0-9_.-]+)?\s*=""")


def line_of(text: str, place: Sequence[str | int]) -> int | None:
    """The line of an entry, or of the innermost enclosing table."""
    lines = dict(_entries(text))
    paths = (tuple(place[:k]) for k in range(len(place), 0, -1))
    return next((lines[path] for path in paths if path in lines), None)


def _entries(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Every table and every entry with its line; the contents of values are skipped."""
    table: tuple[str | int, ...] = ()
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


# Tables besides the study's declaration: model, roster, timing, description of the model.

VERSION = 1
COMMON = {parameter.name for parameter in declared_parameters(CommonParameters)}
ELSEWHERE = {
    "schema": "[schema]",
    "random_state": "public_seed",
    "ledger": "each site's own store",
    "progress": "the command line",
    "n_jobs": "each site's own machine",
    **{name: f"[{entry.table}]" for name, entry in STUDY.items() if name in COMMON},
}
"""Parameters of an estimator that a study declares elsewhere."""
PRINTED = "published_epsilon"
"""A parameter of methods that derive their true epsilon from the published one."""


def _text(pattern: str = r"[\s\S]*") -> Rule:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError
        return value

    return Rule("str", "another text", read, {"type": "string", "pattern": f"^{pattern}$"})


def _choice(*words: str) -> StudyEntry:
    return StudyEntry(one_of({word: word for word in words}))


def _table(inside: Entries, words: str = "", **more: Any) -> StudyEntry:
    rule = replace(TABLE, json=table_schema(inside))
    return StudyEntry(rule, words, "write a table", inside=inside, **more)


def _tables(inside: Entries, words: str = "", **more: Any) -> StudyEntry:
    rule = replace(a(list), json={"type": "array", "items": table_schema(inside)})
    return StudyEntry(rule, words, "write a list of tables", inside=inside, **more)


TABLE = replace(a(dict), json={"type": "object"})
SECONDS = StudyEntry(number(above=0.0, below=MOST), usual=60.0)
SITE_NAME = StudyEntry(
    _text("[A-Za-z0-9][A-Za-z0-9._-]{0,62}"),
    todo="use letters, digits, dots, dashes and underscores, 63 at most",
    is_required=True,
)
SITE_KEY = StudyEntry(
    _text("[0-9a-f]{128}"),
    todo="let `hedgerow study invite` write it, or write a public key's 128 hexadecimal digits",
    is_required=True,
)
CURATOR = {
    "name": StudyEntry(_text(r"[\s\S]+"), is_required=True),
    "kind": _choice("Government", "Industry", "Nonprofit"),
}
FILE: Entries = {
    "version": StudyEntry(
        replace(whole(VERSION, VERSION), json={"const": VERSION}),
        todo=f"this hedgerow reads version {VERSION}, so update hedgerow or write the file anew",
        is_required=True,
    ),
    "name": SITE_NAME,
    "public_seed": StudyEntry(
        whole(0, 2**32 - 1),
        "Public randomness: random cuts, orders. Never noise.",
        is_required=True,
    ),
    "model": _table(
        {
            "estimator": StudyEntry(_text(), is_required=True),
            "parameters": StudyEntry(TABLE, usual={}),
        },
        "An estimator of hedgerow, or a paper's method: papers.wang.local_rnm; and those of its "
        "parameters that are not its defaults.",
        is_required=True,
    ),
    "schema": StudyEntry(
        TABLE,
        "Public facts: ranges, categories and classes that are known without looking at a row. "
        '`file = "schema.toml"` instead takes them from a file beside this one.',
        is_required=True,
    ),
    "privacy": _table(TABLES["privacy"], is_required=True),
    "sum": _table(TABLES["sum"]),
    "evaluation": _table(TABLES["evaluation"]),
    "coordinator": _table({"key": SITE_KEY}, is_required=True),
    "site": _tables(
        {"name": SITE_NAME, "key": SITE_KEY, "rows_at_most": StudyEntry(COUNT)},
        "Every site's public key, as `hedgerow study invite` gets it; confirm it out of band. "
        "`rows_at_most`, not part of the agreement: a public number, rounded up by its people, "
        "above which sums are held to be wrong.",
        is_required=True,
    ),
    "timing": _table(
        {
            "answer_seconds": SECONDS,
            "asks": StudyEntry(COUNT, usual=3),
            "patience_seconds": StudyEntry(number(least=0.0, below=MOST), usual=3600.0),
            "return_seconds": SECONDS,
            "at_once": StudyEntry(replace(a(bool), json={"type": "boolean"}), usual=True),
        },
        "The coordinator's own, not part of the agreement: seconds for one exchange, how often the "
        "silent are asked again before a round goes on without them, how long a run waits while "
        "too few are there, how often a lost site is asked whether it is back, whether rounds may "
        "be opened in one exchange where a failure can be paid for.",
    ),
    "checks": _table(
        {"influence": StudyEntry(number(above=0.0, below=1.0))},
        "The coordinator's own, not part of the agreement: the part of every sum's budget with "
        "which it is asked once more without some sites in turn, so that the statement can say "
        "what each adds. No more is charged; sums are noisier, and rounds are twice as many.",
    ),
    "about": _table(
        {
            "curator": _tables(CURATOR),
            "intended_use": StudyEntry(_text()),
            "region": StudyEntry(_text()),
            "sector": _choice(
                "Technology", "Healthcare", "Education", "Government", "Energy", "Finance"
            ),
            "publication_date": StudyEntry(
                _text("[0-9]{4}-[0-9]{2}-[0-9]{2}"), todo="write it as 2026-11-16"
            ),
        },
        "For readers of the model, not part of the agreement: who publishes it, for what, where "
        "and when.",
    ),
}


class ModelTable(NamedTuple):
    """The estimator, by its name in hedgerow, and its own parameters."""

    estimator: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class StudyFile:
    """A study as in its file; `study` is what sites approve."""

    content: Mapping[str, Any]
    """Table by table as written; absent entries have their defaults."""

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Reads a file; a schema in a separate file is looked up beside it and included."""
        where = Path(path)
        try:
            text = where.read_text(encoding="utf-8")
        except OSError as error:
            raise ParameterError(
                f"{path} cannot be read: {error.strerror}; check the path."
            ) from None
        except UnicodeDecodeError:
            raise ParameterError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
        return cls.parse(text, where)

    @classmethod
    def parse(cls, text: str, path: Path) -> Self:
        """`path` is named in errors, and schema files are looked up beside it."""
        try:
            content = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # numbers or brackets without an end, too
            raise ParameterError(f"{path} is not valid TOML: {error}; correct that line.") from None
        return cls.checked(content, path, text)

    @classmethod
    def checked(cls, content: dict[str, Any], path: Path, text: str = "") -> Self:
        """From parsed content; `text` is searched for lines."""
        try:
            if _lacks_keys(content):
                raise ParameterError("keys are still missing; `hedgerow study invite` gets them.")
            whole = {"sum": {}, "timing": {}, **content}
            schema = content.get("schema")
            if isinstance(schema, dict) and set(schema) == {"file"}:  # before anything is hashed
                whole["schema"] = Schema.from_toml(path.parent / str(schema["file"])).to_dict()
            problems: list[Problem] = []
            study_file = cls(read_table(_entries_of(content), whole, (), problems))
            problems = problems or list(study_file.conflicts())[:1]
            if not problems:
                _ = study_file.study, study_file.roster, study_file.estimator(), study_file.about
                _ = study_file.influence
                check_size(study_file.method, study_file.study)
                return study_file
        except HedgerowError as error:
            raise ParameterError(
                f"{_where(path, _line_of_error(text, str(error)))}: {error}"
            ) from None
        messages = [f"{_where(path, line_of(text, place))}: {words}" for place, words in problems]
        raise ParameterError("; ".join(messages) + ".")

    def conflicts(self) -> Iterator[Problem]:
        """Conflicts between entries, with the place of the entry to remove."""
        names = self.names
        if len(names) < 2:
            yield ("site",), f"site stands there {len(names)} times; name two sites or more"
        for k, name in enumerate(names):
            if name in names[:k]:
                words = f"site.{k}.name is {name!r}, as another site's; name every site once"
                yield ("site", k, "name"), words
        places: list[tuple[str | int, ...]] = [("site", k, "key") for k in range(len(names))]
        keys = [role["key"] for role in (*self.content["site"], self.content["coordinator"])]
        for k, place in enumerate([*places, ("coordinator", "key")]):
            name = join_place(place)
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
        """The names of the sites, in the order of the roster."""
        return tuple(site["name"] for site in self.content["site"])

    @cached_property
    def roster(self) -> Roster:
        keys = tuple(bytes.fromhex(site["key"]) for site in self.content["site"])
        return Roster(keys, bytes.fromhex(self.content["coordinator"]["key"]))

    @cached_property
    def schema_given(self) -> Schema:
        return Schema.from_dict(self.content["schema"])

    @property
    def study(self) -> Study:
        """The study that sites approve; its hash covers everything but `[timing]` and `[about]`."""
        return self._study_and_method[0]

    @property
    def method(self) -> Method:
        return self._study_and_method[1]

    @property
    def _declarations(self) -> dict[str, Any]:
        """The file's values of the study's declaration, by the names of its fields."""
        return {
            (field := FIELD_OF[table, name]): STUDY[field].value_of(value)
            for table in TABLES
            for name, value in self.content.get(table, {}).items()
        }

    @cached_property
    def _study_and_method(self) -> tuple[Study, Method]:
        terms = {
            name: STUDY[name].rule.parse(value)
            for name, value in self._declarations.items()
            if name not in COMMON
        }
        terms |= {"name": self.name, "names": self.names, "method": self.model.estimator}
        terms |= {"sites": self.roster.sites, "coordinator": self.roster.coordinator}
        return agree(self.estimator(), self.schema_given, len(self.names), terms)

    @property
    def rounds(self) -> int:
        """The most that a run takes, those that fail not counted."""
        return most_rounds(self.study, self.method) * (1 if self.influence is None else 2)

    @property
    def longest_message(self) -> int:
        """A bound on the bytes of the questions of one round, with all values that they name."""
        return self.method.largest(self.study.schema).bytes

    def estimator(self) -> PrivateEstimator:
        """A new estimator with the agreed parameters, not fitted.

        Parameters that the file leaves out are the method's own, or the paper's.
        """
        kind = estimator_named(self.model.estimator)
        try:
            own = read_parameters(self.model.parameters)
        except HedgerowError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ParameterError(
                f"parameters of the model are not spelled as hedgerow spells them ({error}); "
                "write numbers and texts, or let `hedgerow study init` write them."
            ) from None
        check_estimator(kind, own, ELSEWHERE)
        common = {name: value for name, value in self._declarations.items() if name in COMMON}
        seed = self.content["public_seed"]
        return kind(schema=self.schema_given, random_state=seed, **common, **own)

    @property
    def about(self) -> About | None:
        if "about" not in self.content:
            return None
        about_fields = dict(self.content["about"])
        curators = tuple(Curator(**curator) for curator in about_fields.pop("curator", ()))
        return About(curators=curators, **about_fields)

    @property
    def rows_at_most(self) -> int | None:
        """A public bound on the records of all sites, if every site has one."""
        bounds = [site.get("rows_at_most") for site in self.content["site"]]
        return None if None in bounds else sum(bounds)

    @property
    def influence(self) -> Influence | None:
        """A new measurement of what each site adds, if the coordinator pays for one."""
        part = self.content.get("checks", {}).get("influence")
        return None if part is None else Influence(self.study, Fraction(str(part)), self.names)

    @property
    def timing(self) -> Timing:
        return Timing(**self.content["timing"])


def _lacks_keys(content: dict[str, Any]) -> bool:
    """Whether the sites have yet to be invited, as in a new study."""
    sites = content.get("site")
    roles = [content.get("coordinator"), *(sites if isinstance(sites, list) else [])]
    return any(isinstance(role, dict) and role.get("key") == "" for role in roles)


def _entries_of(content: dict[str, Any]) -> Entries:
    """The entries of the file; a method that derives its own epsilon needs none."""
    model = content.get("model")
    own = model.get("parameters") if isinstance(model, dict) else None
    if not isinstance(own, dict) or PRINTED not in own:
        return FILE
    silent = replace(STUDY["epsilon"], is_required=False)
    return {**FILE, "privacy": _table({**TABLES["privacy"], "epsilon": silent}, is_required=True)}


def check_estimator(
    kind: EstimatorMaker, parameters: Mapping[str, Any], elsewhere: Mapping[str, str]
) -> None:
    """Refuses parameters that an estimator does not have, or that are set `elsewhere`."""
    for name, value in parameters.items():
        if type(value) is int and abs(value) >= MOST:
            raise ParameterError(f"{name} has more than 12 digits; use a number that it can have.")
        if name in elsewhere:
            raise ParameterError(
                f"{name} stands among the parameters; it belongs to {elsewhere[name]}."
            )
    if not isinstance(kind, type):
        return  # a paper's method knows its own
    names = {p.name for p in declared_parameters(kind)} - set(elsewhere)
    for name in sorted(set(parameters) - names):
        raise ParameterError(
            f"{name} is no parameter of {kind.__name__}; use some of {sorted(names)}."
        )


def _where(path: Path, line: int | None) -> str:
    return str(path) if line is None else f"{path}, line {line}"


def _line_of_error(text: str, message: str) -> int | None:
    """The line of an error: our own errors begin with the name of their subject."""
    names = [message.split(" ", 1)[0], *re.findall(r"(\w+) is ", message)]
    lines = {path[-1]: line for path, line in reversed(list(_entries(text)))}
    return next((lines[name] for name in names if name in lines), None)


# A study as a commented file.

HEADING = """\
# What all sites of this study agree on. Its content has the hash that sites approve: change
# anything but [timing], [checks], [about] and rows_at_most, and everybody has to approve it anew.
"""


def as_text(study_file: StudyFile) -> str:
    """The whole study, schema included; reading it gives the same hash."""
    content = study_file.content
    plain = {name: content[name] for name in FILE if isinstance(content.get(name), str | int)}
    parts = [HEADING + _lines(plain)]
    for table, entry in FILE.items():
        if table in TABLES or isinstance(content.get(table), dict | list):
            text = _table_text(study_file, table)
            parts += ["\n".join([*_comment(entry.words), text])] if text else []
    return "\n".join(parts)


def _table_text(study_file: StudyFile, table: str) -> str:
    values = study_file.content.get(table, {})
    if table == "model":
        own = f"[model.parameters]\n{_lines(study_file.model.parameters)}"
        return f"[model]\n{_lines({'estimator': study_file.model.estimator})}\n{own}"
    if table == "schema":  # its own TOML, one table deeper
        text = study_file.schema_given.to_toml().rstrip()
        deeper = re.sub(r"(?m)^(\[\[?)([a-z]+\]\]?)$", r"\1schema.\2", text)
        return f"[schema]\n{deeper}\n"
    if table == "site":
        return "\n".join(f"[[site]]\n{_lines(site)}" for site in values)
    if table not in TABLES:
        return f"[{table}]\n{_lines(values)}"
    lines = list[str]()  # each entry after its description: as written, or derived from the rest
    for name, entry in TABLES[table].items():
        if name in values or not entry.is_required:
            value = values.get(name, getattr(study_file.study, FIELD_OF[table, name]))
            lines += [*_comment(entry.words), f"{name} = {toml_value(value)}"]
    return "\n".join([f"[{table}]", *lines, ""]) if lines else ""


def _comment(words: str) -> list[str]:
    return textwrap.wrap(words, 100, initial_indent="# ", subsequent_indent="# ")


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())


def toml_value(value: Any) -> str:
    if isinstance(value, DPModel):
        value = value.name.lower()
    if isinstance(value, Fraction):
        value = float(value) if Fraction(str(float(value))) == value else str(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
