"""Makes Replay.v: what the code computes, to be held against the proved functions by coqc.

Every registered statistic by every grouping it can be asked by (the examples of the sensitivity
gate), at many units and numbers of records per person; sums of small rows by the real kernels;
running totals of the real ledger; scores of real splits; rates and coefficients of noise; tables of
noise, and what they draw from given bits; what real stores write and send over crashes and old
files. All comparisons are equalities. Deterministic: one seed, no noise.

A new statistic has no term here and stops `script`: give it one, or list it in ON_PAPER with the
page of its proof.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, product
from math import lcm
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "tests")) if path not in sys.path]

from hedgerow.data.sums import Answering, half_gini_units  # noqa: E402
from hedgerow.errors import BudgetExceeded, LedgerRolledBack, SiteRefused  # noqa: E402
from hedgerow.federation.site_store import SiteStore, round_name  # noqa: E402
from hedgerow.models.losses import (  # noqa: E402
    FirstOrder,
    LogLoss,
    Loss,
    OddsLoss,
    PlainLogLoss,
    Sensitivity,
    SoftmaxLoss,
    SquaredLoss,
)
from hedgerow.models.model import Additive  # noqa: E402
from hedgerow.privacy.accounting.budget import Measure  # noqa: E402
from hedgerow.privacy.accounting.conversions import noise_law  # noqa: E402
from hedgerow.privacy.ledger.chain import Anchor  # noqa: E402
from hedgerow.privacy.ledger.charges import Charge, Tally  # noqa: E402
from hedgerow.privacy.mechanisms.coins import exp_bounds  # noqa: E402
from hedgerow.privacy.mechanisms.mechanisms import (  # noqa: E402
    DiscreteGaussian,
    DiscreteLaplace,
)
from hedgerow.privacy.mechanisms.sampling import (  # noqa: E402
    EXACT_BITS,
    LAW_BITS,
    WORD_BITS,
    Digit,
    Gaussian,
    Law,
    Polya,
    draw_entries,
    table_of,
)
from hedgerow.privacy.queries import (  # noqa: E402
    GROUPINGS,
    LATTICE,
    STATISTICS,
    ClassCounts,
    Count,
    CurveNewton,
    EventCounts,
    Fractions,
    Gradients,
    Hessians,
    LabelReports,
    Score,
    Scoring,
    SelectQuery,
    Statistic,
    SumQuery,
    TargetClassCounts,
    Whole,
)
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Split, Step  # noqa: E402
from hedgerow.secagg.encoding import members_field  # noqa: E402
from hedgerow.secagg.envelope import Envelope, MessageKind  # noqa: E402
from hedgerow.secagg.messages import Round  # noqa: E402
from hedgerow.secagg.parameters import Parameters  # noqa: E402
from support.examples import (  # noqa: E402
    BY_CLASS,
    BY_TIME,
    BY_TWO,
    BY_VALUE,
    CLASS_GROUPS,
    CLASS_STATISTICS,
    OTHER,
    PLACES,
    REPORTS,
    SHARE,
    SPLIT,
    STEP_ON_CURVES,
    TIME_GROUPS,
    TIME_STATISTICS,
    TWO_CLASS_GROUPS,
    TWO_CLASS_STATISTICS,
    VALUE_GROUPS,
    VALUE_STATISTICS,
    rows_of,
    scores,
)
from support.site_stores import ACCOUNT, COST, StoreConsortium  # noqa: E402

ON_PAPER: dict[str, str] = {"SurfaceGradients": "losses"}
"""Registered statistics that no theorem bounds, and the page under docs/proofs that does."""
WORLDS = [
    (BY_CLASS, CLASS_STATISTICS, CLASS_GROUPS),
    (BY_TWO, TWO_CLASS_STATISTICS, TWO_CLASS_GROUPS),
    (BY_VALUE, VALUE_STATISTICS, VALUE_GROUPS),
    (BY_TWO, [STEP_ON_CURVES], [Whole()]),
    (BY_CLASS, [REPORTS], CLASS_GROUPS[:2]),
    (BY_TIME, TIME_STATISTICS, TIME_GROUPS),
]
LARGEST_ANSWER = 600
"""Entries of an answer that is summed again by the proved function."""
TESTS = [Split("x", "g", 1), Split("x", "g", 3), Split("y", "g", 1), Fold("a", 4), Fold("b", 3)]
TESTS += [HeldOut(5)]
STORE_EVENTS = ("Take", "Reserve", "Compute", "Commit", "CommitSet", "WriteAnchor", "Send")
STORE_EVENTS += ("Again", "Refuse", "Crash", "Restart", "RollBack")
STORE_CAP, STORE_STEPS = 4, ("begun", "written", "committed", "settled")
"""Rounds that the stores of traces may charge, and where their process may die."""


class NoTheorem(Exception):
    """Something registered has neither a term in Bounds.v nor a page."""


@dataclass(frozen=True)
class Script:
    """Replay.v, and how many numbers it holds."""

    text: str
    counts: dict[str, int]

    @property
    def summary(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self.counts.items())


# ------------------------------------------------------------------------------------------ terms
def loss_term(loss: Loss) -> str:
    match loss:
        case PlainLogLoss():
            return "PlainLogLoss"
        case LogLoss() | OddsLoss():
            return type(loss).__name__
        case SoftmaxLoss():
            return f"(Softmax {loss.n_classes})"
        case SquaredLoss():
            weight = Fraction(loss.weight)
            return f"(Squared {weight.numerator} {weight.denominator})"
        case FirstOrder():
            return f"(FirstOrder {max(loss.outputs, 2)})"
    raise NoTheorem(f"the loss {type(loss).__name__} has no norms in proofs/Bounds.v.")


def statistic_term(statistic: Statistic) -> str:
    """The constructor of Bounds.v that a registered statistic is."""
    match statistic:
        case Count() | ClassCounts() | TargetClassCounts() | Fractions():
            return type(statistic).__name__
        case EventCounts():
            return ClassCounts.__name__  # one cell of a record, too
        case Gradients() | Hessians():
            return f"({type(statistic).__name__} {loss_term(statistic.loss)})"
        case CurveNewton():
            return f"(CurveNewton {statistic.channels})"
        case LabelReports():
            return f"(LabelReports {statistic.bits})"
    raise NoTheorem(
        f"the statistic {type(statistic).__name__} has no theorem: add it to proofs/Bounds.v, or "
        "list it in ON_PAPER of proofs/replay.py with the page of its proof."
    )


def _sensitivity(bound: Sensitivity) -> str:
    return f"Sens {bound.l1} {bound.l2_squared} {bound.linf}"


def _integers(numbers: Iterable[Any], scope: str = "") -> str:
    return "[" + "; ".join(str(int(n)) for n in numbers) + "]" + scope


def _queries() -> Iterator[tuple[Any, SumQuery]]:
    """Every registered statistic by every grouping, where they fit."""
    for schema, statistics, groupings in WORLDS:
        for statistic, by in product(statistics, groupings):
            if type(statistic).__name__ not in ON_PAPER:
                yield schema, SumQuery(EVERYONE, statistic, by, SHARE)


def without_example() -> set[str]:
    """Registered names that are bound to no theorem by an example, and on no page."""
    parts = [part for _, query in _queries() for part in (query.statistic, query.by)]
    return {*STATISTICS, *GROUPINGS} - {type(part).__name__ for part in parts} - {*ON_PAPER}


# ----------------------------------------------------------------------------------------- bounds
def _sweep() -> Iterator[Statistic]:
    """Losses that the examples have in one size only."""
    for k in (3, 4, 5, 7, 10, 26):
        for loss in (SoftmaxLoss(k), FirstOrder(SoftmaxLoss(k))):
            yield from (kind(loss, Additive((0.0,) * k)) for kind in (Gradients, Hessians))
    for weight in (1 / 4, 1.0, 0.1, 3 / 8, 1 / 1024):
        loss = SquaredLoss(0.0, 1.0, 1.0, weight)
        yield from (kind(loss, Additive((0.0,))) for kind in (Gradients, Hessians))


def bounds(draw: random.Random) -> Iterator[str]:
    units = sorted({1 << k for k in range(15)} | {3, 6, 12} | {draw.randrange(1, 1 << 14)})
    for _, query in _queries():
        term = statistic_term(query.statistic)
        for unit, m in product(units[:: len(units) // 4], (1, 3)):
            bound = query.sensitivity(unit).of_person(m)
            yield f"({term}, {query.by.groups}%nat, {m}, {unit}, {_sensitivity(bound)})"
    for statistic, unit in product(_sweep(), units):
        groups, m = draw.randrange(1, 30), draw.randrange(1, 6)
        bound = statistic.bound(unit).repeat(groups).of_person(m)
        yield f"({statistic_term(statistic)}, {groups}%nat, {m}, {unit}, {_sensitivity(bound)})"


# ------------------------------------------------------------------------------------------- sums
def _drawn_rows(draw: random.Random, count: int) -> list[tuple[Any, int, float]]:
    values = (-1.0, 3.0, 0.25, -5.0, 7.0, 1.5)
    return [(*draw.choice(PLACES), draw.choice(values)) for _ in range(count)]


def _record(one: np.ndarray) -> tuple[list[int], list[int]]:
    """Of (G, B, C) integers of one record: its cell of each group, and what it adds there.

    A record that left a group before its cells is in cell B, which is not sent.
    """
    cells = [next((b for b, part in enumerate(group) if part.any()), len(group)) for group in one]
    whole = next((one[g, b] for g, b in enumerate(cells) if b < one.shape[1]), None)
    return (cells, [0] * one.shape[2]) if whole is None else (cells, [int(v) for v in whole])


def answers(draw: random.Random) -> Iterator[str]:
    """Integers of the kernels over small rows, and the records that they are made of."""
    for schema, query in _queries():
        if isinstance(query.statistic, LabelReports) or np.prod(query.shape) > LARGEST_ANSWER:
            continue
        groups, cells, channels = query.shape
        rows = _drawn_rows(draw, 5)

        def integers(some: list[Any], schema: Any = schema, query: SumQuery = query) -> np.ndarray:
            found = Answering(rows_of(some, schema), schema).integers(query, LATTICE)
            return np.asarray(found).reshape(query.shape)

        records = [_record(integers([row])) for row in rows]
        unsent = np.zeros((groups, 1, channels), np.int64)
        for own, parts in records:
            for g in (g for g, b in enumerate(own) if b == cells):
                unsent[g, 0] += parts
        whole = np.concatenate([integers(rows), unsent], axis=1)
        shown = "; ".join(f"({_integers(own, '%nat')}, {_integers(p)})" for own, p in records)
        bound = query.statistic.bound(LATTICE)
        yield (
            f"({groups}%nat, {cells + 1}%nat, {channels}%nat, {_sensitivity(bound)},\n"
            f"   [{shown}],\n   {_integers(whole.ravel())})"
        )


# ---------------------------------------------------------------------------------------- ledgers
def ledgers(draw: random.Random, count: int = 60) -> Iterator[str]:
    """Charges, and the running total of the real ledger after each."""
    for _ in range(count):
        tally, lines = Tally(), list[tuple[list[tuple[int, int]], Fraction, Fraction]]()
        for _ in range(draw.randrange(1, 14)):
            tests = draw.sample(range(len(TESTS)), draw.randrange(0, 4))
            steps = [(t, draw.randrange(TESTS[t].outcomes)) for t in tests]
            cost = Fraction(draw.randrange(0, 40), draw.choice((1, 2, 3, 7, 12)))
            region = tuple(Step(TESTS[t], o) for t, o in steps)
            tally.add([Charge(region, cost, "", "study", Measure.PURE)])
            total = tally.of("study")
            assert isinstance(total, Fraction)
            lines.append((steps, cost, total))
        unit = lcm(*(number.denominator for _, *numbers in lines for number in numbers))
        parts = []
        for steps, cost, total in lines:
            region_term = "; ".join(f"({t}, {o})" for t, o in steps)
            parts.append(f"([{region_term}]%nat, {int(cost * unit)}, {int(total * unit)})")
        yield "[" + "; ".join(parts) + "]"


# ----------------------------------------------------------------------------------------- scores
def impurities(draw: random.Random, count: int = 200) -> Iterator[str]:
    for _ in range(count):
        most = draw.choice((2, 9, 5000))
        counts = np.array([draw.randrange(most) for _ in range(draw.randrange(2, 6))])
        unit, n, s = draw.choice((1, 3, LATTICE)), int(counts.sum()), int((counts**2).sum())
        yield f"({unit}, {n}, {s}, {int(half_gini_units(counts, unit))})"


def split_scores(draw: random.Random, count: int = 40) -> Iterator[str]:
    """(child, class) of each row for a split, and its Gini score by the code."""
    for _ in range(count):
        rows, split = _drawn_rows(draw, draw.randrange(0, 9)), draw.choice((SPLIT, OTHER))
        query = SelectQuery(EVERYONE, (split,), Scoring(Score.GINI), SHARE)
        (score,) = scores(query, rows_of(rows, BY_CLASS), BY_CLASS)
        column = BY_CLASS.index(split.feature)
        sides = [(0 if split.left >> codes[column] & 1 else 1, label) for codes, label, _ in rows]
        shown = "; ".join(f"({side}, {label})" for side, label in sides)
        yield f"([{shown}]%nat, {int(score)})"


def target_scores(draw: random.Random, count: int = 40) -> Iterator[str]:
    """(child, target in units) of each row, and the scores by squared error and by balance."""
    target = BY_VALUE.target
    assert target is not None
    for _ in range(count):
        rows, split = _drawn_rows(draw, draw.randrange(0, 9)), draw.choice((SPLIT, OTHER))
        column = BY_VALUE.index(split.feature)
        found = [
            int(
                scores(
                    SelectQuery(EVERYONE, (split,), scoring, SHARE),
                    rows_of(rows, BY_VALUE),
                    BY_VALUE,
                )[0]
            )
            for scoring in (Scoring(Score.SQUARED_ERROR), Scoring(Score.BALANCE))
        ]
        shown = []
        for codes, _, y in rows:
            u = (min(max(y, target.low), target.high) - target.low) / (target.high - target.low)
            shown.append(f"({0 if split.left >> codes[column] & 1 else 1}%nat, {int(u * LATTICE)})")
        yield f"([{'; '.join(shown)}], {found[0]}, {found[1]})"


SCORE_TERMS = {"GINI": "Gini", "SQUARED_ERROR": "SquaredError", "BALANCE": "Balance"}
SCORES_ON_PAPER = {"ENTROPY": "selection"}
"""Scores whose reach no theorem gives, and the page under docs/proofs that does."""


def reaches() -> Iterator[str]:
    """Every registered score, alone and with a part for balance."""
    for score in Score:
        if score.name in SCORES_ON_PAPER:
            continue
        if score.name not in SCORE_TERMS:
            raise NoTheorem(f"the score {score.name} has no reach in proofs/Splits.v.")
        for weight in (0, 1, LATTICE):
            reach = Scoring(score, balance=weight).reach
            yield f"({SCORE_TERMS[score.name]}, {weight}, {reach})"


# ------------------------------------------------------------------------------------------ noise
def noise(draw: random.Random, count: int = 200) -> Iterator[str]:
    """Cost, sensitivity, rate of Laplace noise under epsilon, variance of Gaussian under rho."""
    for _ in range(count):
        cost = Fraction(draw.randrange(1, 1000), draw.randrange(1, 1000))
        bound = Sensitivity(draw.randrange(1, 10**6), draw.randrange(1, 10**9), 1)
        laplace = noise_law(Measure.PURE, cost, bound)
        gaussian = noise_law(Measure.ZCDP, cost, bound)
        assert isinstance(laplace, DiscreteLaplace)
        assert isinstance(gaussian, DiscreteGaussian)
        rate, variance = Fraction(laplace.rate), Fraction(gaussian.sigma2)
        numbers = (cost, rate, variance)
        shown = ", ".join(f"{n.numerator}, {n.denominator}" for n in numbers)
        yield f"({shown}, {_sensitivity(bound)})"


RATES, SHARES = (Fraction(7), Fraction(5, 2)), (1, 2, 5)
DIGITS = [Digit(rate, base) for rate, base in ((Fraction(1, 9), 16), (Fraction(1, 2**7), 32))]
POLYAS = [Polya(*parts) for parts in product(RATES, SHARES)]
WIDTHS = [Gaussian(v, h) for h in (False, True) for v in (Fraction(1, 30), Fraction(5, 3))]


class Given:
    """Random bits that are known."""

    def __init__(self, word: int, more: int) -> None:
        self.word, self.more = word, more

    def words(self, count: int) -> np.ndarray:
        return np.array([self.word], np.uint64)

    def bytes(self, count: int) -> bytes:
        return self.more.to_bytes(count, "little")


def tables(draw: random.Random, count: int = 12) -> Iterator[str]:
    """192-bit thresholds of a law, the table that is kept, and entries drawn from given bits.

    Words near thresholds, the first and the last one, since elsewhere bits decide nothing.
    """
    for law in [*DIGITS, *POLYAS, *WIDTHS]:
        lowest, chances = law.probabilities()
        exact = [total >> (LAW_BITS - EXACT_BITS) for total in accumulate(chances)]
        table, most = table_of(law), 2**WORD_BITS - 1
        near = [draw.choice(exact) >> (EXACT_BITS - WORD_BITS) for _ in range(count)]
        words = {0, most, *(min(max(t + draw.choice((-1, 0, 0, 1)), 0), most) for t in near)}
        drawn = []
        for word in sorted(words):
            more = draw.choice((0, draw.getrandbits(128), 2**128 - 1))
            entry = int(draw_entries(table, 1, Given(word, more))[0]) - lowest
            drawn.append(f"({word}, {more}, {entry}%nat)")
        kept = f"{table.lowest - lowest}%nat, {_integers(table.thresholds)}"
        yield f"({_integers(exact)},\n   {kept},\n   [{'; '.join(drawn)}])"


def chances() -> Iterator[str]:
    """exp(-rate) in 2^320, and the chances of a law, each from the one before it."""
    laws: list[tuple[Law, Fraction, int, int]] = [(law, law.rate, 0, 1) for law in DIGITS]
    laws += [(law, law.rate, law.shares, law.shares) for law in POLYAS]
    for law, rate, rise, shares in laws:
        a = exp_bounds(rate, LAW_BITS)[0]
        yield f"({a}, {rise}, {shares}, {_integers(law.probabilities()[1])})"


# ------------------------------------------------------------------------------------------ stores
class Died(BaseException):
    """The process of a site ends here."""


class TracedStore(StoreConsortium):
    """Three sites; what the store of the first does over crashes and old files, as Store.v says."""

    def __init__(self, folder: Path, cap: int) -> None:
        self.dies_at = list[str]()
        numbers = Parameters(n_sites=3, colluders=1, threshold=2)
        super().__init__(folder, 3, numbers, COST * cap)
        self.names, self.ids = dict[str, int](), dict[bytes, int]()
        self.sent = list[int]()
        self.copied_at: int | None = None
        self.is_silent = False
        self.operations = [self._observed(["Restart"])]

    def _opened(self, me: int) -> SiteStore:
        def hook(step: str) -> None:
            if me == 0 and self.dies_at[:1] == [step]:
                self.dies_at.pop(0)
                if not self.dies_at:
                    raise Died

        self.place(me).parent.parent.mkdir(exist_ok=True)
        return SiteStore.open(self.place(me), self.group.identities[me], self.anchor(me), hook=hook)

    def _entries(self) -> list[tuple[int, bool, int]]:
        """Number in the chain, whether it is a charge or an opened set, and the round."""
        kinds = {"Charged": True, "SetOpened": False}
        return [
            (entry.seq, kinds[type(event).__name__], self.names[event.round_id])
            for entry, event in self.site_stores[0].ledger.entries()
            if type(event).__name__ in kinds
        ]

    def _anchored(self) -> int:
        last = max(Anchor(self.anchor(0)).heads(), default=0)
        return sum(seq <= last for seq, *_ in self._entries())

    def _observed(self, events: list[str]) -> str:
        entries = "; ".join(f"({str(c).lower()}, {r}%nat)" for _, c, r in self._entries())
        shown = "; ".join(f"{i}%nat" for i in self.sent)
        trace = re.sub(r"(\d+)", r"\1%nat", "; ".join(f"Store.{event}" for event in events))
        return f"([{trace}], [{entries}], {self._anchored()}%nat, [{shown}])"

    def act(self, number: int, is_charge: bool, what: int, dies_at: list[str]) -> None:
        """Asks for an answer or for a signature on a set; the process may die on the way."""
        run_id, sets = self.group.coordinator.run_id, ((0, 1), (0, 1, 2))
        self.names[round_name(run_id, number)] = number
        length, self.dies_at = len(self._entries()), dies_at
        reply, has_died = b"", False
        try:
            reply = self._reply(number, is_charge, what, sets[what])
        except (SiteRefused, BudgetExceeded):
            pass
        except Died:
            has_died = True
        self.dies_at = []
        entries, events, anchored = self._entries(), ["Refuse"], self._anchored()
        places = [k for k, (_, c, r) in enumerate(entries) if (c, r) == (is_charge, number)]
        if len(entries) > length:
            key = self._stored(number) if is_charge else bytes(sets[what])
            new = self.ids.setdefault(key, len(self.ids))
            events = [f"CommitSet {number} {new}"]
            if is_charge:
                events = [f"Take {number} {what}", "Reserve", f"Compute {new}", "Commit"]
            events += ["WriteAnchor"] if anchored > length else []
        elif reply:
            events = [f"Again {places[0]}", "WriteAnchor"]
        if reply:
            self.sent.insert(0, self.ids[reply if is_charge else bytes(sets[what])])
            events.append("Send")
        if has_died:
            events += ["Crash", "Restart"]
            self.restart(0)
            self.open_session()
            if self._anchored() > anchored:
                events += [f"Again {places[0]}", "WriteAnchor", "Refuse"]
        self.operations.append(self._observed(events))

    def _reply(self, number: int, is_charge: bool, what: int, members: tuple[int, ...]) -> bytes:
        forge = partial(self.group.forge, round=number, receiver=0)
        if is_charge:
            body = Round(bytes([what]), (0, 1, 2)).to_bytes()
            return self.answer(0, forge(MessageKind.ROUND, body), np.zeros(2, np.int64))
        signed = self.group.sites[0].sign_set(forge(MessageKind.SURVIVORS, members_field(members)))
        return signed if Envelope.parse(signed).header.kind is not MessageKind.DOUBT else b""

    def _stored(self, number: int) -> bytes:
        record = self.site_stores[0].memory(ACCOUNT).outbox(self.group.coordinator.run_id, number)
        assert record is not None
        return record.message

    def copy_once(self) -> None:
        if self.copied_at is None:
            self.copy([0])
            self.copied_at = len(self._entries())

    def roll_back(self) -> None:
        """An old file is refused when it is opened: the trace ends there."""
        if self.copied_at is None:
            return
        anchored, length = self._anchored(), len(self._entries())
        self.bring_back(0)
        try:
            self.restart(0)
            self.open_session()
        except LedgerRolledBack:
            assert self.copied_at < anchored
            self.is_silent = True
            return
        assert self.copied_at == length
        self.operations.append(self._observed([f"RollBack {self.copied_at}", "Restart"]))


def traces(draw: random.Random, count: int = 24, steps: int = 14) -> Iterator[str]:
    """Real stores, driven at random: every event, and what file, anchor and wire hold after it."""
    for _ in range(count):
        with TemporaryDirectory() as folder:
            store = TracedStore(Path(folder), STORE_CAP)
            for _ in range(steps):
                match draw.choice(("act",) * 8 + ("copy", "roll back")):
                    case "copy":
                        store.copy_once()
                    case "roll back":
                        store.roll_back()
                    case _:
                        dies_at = [draw.choice(STORE_STEPS)] * draw.choice((0, 0, 0, 1, 2, 3))
                        last = max(store.names.values(), default=0)
                        number = max(1, last + draw.choice((1, 1, 0, 0, -1)))
                        store.act(number, draw.random() < 0.65, draw.randrange(2), dies_at)
                if store.is_silent:
                    break
            yield "[" + ";\n   ".join(store.operations) + "]"
            store.close()


HEAD = """(* Made by proofs/replay.py: what the code computes, checked by the proved functions. *)
From Coq Require Import ZArith List Arith Bool.
From Hedgerow Require Import Sums Sensitivity Losses Bounds Ledger Splits Tables.
From Hedgerow Require Store.
EVENTS
Import ListNotations.
Open Scope Z_scope.

Definition same (a b : sensitivity) : bool :=
  (l1 a =? l1 b) && (l2_squared a =? l2_squared b) && (linf a =? linf b).
Fixpoint equal (x y : vector) : bool :=
  match x, y with
  | [], [] => true
  | a :: x', b :: y' => (a =? b) && equal x' y'
  | _, _ => false
  end.
Fixpoint running (seen : list (charge nat nat)) (rest : list (charge nat nat * Z)) : bool :=
  match rest with
  | [] => true
  | (g, c, t) :: rest' =>
      let cs := (g, c) :: seen in
      (ledger_total nat nat Nat.eq_dec Nat.eq_dec cs =? t) && running cs rest'
  end.
Fixpoint alike {A : Type} (eq : A -> A -> bool) (x y : list A) : bool :=
  match x, y with
  | [], [] => true
  | a :: x', b :: y' => eq a b && alike eq x' y'
  | _, _ => false
  end.
Definition drawn_as (ts : list Z) (one : Z * Z * nat) : bool :=
  let '(word, more, entry) := one in Nat.eqb (draw (2 ^ 128) (2 ^ 64) ts word more) entry.
Fixpoint chances_from (next : nat -> Z -> Z) (k : nat) (ps : list Z) : bool :=
  match ps with
  | p :: (q :: _) as rest => (q =? next k p) && chances_from next (S k) rest
  | _ => true
  end.
Definition kind_and_round (e : Store.entry nat nat nat) : bool * nat :=
  match e with Store.Charged r _ _ => (true, r) | Store.Opened r _ => (false, r) end.
Definition content (x : Store.sent nat nat) : nat :=
  match x with Store.Reply _ m => m | Store.SignedSet _ m => m end.
Fixpoint traced (s : Store.state nat nat nat)
    (rest : list (list (Store.event nat nat nat) * list (bool * nat) * nat * list nat)) : bool :=
  match rest with
  | [] => true
  | (events, entries, anchored, sent) :: rest' =>
      match Store.replayed nat nat nat (fun _ => 1) CAP s events with
      | None => false
      | Some t =>
          alike (fun a b => Bool.eqb (fst a) (fst b) && Nat.eqb (snd a) (snd b))%bool
                (map kind_and_round (Store.file _ _ _ t)) entries &&
          Nat.eqb (Store.anchor _ _ _ t) anchored &&
          alike Nat.eqb (map content (Store.wire _ _ _ t)) sent && traced t rest'
      end
  end.
"""
GOALS = {
    "bounds": (
        "statistic * nat * Z * Z * sensitivity",
        "fun '(s, g, m, u, b) => same (query_bound s g m u) b",
    ),
    "sums": (
        "nat * nat * nat * sensitivity * list (list nat * vector) * vector",
        "fun '(g, n, c, b, rows, y) => equal (answer (list nat * vector) g n c "
        "(fun k r => nth k (fst r) 0%nat) snd b (fun _ => true) rows) y",
    ),
    "ledger histories": ("list (list (nat * nat) * Z * Z)", "running []"),
    "impurities": ("Z * Z * Z * Z", "fun '(u, n, s, v) => half_gini u n s =? v"),
    "Gini scores": (
        "list (nat * nat) * Z",
        "fun '(rows, v) => gini (nat * nat) (fun _ => true) snd 3%nat UNIT (2%nat, fst) rows =? v",
    ),
    "target scores": (
        "list (nat * Z) * Z * Z",
        "fun '(rows, e, b) => "
        "(error_score (nat * Z) (fun _ => true) snd UNIT (2%nat, fst) rows =? e) && "
        "(balance_score (nat * Z) (fun _ => true) UNIT (2%nat, fst) rows =? b)",
    ),
    "traces of stores": (
        "list (list (Store.event nat nat nat) * list (bool * nat) * nat * list nat)",
        "traced (Store.State _ _ _ [] 0%nat None [])",
    ),
    "reaches": ("score * Z * Z", "fun '(s, w, v) => reach_of s w UNIT =? v"),
    "tables of noise": (
        "list Z * nat * list Z * list (Z * Z * nat)",
        "fun '(ts, s, t, drawn) => Nat.eqb (surplus (2 ^ 128) (2 ^ 64) ts) s && "
        "equal (kept (2 ^ 128) (2 ^ 64) ts) t && forallb (drawn_as ts) drawn",
    ),
    "laws of tables": (
        "Z * Z * Z * list Z",
        "fun '(a, rise, h, ps) => chances_from (next (2 ^ 320) a (fun k => rise * Z.of_nat k + 1) "
        "(fun k => rise * Z.of_nat k + h)) 0 ps",
    ),
    "noise laws": (
        "Z * Z * Z * Z * Z * Z * sensitivity",
        "fun '(cn, cd, rn, rd, vn, vd, b) => (rn * (cd * l1 b) =? cn * rd) && "
        "(2 * cn * vn =? l2_squared b * cd * vd)",
    ),
}


def script(seed: int = 7) -> Script:
    """The whole file. NoTheorem if something registered is bound to nothing."""
    if names := without_example():
        raise NoTheorem(f"no example binds {', '.join(sorted(names))} to a theorem.")
    draw = random.Random(seed)
    made = {
        "bounds": list(bounds(draw)),
        "sums": list(answers(draw)),
        "ledger histories": list(ledgers(draw)),
        "impurities": list(impurities(draw)),
        "Gini scores": list(split_scores(draw)),
        "target scores": list(target_scores(draw)),
        "reaches": list(reaches()),
        "noise laws": list(noise(draw)),
        "traces of stores": list(traces(draw)),
        "tables of noise": list(tables(draw)),
        "laws of tables": list(chances()),
    }
    events = "\n".join(f"Arguments Store.{e} {{request message member_set}}." for e in STORE_EVENTS)
    head = HEAD.replace("CAP", str(STORE_CAP)).replace("EVENTS", events)
    parts = [head.replace("UNIT", str(LATTICE))]
    for name, lines in made.items():
        kind, test = (text.replace("UNIT", str(LATTICE)) for text in GOALS[name])
        parts.append(_section(name.replace(" ", "_"), kind, test, lines))
    return Script("\n".join(parts), {name: len(lines) for name, lines in made.items()})


def _section(name: str, kind: str, test: str, lines: list[str]) -> str:
    listed = ";\n  ".join(lines)
    return (
        f"Definition the_{name} : list ({kind}) := [\n  {listed}].\n"
        f"Goal forallb ({test}) the_{name} = true.\nProof. vm_compute. reflexivity. Qed.\n"
    )


if __name__ == "__main__":
    print(script().text)
