"""The events of a site's ledger, as values, and their only JSON form.

Rationals are written "n/d", never as floats, so that the signed text is exact.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hedgerow.errors import LedgerBroken
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.ledger.charges import Charge, measure_of
from hedgerow.schema.regions import Fold, HeldOut, Region, Split, Step, Test

MOST_DIGITS = 64
_PLACES = 40
MOST_WORDS = 500
"""Characters of a charge's purpose that an entry stores."""
NONE = "0/1"
"""The remainder of a charge that names none."""

Head = tuple[int, bytes]
"""The number of entries of a ledger, and the hash of the last."""


@dataclass(frozen=True, slots=True)
class LifetimeSet:
    """The site's policy: the limit of all studies together, in epsilon or in rho.

    `delta` limits the sum of the deltas of studies in epsilon; `unit` is the unit of privacy of all
    studies, where the ledger adds up guarantees of one unit only.
    """

    measure: Measure
    limit: Cost
    delta: Cost = Fraction(0)
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Approved:
    """A study may spend up to `cap`, all of which counts against the lifetime budget from now on.

    `study` is its hash, `name` its name for people. `delta` belongs to an epsilon that counts as a
    whole; costs that add up in rho or mu^2 have none.
    """

    study: str
    measure: Measure
    cap: Cost
    name: str = ""
    delta: Cost = Fraction(0)


@dataclass(frozen=True, slots=True)
class Charged:
    study: str
    round_id: str
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class SetOpened:
    """The one set of sites whose sum this site opens in a round; `members` is its hash.

    It is an entry like a charge, so that a copy of the file without it is recognized as old.
    """

    study: str
    round_id: str
    members: bytes
    spent: Cost


@dataclass(frozen=True, slots=True)
class Closed:
    """The study spends no more; its unspent budget is free again."""

    study: str


@dataclass(frozen=True, slots=True)
class Restored:
    """The file ends at `after`, but others hold later heads: open studies count as fully spent."""

    after: int
    lost: tuple[Head, ...]

    @property
    def last(self) -> int:
        return max([self.after, *(seq for seq, _ in self.lost)])


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Receipts cover all lost entries: the true spending and rounds of each study."""

    spent: tuple[tuple[str, Cost], ...]
    rounds: tuple[tuple[str, str], ...] = ()


Event = LifetimeSet | Approved | Charged | SetOpened | Closed | Restored | Reconciled


def to_json(event: Event) -> str:
    return json.dumps(_fields(event), separators=(",", ":"), ensure_ascii=True)


def from_json(text: str) -> Event:
    try:
        return _event(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerBroken(
            f"an entry of the ledger cannot be read ({error}); "
            "it was not written by this version of hedgerow, or was changed."
        ) from error


def cost_text(cost: Cost) -> str:
    """A rational as n/d, infinity as inf."""
    return f"{cost.numerator}/{cost.denominator}" if isinstance(cost, Fraction) else "inf"


def short_text(cost: Cost) -> str:
    """The same for messages, in at most 64 digits: rounded up if it has more."""
    if isinstance(cost, Fraction) and _digits(cost) > MOST_DIGITS:
        cost = Fraction(math.ceil(cost * 10**_PLACES), 10**_PLACES)
        return cost_text(cost) if _digits(cost) <= MOST_DIGITS else "inf"
    return cost_text(cost)


def _digits(cost: Fraction) -> int:
    return len(str(max(cost.numerator, cost.denominator)))


def cost_of_text(text: str) -> Cost:
    if text == "inf":
        return math.inf
    numerator, denominator = text.split("/")
    return Fraction(int(numerator), int(denominator))


def _fields(event: Event) -> dict[str, Any]:
    kind: dict[str, Any] = {"kind": type(event).__name__}
    match event:
        case LifetimeSet(measure, limit, delta, unit):
            limits = {"limit": cost_text(limit), "delta": cost_text(delta)}
            return kind | {"measure": measure.name} | limits | {"unit": unit}
        case Approved(study, measure, cap, name, delta):
            names = {"study": study, "name": name}
            limit_texts = {"cap": cost_text(cap), "delta": cost_text(delta)}
            return kind | names | {"measure": measure.name} | limit_texts
        case Charged(study, round_id, charges):
            steps = StepTable()
            lines = [_charge_fields(charge, steps) for charge in charges]
            content = {"measure": measure_of(charges, round_id).name, "steps": steps.lines}
            return kind | {"study": study, "round": round_id} | content | {"charges": lines}
        case SetOpened(study, round_id, members, spent):
            place = {"study": study, "round": round_id}
            return kind | place | {"members": members.hex(), "spent": cost_text(spent)}
        case Closed(study):
            return kind | {"study": study}
        case Restored(after, lost):
            return kind | {"after": after, "lost": [[seq, head.hex()] for seq, head in lost]}
        case Reconciled(study_costs, rounds):
            costs = [[study, cost_text(cost)] for study, cost in study_costs]
            return kind | {"spent": costs, "rounds": list(map(list, rounds))}


def _event(raw: dict[str, Any]) -> Event:
    match raw["kind"]:
        case "LifetimeSet":
            limit, delta = cost_of_text(raw["limit"]), cost_of_text(raw["delta"])
            return LifetimeSet(Measure[raw["measure"]], limit, delta, raw["unit"])
        case "Approved":
            cap, delta = cost_of_text(raw["cap"]), cost_of_text(raw["delta"])
            return Approved(raw["study"], Measure[raw["measure"]], cap, raw["name"], delta)
        case "Charged":
            study, measure = raw["study"], Measure[raw["measure"]]
            regions = _regions(raw["steps"])
            charges = tuple(_charge(line, regions, study, measure) for line in raw["charges"])
            return Charged(study, raw["round"], charges)
        case "SetOpened":
            members, spent = bytes.fromhex(raw["members"]), cost_of_text(raw["spent"])
            return SetOpened(raw["study"], raw["round"], members, spent)
        case "Closed":
            return Closed(raw["study"])
        case "Restored":
            lost = tuple((seq, bytes.fromhex(head)) for seq, head in raw["lost"])
            return Restored(raw["after"], lost)
        case "Reconciled":
            study_costs = tuple((study, cost_of_text(cost)) for study, cost in raw["spent"])
            rounds = tuple((study, round_id) for study, round_id in raw["rounds"])
            return Reconciled(study_costs, rounds)
    raise ValueError(f"unknown kind {raw['kind']!r}")


class StepTable:
    """The regions of one entry as a tree: each step once, with the line of its parent.

    Otherwise the common steps of thousands of deep regions could fill a disk.
    """

    def __init__(self) -> None:
        self.lines: list[list[Any]] = []
        self._places: dict[tuple[int, Step], int] = {}

    def place(self, region: Region) -> int:
        """The line of a region's last step, counted from 1; 0 is the region of all records."""
        place = 0
        for step in region:
            below = self._places.get((place, step))
            if below is None:
                self.lines.append([place, *_step_fields(step)])
                below = self._places[place, step] = len(self.lines)
            place = below
        return place


def _regions(lines: Sequence[list[Any]]) -> list[Region]:
    regions: list[Region] = [()]
    for above, *step in lines:
        if not 0 <= above < len(regions):
            raise ValueError(f"a step stands below line {above}, which is not before it")
        regions.append((*regions[above], _step(step)))
    return regions


def _charge_fields(charge: Charge, steps: StepTable) -> dict[str, Any]:
    what = charge.what if len(charge.what) <= MOST_WORDS else f"{charge.what[: MOST_WORDS - 3]}..."
    remainder = {"remainder": cost_text(charge.remainder)} if charge.remainder else {}
    region = {"region": steps.place(charge.region)}
    return {"what": what, "cost": cost_text(charge.cost)} | region | remainder


def _charge(raw: dict[str, Any], regions: Sequence[Region], study: str, measure: Measure) -> Charge:
    """Parses a charge; its region is a line of the entry's steps."""
    region = regions[raw["region"]]
    remainder = cost_of_text(raw.get("remainder", NONE))
    return Charge(region, cost_of_text(raw["cost"]), raw["what"], study, measure, remainder)


def _step_fields(step: Step) -> list[Any]:
    match step.test:
        case Split(feature, grid, left):
            return ["split", feature, grid, f"{left:x}", step.outcome]
        case Fold(draw, n):
            return ["fold", draw, n, step.outcome]
        case HeldOut(one_in):
            return ["held out", one_in, step.outcome]


def _step(raw: list[Any]) -> Step:
    test: Test
    match raw:
        case ["split", feature, grid, left, outcome]:
            test = Split(feature, grid, int(left, 16))
        case ["fold", draw, n, outcome]:
            test = Fold(draw, n)
        case ["held out", one_in, outcome]:
            test = HeldOut(one_in)
        case _:
            raise ValueError(f"unknown step {raw!r}")
    return Step(test, outcome)
