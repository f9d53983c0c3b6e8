"""A site's policy. Refusals leave as constant codes; reasons stay in the site's log."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.federation.audit_log import LOG
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, DPModel, Measure, written_number
from hedgerow.privacy.statement.wording import dp_model_words
from hedgerow.privacy.study import Study

FEWEST_SITES = 3
"""With two sites, each knows the other's part of a sum up to noise."""


@dataclass(frozen=True)
class Volume:
    """What a study has used at this site: rounds, bytes that left, bytes on its disk."""

    rounds: int
    bytes_sent: int
    disk: int


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a site allows: nothing, unless it says so. None means no limit."""

    methods: frozenset[str] | None = frozenset()
    features: frozenset[str] | None = frozenset()
    dp_models: frozenset[DPModel] = frozenset()
    epsilon_per_study: Fraction | None = Fraction(0)
    """Per study, like all limits."""
    delta_per_study: Fraction | None = Fraction(0)
    fewest_sites: int = FEWEST_SITES
    fewest_colluders: int = 1
    colluders_per_study: int | None = 1_000
    records_per_person: int | None = 100
    rounds_per_study: int | None = 10_000
    bytes_per_study: int | None = 10**10
    """Bytes of answers that leave."""
    disk_per_study: int | None = 10**9
    """Bytes that its rounds store or log here."""
    message_bytes: int | None = 1 << 26
    """Bytes of one message with questions."""
    seconds_per_round: int | None = 3600
    """Of a reply interval, and of the work for one round: a longer one ends the study here."""
    least_fraction: Fraction | None = Fraction(1, 10**9)
    """Fraction of the budget for one query: many tiny ones would cost disk space and no budget."""

    @staticmethod
    def open() -> Policy:
        """Allows everything, for simulations in which one process holds all rows."""
        anything: dict[str, Any] = {field_.name: None for field_ in fields(Policy)}
        anything |= {"dp_models": frozenset(DPModel), "fewest_sites": 1, "fewest_colluders": 0}
        return Policy(**anything)

    def check(self, study: Study) -> None:
        """Raises with a code that outsiders may see; the site's own log has the reasons."""
        self._refuse(study, self.reasons(study))

    def check_volume(self, study: Study, volume: Volume) -> None:
        """The same for what a study has used here, including the round that is about to leave."""
        names = ("rounds_per_study", "bytes_per_study", "disk_per_study")
        uses = zip(names, ("rounds", "bytes", "bytes on disk"), astuple(volume), strict=True)
        self._refuse(study, [why for use in uses for why in self._above(*use)])

    def check_request(self, study: Study, size: int, fractions: Iterable[Fraction]) -> None:
        """The same for one message: its bytes, and the fractions of the budget that it asks for."""
        reasons = list(self._above("message_bytes", "bytes of a message", size))
        least = min(fractions, default=None)
        if least is not None and self.least_fraction is not None and least < self.least_fraction:
            reasons.append(f"a query of {least} of the budget is below {self.least_fraction}")
        self._refuse(study, reasons)

    def _above(self, name: str, what: str, value: Fraction | int) -> Iterator[str]:
        """Why a value is refused, if it is above the limit of this name."""
        ceiling = getattr(self, name)
        if ceiling is not None and value > ceiling:
            yield f"{what} {value} is above the ceiling {ceiling}"

    def _refuse(self, study: Study, reasons: Sequence[str]) -> None:
        if reasons:
            LOG.warning("the policy refuses %r: %s", study.name, "; ".join(reasons))
            raise SiteRefused("PolicyRefused") from ParameterError("; ".join(reasons))

    def reasons(self, study: Study, rounds: int = 0, message: int = 0) -> list[str]:
        """All reasons to refuse a study; its rounds and longest message count if they are known."""
        lines = self.missing(study, rounds, message)
        return [f"{line.why}; to allow it add: {line}" for line in lines]

    def missing(self, study: Study, rounds: int, message: int) -> Iterator[PolicyLine]:
        """Exactly the lines without which this policy refuses the study."""
        if self.methods is not None and not is_method_allowed(study.method, self.methods):
            methods = [*sorted(self.methods), study.method]
            yield PolicyLine("", "methods", methods, "your policy does not allow this method")
        columns = [name for name in study.schema.names if name not in (self.features or ())]
        if self.features is not None and columns:
            features = [*sorted(self.features), *columns]
            yield PolicyLine("", "features", features, f"features {columns} are not allowed")
        if study.dp_model not in self.dp_models:
            names = [model.name.lower() for model in DPModel if model in self.dp_models]
            name, words = study.dp_model.name.lower(), dp_model_words(study.dp_model.value)
            why = f"dp_model {name!r} is not allowed ({words})"
            yield PolicyLine("", "dp_models", [*names, name], why)
        for name, what, number in (
            ("epsilon_per_study", "epsilon", study.epsilon),
            ("delta_per_study", "delta", study.delta),
            ("colluders_per_study", "colluders", study.colluders),
            ("records_per_person", "records per person", study.records_per_person),
            ("rounds_per_study", "rounds", rounds),
            ("message_bytes", "bytes of a message", message),
            ("seconds_per_round", "reply interval", study.reply_interval),
        ):
            value = number_text(number) if isinstance(number, Fraction) else number
            yield from (PolicyLine("", name, value, why) for why in self._above(name, what, number))
        for name, what, count in (
            ("fewest_sites", "sites", study.n_sites),
            ("fewest_colluders", "colluders", study.colluders),
        ):
            if count < (least := getattr(self, name)):
                yield PolicyLine("", name, count, f"{what} {count} are fewer than {least}")


class PolicyLine(NamedTuple):
    """One line that a site's policy lacks for a study, and why the study needs it."""

    table: str
    name: str
    value: str | int | list[str]
    why: str

    @property
    def text(self) -> str:
        """The value as TOML."""
        return json.dumps(self.value, ensure_ascii=False).replace("\x7f", "\\u007f")

    def __str__(self) -> str:
        return f"{f'[{self.table}] ' if self.table else ''}{self.name} = {self.text}"


def number_text(number: Fraction) -> str:
    """As a decimal where that is exact, else as a fraction."""
    text = f"{float(number):.12g}"
    return text if Fraction(text) == number else str(number)


def is_method_allowed(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern allows the method; `papers.wang.*` allows all methods of a paper."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# policy.toml: what a site allows. What it does not mention is refused.

ANY = "any"
UNLIMITED = "unlimited"

CLOSED = Policy()

TEMPLATE = """\
# What this site allows, whoever asks. Anything else is refused.

methods = []          # such as ["BoostedTreesClassifier", "papers.wang.*"], or "{ANY}"
features = []         # columns that studies may use, or "{ANY}"
dp_models = []        # "distributed", "per_site", "label", "none" (no noise!), or "{ANY}"
epsilon_per_study = "0"
delta_per_study = "0" # 0 admits studies in pure epsilon alone
fewest_sites = {fewest_sites}

# Ceilings that hold as they stand here also where their lines are missing.
fewest_colluders = {fewest_colluders}
colluders_per_study = {colluders_per_study}
records_per_person = {records_per_person}
rounds_per_study = {rounds_per_study}
bytes_per_study = {bytes_per_study}  # of answers that leave
disk_per_study = {disk_per_study}    # bytes that its rounds keep or write down here
message_bytes = {message_bytes}     # of one message with questions
seconds_per_round = {seconds_per_round}     # of its reply interval, and of the work for a round
least_fraction = "{least_fraction}"  # of the budget, for one query

[lifetime]            # all studies of this site together
epsilon = "0"         # or "{UNLIMITED}", for records that are no secret
delta = "0"           # 0 admits studies in pure epsilon alone

[trusted_sites]       # fingerprints from `hedgerow site status`, confirmed out of band (telephone)
# "site-2" = "5f0c..."
""".format(**vars(CLOSED), ANY=ANY, UNLIMITED=UNLIMITED)

HOW_TO_OPEN = (
    "write into policy.toml which methods, features and dp_models it allows, epsilon_per_study "
    "and delta_per_study, and under [lifetime] epsilon and delta (deltas above 0, unless all "
    "studies have delta = 0)"
)

_NUMBERS = ("epsilon_per_study", "delta_per_study", "least_fraction")
_COUNTS = tuple(name for name in vars(CLOSED) if type(vars(CLOSED)[name]) is int)
_FIELDS = {*vars(CLOSED), "lifetime", "trusted_sites"}


@dataclass(frozen=True, kw_only=True)
class SitePolicy:
    """A policy for studies, a limit for all of them together, and the trusted peers."""

    policy: Policy = field(default_factory=Policy)
    lifetime_epsilon: Cost = Fraction(0)
    lifetime_delta: Fraction = Fraction(0)
    pins: Mapping[str, str] = field(default_factory=dict)
    """Site -> fingerprint of its identity."""

    @classmethod
    def read(cls, path: Path) -> SitePolicy:
        try:
            return _policy(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError, ParameterError) as error:
            raise ParameterError(f"{path}: {error}") from None

    @property
    def allows_nothing(self) -> bool:
        """Whether it is as `site init` writes it: no study and no budget is allowed."""
        return self.policy == Policy() and self.lifetime_epsilon == 0

    @property
    def lifetime(self) -> tuple[Measure, Cost]:
        """The limit as a ledger counts it: in rho, or in epsilon if delta is 0."""
        epsilon, delta = self.lifetime_epsilon, self.lifetime_delta
        if not isinstance(epsilon, Fraction):
            return Measure.ZCDP, math.inf
        if delta == 0 or epsilon == 0:
            return Measure.PURE, epsilon
        return Measure.ZCDP, conversions.whole_budget(Measure.ZCDP, epsilon, delta)


def _policy(raw: dict[str, Any]) -> SitePolicy:
    _require_known("policy", raw, _FIELDS)
    lifetime = _table(raw, "lifetime")
    _require_known("lifetime", lifetime, {"epsilon", "delta"})
    pins = _table(raw, "trusted_sites")
    if not all(isinstance(value, str) for value in pins.values()):
        raise ParameterError(
            "trusted_sites holds something else than fingerprints; put them in quotes."
        )
    whole = lifetime.get("epsilon", "0")
    numbers: dict[str, Any] = {n: _number(n, raw[n]) for n in _NUMBERS if n in raw}
    numbers |= {n: _whole(n, raw[n]) for n in _COUNTS if n in raw}
    return SitePolicy(
        policy=Policy(
            methods=_names(raw, "methods"),
            features=_names(raw, "features"),
            dp_models=frozenset(_dp_models(raw)),
            **numbers,
        ),
        lifetime_epsilon=math.inf if whole == UNLIMITED else _number("lifetime epsilon", whole),
        lifetime_delta=_number("lifetime delta", lifetime.get("delta", "0")),
        pins={name: value.replace(" ", "").lower() for name, value in pins.items()},
    )


def _require_known(name: str, raw: Mapping[str, Any], fields: set[str]) -> None:
    strange = sorted(set(raw) - fields)
    if strange:
        raise ParameterError(
            f"{name} has no {strange[0]!r}; it has {sorted(fields)}. Correct the line."
        )


def _table(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    result = raw.get(name, {})
    if not isinstance(result, dict):
        raise ParameterError(f"{name} is {result!r}; write it as a table, [{name}].")
    return result


def _names(raw: Mapping[str, Any], name: str) -> frozenset[str] | None:
    result = raw.get(name, [])
    if result == ANY:
        return None
    if not isinstance(result, list) or not all(isinstance(item, str) for item in result):
        raise ParameterError(f"{name} is {result!r}; write a list of names, or {ANY!r}.")
    return frozenset(result)


def _dp_models(raw: Mapping[str, Any]) -> Iterator[DPModel]:
    names = _names(raw, "dp_models")
    if names is None:
        yield from DPModel
        return
    for name in names:
        try:
            yield DPModel[name.upper()]
        except KeyError:
            choices = [dp_model.name.lower() for dp_model in DPModel]
            raise ParameterError(f"DP models names {name!r}; known are {choices}.") from None


def _number(name: str, value: Any) -> Fraction:
    """Parses texts and integers, which are exact; a float is not what somebody typed."""
    return written_number(str(value) if type(value) is int else value, name)


def _whole(name: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ParameterError(f"{name} is {value!r}; write a whole number, 1 or more.")
    return value
