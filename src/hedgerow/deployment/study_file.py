"""`study.toml`: all that the parties of a study agree on, as a file that people read.

Its content, not its spelling, has the hash that sites approve and that every message and ledger
entry names. `[timing]` is the coordinator's own business and not part of it, and so is `[about]`,
what people say of the model: who publishes it, for what, where and when.
"""

from __future__ import annotations

import json
import re
import reprlib
import tomllib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hedgerow.errors import HedgerowError, SpecError
from hedgerow.federation.exchange import Timing
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.common import DEFAULT_DELTA
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import declared
from hedgerow.methods.saving import read_parameters
from hedgerow.methods.training import Terms, agree
from hedgerow.papers.by_name import Maker, estimator_named
from hedgerow.privacy.accounting.budget import WRITTEN
from hedgerow.privacy.statement.about import About, Curator
from hedgerow.privacy.study import Study
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema
from hedgerow.secagg.keys import Roster, is_weak
from hedgerow.secagg.parameters import Sparse

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


VERSION = 1
ELSEWHERE = {
    "schema": "[schema]",
    "epsilon": "[privacy]",
    "delta": "[privacy]",
    "placement": "[privacy]",
    "records_per_person": "[privacy]",
    "colluders": "[sum]",
    "threshold": "[sum]",
    "random_state": "public_seed",
    "ledger": "each site's own vault",
    "progress": "the command line",
    "n_jobs": "each site's own machine",
    "hold_out": "[evaluation]",
}
"""Parameters of an estimator that a study says in another place."""

HexKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
MOST = 10**12
Number = (
    Annotated[int, Field(gt=-MOST, lt=MOST)]
    | Annotated[float, Field(gt=-MOST, lt=MOST)]
    | Annotated[str, Field(pattern=f"^({WRITTEN})$")]
)
"""A number, or a text such as "1/3": plain decimals of bounded length, which nobody reads for long
or reads otherwise than another."""
MOST_COUNTED = 10**6
Count = Annotated[int, Field(ge=1, le=MOST_COUNTED)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelTable(_Table):
    """The estimator, by its name in hedgerow, and those of its parameters that are its own.

    Or a paper's method: `papers.wang.local_rnm`.
    """

    estimator: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class PrivacyTable(_Table):
    epsilon: Number
    delta: Number = DEFAULT_DELTA
    unit: Literal["record", "person"] = "record"
    """`person`: each site counts whose records it has and keeps `records_per_person` of each."""
    placement: Literal["shares", "silo", "label", "nowhere"] = "shares"
    records_per_person: Count = 1
    retry_reserve: Number = 0.05
    """The part of the budget that pays for rounds that fail."""


class GraphTable(_Table):
    """A sparse graph of masks, for more than 200 sites; paid for out of delta."""

    sigma: Count
    eta: Count
    rounds: Count


class SumTable(_Table):
    colluders: Count | None = None
    threshold: int | None = Field(default=None, ge=2, le=MOST_COUNTED)
    graph: Literal["complete"] | GraphTable = "complete"
    slot_seconds: int = Field(default=0, ge=0, le=MOST_COUNTED)
    """Replies leave at the end of a slot; 0 does not protect how long a site takes."""

    @property
    def sparse(self) -> Sparse | None:
        return None if self.graph == "complete" else Sparse(**self.graph.model_dump())


class EvaluationTable(_Table):
    """How good the model is, as one more private query of the same run."""

    hold_out: int = Field(ge=2, le=MOST_COUNTED)
    """One record in so many is kept out of training, by a secret draw of its own at its site."""


class CuratorTable(_Table):
    name: str = Field(min_length=1)
    kind: Literal["Government", "Industry", "Nonprofit"] | None = None


class AboutTable(_Table):
    """For readers of the model: its statement, its page, a registry. Not part of the hash."""

    curator: list[CuratorTable] = Field(default_factory=list)
    intended_use: str | None = None
    region: str | None = None
    sector: (
        Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | None
    ) = None
    publication_date: str | None = Field(default=None, pattern=r"^\d{4}-\d{2}-\d{2}$")


class SiteTable(_Table):
    name: Name
    key: HexKey


class CoordinatorTable(_Table):
    key: HexKey


class TimingTable(_Table):
    answer_seconds: float = Field(default=60.0, gt=0, lt=MOST)
    asks: Count = 3
    patience_seconds: float = Field(default=3600.0, ge=0, lt=MOST)
    return_seconds: float = Field(default=60.0, gt=0, lt=MOST)


class StudyFile(_Table):
    """A study as its file says it; `study` is what sites approve."""

    version: Literal[1]
    name: Name
    public_seed: int = Field(ge=0, lt=2**32)
    model: ModelTable
    schema_: dict[str, Any] = Field(alias="schema")
    privacy: PrivacyTable
    sum: SumTable = Field(default_factory=SumTable)
    evaluation: EvaluationTable | None = None
    coordinator: CoordinatorTable
    site: list[SiteTable] = Field(min_length=2)
    timing_: TimingTable = Field(default_factory=TimingTable, alias="timing")
    about_: AboutTable | None = Field(default=None, alias="about")

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
            found = cls.model_validate(_with_schema(content, path))
            conflict = next(found.conflicts(), None)
            if conflict is None:
                _ = found.study, found.roster, found.estimator(), found.about
                return found
        except ValidationError as error:
            raise SpecError(_all_problems(error, text, path)) from None
        except HedgerowError as error:
            raise SpecError(f"{_where(path, _line_of_error(text, str(error)))}: {error}") from None
        place, words = conflict
        raise SpecError(f"{_where(path, line_of(text, place))}: {words}.")

    def conflicts(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """What no entry shows by itself, with the place of the entry that is one too many."""
        for k, name in enumerate(self.names):
            if name in self.names[:k]:
                words = f"site.{k}.name is {name!r}, as another site's; name every site once"
                yield ("site", k, "name"), words
        places: list[tuple[str | int, ...]] = [("site", k, "key") for k in range(len(self.site))]
        keys = [*(one.key for one in self.site), self.coordinator.key]
        for k, place in enumerate([*places, ("coordinator", "key")]):
            name = ".".join(map(str, place))
            if is_weak(bytes.fromhex(keys[k])):
                yield place, f"{name} is no key that anybody can hold alone; ask for another one"
            if keys[k] in keys[:k]:
                yield place, f"{name} stands above already; everybody needs a key of their own"

    # ------------------------------------------------------------------------------- what it says
    @property
    def names(self) -> tuple[str, ...]:
        """Of the sites, in the order of the roster."""
        return tuple(one.name for one in self.site)

    @cached_property
    def roster(self) -> Roster:
        keys = tuple(bytes.fromhex(one.key) for one in self.site)
        return Roster(keys, bytes.fromhex(self.coordinator.key))

    @cached_property
    def schema_given(self) -> Schema:
        return Schema.from_dict(self.schema_)

    @property
    def study(self) -> Study:
        """What sites approve; its hash covers everything but `[timing]`."""
        return self._agreed[0]

    @property
    def recipe(self) -> Recipe:
        return self._agreed[1]

    @cached_property
    def _agreed(self) -> tuple[Study, Recipe]:
        terms = Terms(
            name=self.name,
            retry_reserve=exact(self.privacy.retry_reserve, "retry_reserve"),
            sites=self.roster.sites,
            coordinator=self.roster.coordinator,
            names=self.names,
            by_person=self.privacy.unit == "person",
            graph=self.sum.sparse,
            slot=self.sum.slot_seconds,
        )
        return agree(self.estimator(), self.schema_given, len(self.site), terms)

    @property
    def rounds(self) -> int:
        """The most that a run takes, those that fail not counted."""
        return self.recipe.largest(self.study.schema).rounds + bool(self.study.asks_held_out)

    def estimator(self) -> PrivateEstimator:
        """A new one with the parameters that were agreed on, not yet fitted."""
        kind = estimator_named(self.model.estimator)
        own = _own_parameters(self.model.parameters)
        _check_parameters(kind, own)
        return kind(
            schema=self.schema_given,
            epsilon=_number(self.privacy.epsilon, "epsilon"),
            delta=_number(self.privacy.delta, "delta"),
            placement=self.privacy.placement,
            records_per_person=self.privacy.records_per_person,
            colluders=self.sum.colluders,
            threshold=self.sum.threshold,
            random_state=self.public_seed,
            hold_out=None if self.evaluation is None else self.evaluation.hold_out,
            **own,
        )

    @property
    def about(self) -> About | None:
        if self.about_ is None:
            return None
        told = self.about_.model_dump(exclude={"curator"})
        curators = tuple(Curator(one.name, one.kind) for one in self.about_.curator)
        return About(curators=curators, **told)

    @property
    def timing(self) -> Timing:
        return Timing(**self.timing_.model_dump())


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


def _number(value: Number, name: str) -> Any:
    """As it was written, so that a model file shows it so; a text is read exactly."""
    return exact(value, name) if isinstance(value, str) else value


def _with_schema(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """A schema named by its file becomes part of the study, before anything is hashed."""
    schema = content.get("schema")
    if not isinstance(schema, dict) or set(schema) != {"file"}:
        return content
    return content | {"schema": Schema.from_toml(path.parent / str(schema["file"])).to_dict()}


# ------------------------------------------------------------------------------------------ errors
def _all_problems(error: ValidationError, text: str, path: Path) -> str:
    """Once each: of a union every member complains, most of them about what nobody meant."""
    told = dict.fromkeys(_problem(one, text, path) for one in error.errors() if _is_meant(one))
    return "; ".join(told) + "."


def _is_meant(one: Any) -> bool:
    return not (_COMPLETE in one["loc"] and isinstance(one["input"], dict))


def _problem(one: Any, text: str, path: Path) -> str:
    place = [part for part in one["loc"] if part not in _UNION_PARTS]
    name = ".".join(str(part) for part in place)
    line = line_of(text, place)
    match one["type"]:
        case "missing":
            return f"{_where(path, line)}: {name} is missing; add it"
        case "extra_forbidden":
            return f"{_where(path, line)}: {name} is no entry of a study; take it out"
        case "literal_error" if name == "version":
            return (
                f"{_where(path, line)}: version is {one['input']!r}; this hedgerow reads version "
                f"{VERSION}, so update hedgerow or write the file anew"
            )
    shown = "" if isinstance(one["input"], dict) else f" is {short(one['input'])}"
    return f"{_where(path, line)}: {name}{shown}; {_expected(one)}"


_COMPLETE = "literal['complete']"
_UNION_PARTS = {"int", "float", "str", _COMPLETE, "GraphTable"}
"""Pydantic names the member of a union that did not fit; a person wrote none of them."""


def _expected(one: Any) -> str:
    if one["loc"][:2] == ("sum", "graph") and len(one["loc"]) == 3:  # the last is a union's member
        return (
            'write "complete", or, for more than 200 sites, '
            "{ sigma = 40, eta = 20, rounds = 100 } with the rounds that the study may take"
        )
    words = str(one["msg"][0].lower() + one["msg"][1:])
    if one["loc"][0] == "privacy" and one["loc"][-1] in ("int", "float", "str"):
        return 'write a plain number of at most 12 digits before the point, such as 0.5, or "1/3"'
    if one["type"] == "string_pattern_mismatch":
        is_key = one["loc"][-1] == "key"
        words = (
            "write the 64 hexadecimal digits of a public key, as `hedgerow site init` shows them"
            if is_key
            else "use letters, digits, dots, dashes and underlines, 63 at most"
        )
    return words


def short(value: Any) -> str:
    """Of a number of thousands of digits, or of a long text, its beginning."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "a number that is too long to be shown"


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
MODEL_HEADING = "# An estimator of hedgerow, and those of its parameters that are not its defaults."
SCHEMA_HEADING = """\
# Public facts: ranges, categories and classes that are known without looking at a row.
# `file = "schema.toml"` instead takes them from a file beside this one.\
"""
PRIVACY_HEADING = """\
# The promise. `unit = "person"` makes each site keep `records_per_person` records of a person.
# `placement`: shares (each site adds a part of the noise), silo (each adds enough for itself),
# label (labels are told at random), nowhere (no noise, no promise).
# `retry_reserve` is the part of the budget that pays for rounds that fail.\
"""
SUM_HEADING = """\
# `threshold`: the fewest sites whose sum may be opened. `colluders`: how many sites may work with
# the coordinator without breaking the promise. `slot_seconds`: replies leave at the end of a slot,
# so that their time does not tell how many records a site has; 0 does not protect that.\
"""
EVALUATION_HEADING = """\
# One record in `hold_out` is kept out of training, by a secret draw of its own; the last round asks
# these how good the model is. They pay for nothing else.\
"""
SITES_HEADING = (
    "# Every site's public key, as `hedgerow site init` shows it, compared by telephone."
)
TIMING_HEADING = """\
# The coordinator's own, not part of the agreement: seconds for one exchange, how often the silent
# are asked again before a round goes on without them, how long a run waits while too few are
# there, how often a lost site is asked whether it is back.\
"""


ABOUT_HEADING = """\
# For readers of the model, not part of the agreement: who publishes it, for what, where and when.\
"""


def as_text(agreed: StudyFile) -> str:
    """The whole study, schema included; reading it again gives the same hash."""
    content = agreed.model_dump(by_alias=True, exclude_none=True)
    parts = [
        HEADING + _lines({name: content[name] for name in ("version", "name", "public_seed")}),
        f"{MODEL_HEADING}\n[model]\n" + _lines({"estimator": agreed.model.estimator}),
        "[model.parameters]\n" + _lines(agreed.model.parameters),
        f"{SCHEMA_HEADING}\n{_schema(agreed.schema_given)}",
        f"{PRIVACY_HEADING}\n[privacy]\n{_lines(content['privacy'])}",
        f"{SUM_HEADING}\n[sum]\n{_lines(content['sum'])}",
        *_evaluation(content),
        f"[coordinator]\n{_lines(content['coordinator'])}",
        SITES_HEADING + "\n" + "\n".join(f"[[site]]\n{_lines(one)}" for one in content["site"]),
        f"{TIMING_HEADING}\n[timing]\n{_lines(content['timing'])}",
        *([f"{ABOUT_HEADING}\n[about]\n{_lines(content['about'])}"] if "about" in content else []),
    ]
    return "\n".join(parts)


def _evaluation(content: dict[str, Any]) -> list[str]:
    if "evaluation" not in content:
        return []
    return [f"{EVALUATION_HEADING}\n[evaluation]\n{_lines(content['evaluation'])}"]


def _schema(schema: Schema) -> str:
    """Its own TOML, one table deeper."""
    lines = schema.to_toml().rstrip().split("\n")
    inner = [line.replace("[[", "[[schema.", 1) if _is_header(line) else line for line in lines]
    deeper = [f"[schema.{line[1:]}" if _is_table(line) else line for line in inner]
    return "\n".join(["[schema]", *deeper, ""])


def _is_header(line: str) -> bool:
    return line.startswith("[[") and line.endswith("]]") and " " not in line


def _is_table(line: str) -> bool:
    return line.startswith("[") and not line.startswith("[[") and line.endswith("]")


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
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
