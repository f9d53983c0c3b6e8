"""The declaration of a study: each entry with its place in the file, its rule and its description.

`study.toml` is read and written by these entries. Its JSON Schema, the options of `hedgerow study
init` and the text that a person approves are generated from them, estimators share their rules and
descriptions, and the hash of a study covers their plain values. A new number of studies is one
entry here and the code that uses it.
"""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from hedgerow.errors import HedgerowError, ParameterError
from hedgerow.models.validation import MOST_FOLDS
from hedgerow.privacy.accounting.budget import WRITTEN, DPModel
from hedgerow.privacy.accounting.conversions import FAILURES, GUARANTEES, is_delta, is_epsilon
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.queries import QueryKind, QueryKinds
from hedgerow.schema.rules import Rule, fraction, one_of, whole
from hedgerow.schema.schema import Schema
from hedgerow.secagg.parameters import PROTOCOL, Sparse

if TYPE_CHECKING:
    from hedgerow.privacy.study import Study

MOST = 10**12
MOST_COUNTED = 10**6
MAX_REPLY_INTERVAL = 86_400
"""One day in seconds."""
COMPLETE = "complete"

Problem = tuple[tuple[str | int, ...], str]
"""A place in a file, and the problem there."""


class _Plain(NamedTuple):
    """Converts a value to integers and texts, and back."""

    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value


AS_IT_IS = _Plain()
RATIONAL_FIELD = _Plain(str, Fraction)


def object_schema(properties: Mapping[str, Any], required_names: list[str]) -> dict[str, Any]:
    """The JSON Schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required_names,
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class StudyEntry:
    rule: Rule
    words: str = ""
    todo: str = ""
    """What to do about a wrong value; by default the error says what the rule allows."""
    plain: _Plain = AS_IT_IS
    is_required: bool = False
    usual: Any = None
    """The value of an absent entry; None if it follows from the other entries."""
    inside: Mapping[str, StudyEntry] | None = None
    """The entries of a nested table, or of each table of a list."""
    table: str = ""
    name: str = ""
    none: str = ""
    """What None means as an estimator's parameter."""
    approval_line: tuple[str, str] = ("", "")
    """Title and text for the person who approves a study; names of fields stand in braces."""

    @property
    def is_rational(self) -> bool:
        """Whether a text like "1/3" is read as a number."""
        return self.plain is RATIONAL_FIELD

    def value_of(self, plain_value: Any) -> Any:
        """The value as a Python user would pass it."""
        exact = (
            self.is_rational and isinstance(plain_value, str) and re.fullmatch(WRITTEN, plain_value)
        )
        return Fraction(plain_value) if exact else plain_value

    @property
    def text(self) -> str:
        """The description of the parameter of an estimator."""
        return f"{self.words} None {self.none}." if self.none else self.words

    @property
    def brief(self) -> str:
        """The first sentence of the description."""
        return self.words.partition(". ")[0].rstrip(".") + "."

    @property
    def json_schema(self) -> dict[str, Any]:
        description = {"description": self.words} if self.words else {}
        return {**self.rule.json, **description}


Entries = Mapping[str, StudyEntry]


def table_schema(entries: Entries) -> dict[str, Any]:
    required_names = [name for name, table_entry in entries.items() if table_entry.is_required]
    return object_schema(
        {name: table_entry.json_schema for name, table_entry in entries.items()}, required_names
    )


# Entries of the study itself; the hash covers all of them.


KEY = _Plain(bytes.hex, bytes.fromhex)
KEYS = _Plain(lambda keys: [key.hex() for key in keys], lambda c: tuple(map(bytes.fromhex, c)))
KINDS = _Plain(
    lambda kinds: [[kind.query, kind.what, kind.by] for kind in sorted(kinds)],
    lambda content: frozenset(QueryKind(*kind) for kind in content),
)


def _reports_content(reports: BloomRandomizedResponse | None) -> dict[str, str] | None:
    return None if reports is None else {name: str(part) for name, part in asdict(reports).items()}


def _reports_of(content: Mapping[str, str] | None) -> BloomRandomizedResponse | None:
    if content is None:
        return None
    counts: dict[str, Any] = {name: int(content[name]) for name in ("classes", "bits", "hashes")}
    return BloomRandomizedResponse(
        **{name: Fraction(text) for name, text in content.items()} | counts
    )


def _rational(words: str, fits: Callable[[Fraction], bool]) -> Rule:
    """A rule for numbers and texts such as "1/3": decimals of bounded length with one meaning."""
    ends = {"exclusiveMinimum": -MOST, "exclusiveMaximum": MOST}
    texts = {"type": "string", "pattern": f"^({WRITTEN})$"}
    return replace(fraction(words, fits), json={"anyOf": [{"type": "number", **ends}, texts]})


COUNT = whole(1, MOST_COUNTED)
GRAPH = {field_.name: StudyEntry(COUNT, is_required=True) for field_ in fields(Sparse)}
GRAPHS = {"anyOf": [{"const": COMPLETE}, table_schema(GRAPH)]}
SEVERAL = {"enum": [p.name.lower() for p in DPModel if p is not DPModel.CENTRAL]}
"""The DP models of a study file, which has several sites."""


def entry(table: str, rule: Rule, words: str, *, default: Any = MISSING, **more: Any) -> Any:
    """Declares a field of a study and its entry in the file; `default` holds in a simulation."""
    new_entry = StudyEntry(rule, words, table=table, **more)
    return field(default=default, metadata={"entry": new_entry, "plain": new_entry.plain})


def derived_field(plain: _Plain = AS_IT_IS, *, default: Any = MISSING) -> Any:
    """Declares a field derived from the model, the schema or the roster."""
    return field(default=default, metadata={"plain": plain})


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Everything the sites agree on; `Study` derives the rest from it."""

    name: str = derived_field()
    schema: Schema = derived_field(_Plain(Schema.to_dict, Schema.from_dict))
    method: str = derived_field()
    asks: QueryKinds = derived_field(KINDS)
    """The queries that the method may ask; a site admits no others."""
    epsilon: Fraction = entry(
        "privacy",
        _rational(GUARANTEES, is_epsilon),
        "The guarantee: one record changes the probability of no outcome by more than a factor "
        "of e to this power. Smaller is more private, and noisier.",
        plain=RATIONAL_FIELD,
        is_required=True,
    )
    delta: Fraction = entry(
        "privacy",
        _rational(FAILURES, is_delta),
        "Probability with which the guarantee of epsilon may fail; well below 1 / (100 x the "
        "largest number of records there could be). Above 0 noise is discrete Gaussian, which "
        "is smaller as soon as a record takes part in about nine sums, as it does with nine "
        "columns or a few levels. 0 is pure differential privacy (discrete Laplace noise); see "
        "docs/accounting.md. Under dp_model 'label' the default stands for 0.",
        plain=RATIONAL_FIELD,
    )
    by_person: bool = entry(
        "privacy",
        one_of({"record": False, "person": True}),
        "The protected unit: a record, or a person, of whom each site keeps at most "
        "`records_per_person` records.",
        name="unit",
        usual="record",
        default=False,
    )
    dp_model: DPModel = entry(
        "privacy",
        replace(one_of({p.name.lower(): p for p in DPModel}), json=SEVERAL),
        "Where noise is added. 'central': one site has all rows and adds all the noise. "
        "'distributed': each of several sites adds a part, only the sum is opened, and only the "
        "sum is private. 'per_site': each site adds enough for itself, so that its sums would be "
        "private even if they were seen; more noise the more sites. 'label': each record's label "
        "is randomized once and for all (local DP); features are not protected. "
        "'none': no noise and no guarantee, to see what noise costs.",
        none="is 'central' for one site and 'distributed' for several",
        plain=_Plain(lambda dp_model: dp_model.name, lambda name: DPModel[name]),
    )
    records_per_person: int = entry(
        "privacy",
        COUNT,
        "Most records per person; noise grows in proportion, and the guarantee then protects a "
        "person.",
        default=1,
    )
    retry_budget: Fraction = entry(
        "privacy",
        _rational("a part of the budget, 0 or more and below 1", lambda part: 0 <= part < 1),
        "Fraction of the budget reserved for rounds that fail.",
        plain=RATIONAL_FIELD,
        usual=0.05,
        default=Fraction(0),
    )
    n_sites: int = derived_field()
    threshold: int = entry(
        "sum",
        whole(2, MOST_COUNTED),
        "The fewest sites whose sum may be opened; for several sites.",
        none="allows a fifth of them to drop out, but none of two or three",
        approval_line=("a sum opens", "with at least {threshold} of {n_sites} sites"),
    )
    colluders: int = entry(
        "sum",
        COUNT,
        "How many sites may collude without breaking the guarantee; for several sites.",
        none="is a third of them",
        approval_line=(
            "assumption",
            "colluding sites, beside the coordinator: at most {colluders}",
        ),
    )
    graph: Sparse | None = entry(
        "sum",
        Rule(
            "str or table",
            "complete, or a table",
            lambda value: (
                Sparse(**value)
                if isinstance(value, dict)
                else one_of({COMPLETE: None}).parse(value)
            ),
            GRAPHS,
        ),
        "Which sites share masks: all pairs (complete), or neighbors on a sparse graph, for more "
        "than 200 sites; a sparse graph uses a part of delta.",
        todo='write "complete", or, for more than 200 sites, { sigma = 40, eta = 20, rounds = 100 }'
        " with the rounds that the study may take",
        inside=GRAPH,
        plain=_Plain(
            read=lambda content: (
                None if content == COMPLETE else Sparse(**{name: content[name] for name in GRAPH})
            )
        ),
        usual=COMPLETE,
        default=None,
    )
    reply_interval: int = entry(
        "sum",
        whole(0, MAX_REPLY_INTERVAL),
        "Seconds: replies leave at fixed intervals, so that their time does not show how many "
        "records a site has. 0 does not protect that.",
        name="reply_interval_seconds",
        approval_line=("replies leave", "at fixed intervals of {reply_interval} seconds"),
        default=0,
    )
    max_rounds: int = entry(
        "sum",
        whole(0, MOST_COUNTED),
        "Most rounds of a run, including its evaluation, not counting retries. Every "
        "round waits for all sites; boosted trees share rounds to keep to it. 0 leaves the number "
        "to the method.",
        approval_line=("rounds", "at most {max_rounds}"),
        default=0,
    )
    hold_out: int = entry(
        "evaluation",
        whole(2, MOST_FOLDS),
        "One record in this many is held out of training, by a secret draw of its site; the last "
        "round of a study, or hedgerow.evaluate, evaluates the model on these records.",
        none="holds out nothing",
        is_required=True,
        approval_line=("held out", "one record in {hold_out}, by a secret random draw"),
        default=0,
    )
    asks_held_out: QueryKinds = derived_field(KINDS, default=frozenset())
    """The queries about held-out records in the same run, which evaluate the model."""
    label_reports: BloomRandomizedResponse | None = derived_field(
        _Plain(_reports_content, _reports_of), default=None
    )
    """Under DP model `label`: noisy bits instead of k-ary randomized response."""
    method_parameters: str = derived_field(default="")
    """The method with all its parameters as text; equal content means the same study."""
    public_seed: int = derived_field(default=0)
    sites: tuple[bytes, ...] = derived_field(KEYS, default=())
    """Public keys of the sites, by id; empty in a simulation, which runs in one process."""
    coordinator: bytes = derived_field(KEY, default=b"")
    names: tuple[str, ...] = derived_field(_Plain(list, tuple), default=())
    """Names of the sites, by id; empty, or one per site."""


STUDY: Entries = {
    field_.name: field_.metadata["entry"]
    for field_ in fields(Declaration)
    if "entry" in field_.metadata
}
"""The entries of a study file, by field name."""
FIELD_OF = {
    (table_entry.table, table_entry.name or name): name for name, table_entry in STUDY.items()
}


TABLES = {
    table: {name: STUDY[of] for (where, name), of in FIELD_OF.items() if where == table}
    for table, _ in FIELD_OF
}
"""The entries of each table, by their names in the file."""


def approval(study: Study) -> Iterator[tuple[str, str]]:
    """Lines of the approval page; entries at their defaults are omitted."""
    usual = {table_entry.name: table_entry.default for table_entry in fields(Declaration)}
    for name, table_entry in STUDY.items():
        title, words = table_entry.approval_line
        if title and getattr(study, name) != usual[name]:
            yield title, words.format(**vars(study))


# Reading the tables of a file.


def read_table(
    entries: Entries, content: Any, place: tuple[str | int, ...], problems: list[Problem]
) -> dict[str, Any]:
    """The values of a table, entry by entry, with defaults for absent entries."""
    if not isinstance(content, dict):
        problems.append((place, f"{join_place(place)} is {short(content)}; write a table"))
        return {}
    for name in sorted(content.keys() - entries.keys()):
        where = (*place, name)
        problems.append((where, f"{join_place(where)} is no entry of a study; take it out"))
    values = {
        name: table_entry.usual
        for name, table_entry in entries.items()
        if table_entry.usual is not None
    }
    for name, table_entry in entries.items():
        where = (*place, name)
        if name in content:
            values[name] = _read_entry(table_entry, content[name], where, problems)
        elif table_entry.is_required:
            problems.append((where, f"{join_place(where)} is missing; add it"))
    return values


def _read_entry(
    table_entry: StudyEntry, value: Any, where: tuple[str | int, ...], problems: list[Problem]
) -> Any:
    before = len(problems)
    if table_entry.inside is not None and isinstance(value, dict):
        value = read_table(table_entry.inside, value, where, problems)
    elif table_entry.inside is not None and isinstance(value, list):
        rows = enumerate(value)
        value = [read_table(table_entry.inside, row, (*where, k), problems) for k, row in rows]
    try:
        if len(problems) == before:
            table_entry.rule.parse(table_entry.value_of(value))
    except (TypeError, ValueError, ArithmeticError):
        name = where[-1] if where[0] in TABLES else join_place(where)
        todo = table_entry.todo or f"use {table_entry.rule.expectation}"
        problems.append((where, f"{name} is {short(value)}; {todo}"))
    return value


def join_place(place: tuple[str | int, ...]) -> str:
    return ".".join(map(str, place))


def short(value: Any) -> str:
    """The representation of a value, abbreviated if it is long."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "a number that is too long to be shown"


# A study as plain values: the same content is hashed, approved and sent.

NOISE_LAW_VERSION = 1
_DERIVED = {"lattice", "protocol", "noise_law"}
"""Part of the hash, so that releases of hedgerow that differ in them never join."""


def content_of(study: Study) -> dict[str, Any]:
    """The approved content: numbers as integers or texts, never as floats."""
    plain = {
        field_.name: field_.metadata["plain"].write(getattr(study, field_.name))
        for field_ in fields(Declaration)
    }
    graph: str | dict[str, int] = COMPLETE
    if study.graph is not None:  # its degree is derived
        graph = {**asdict(study.graph), **asdict(study.parameters.neighborhood)}
    versions = {"lattice": study.lattice, "protocol": PROTOCOL, "noise_law": NOISE_LAW_VERSION}
    return {**plain, "graph": graph, **versions}


def rebuilt(make: type[Study], content: Mapping[str, Any]) -> Study:
    """Builds a study from its content; the caller compares derived values by the hash."""
    readers = {field_.name: field_.metadata["plain"].read for field_ in fields(Declaration)}
    try:
        plain_values = {name: value for name, value in content.items() if name not in _DERIVED}
        return make(**{name: readers[name](value) for name, value in plain_values.items()})
    except HedgerowError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ParameterError(
            f"this is not the content of a study ({type(error).__name__}: {error}); give what "
            "`to_dict` made, whole and unchanged."
        ) from None


# The hash of a study's content, used by headers, accounts and approvals.


def content_hash(content: Mapping[str, Any]) -> bytes:
    """Hashes parsed content: order and spelling do not matter, values and versions do."""
    text = json.dumps(without_floats(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"hedgerow/study/2/" + text.encode()).digest()


def without_floats(value: Any) -> Any:
    """Replaces floats, which languages spell differently, by exact fractions."""
    if isinstance(value, float):
        numerator, denominator = value.as_integer_ratio()
        return f"{numerator}/{denominator}"
    if isinstance(value, Mapping):
        return {key: without_floats(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_floats(part) for part in value]
    return value
