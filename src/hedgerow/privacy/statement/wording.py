"""Who is protected from whom: the words of a promise that depend on where noise is added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, Placement
from hedgerow.privacy.accounting.coalition import Coalition, cost_against
from hedgerow.privacy.accounting.guarantee import (
    Drawn,
    Guarantee,
    Protected,
    Unit,
    apart,
    together,
    unit_words,
    why_not_apart,
)
from hedgerow.privacy.accounting.meaning import Meaning
from hedgerow.privacy.accounting.rounding import printed
from hedgerow.privacy.statement.spending import Asked, paid, worst_path
from hedgerow.privacy.study import Study

# --------------------------------------------------------------------------------------------------
# What a run does not hide, in words: it follows from the study alone.

ALWAYS = (
    "the schema: names of columns, ranges, categories, classes",
    "the study: method, parameters, epsilon, delta, where noise is added",
    "that a model was made, and how many rounds it took",
)
SEVERAL = "which sites take part, and how many may be lost or collude"
LENGTHS = "how long messages are: the study and earlier noisy answers decide it, not the rows"
TIMES = "when sites answer: {}"


def unprotected(study: Study, schema_inferred: bool, simulated: bool) -> tuple[str, ...]:
    """Quantities that are public or that nobody protects, most surprising last."""
    lines = [*ALWAYS]
    if study.parties > 1:
        lines += [SEVERAL, LENGTHS]
    if not simulated:
        lines.append(TIMES.format(_times(study)))
    if schema_inferred:
        lines.append("ranges, categories and classes as the rows have them")
    if study.placement is Placement.LABEL:
        lines.append("features of every record, in sums over the sites, and how many records")
    if study.placement is Placement.NOWHERE:
        lines.append("everything: sums are exact")
    return tuple(lines)


def _times(study: Study) -> str:
    if not study.slot:
        return "how long a site takes shows about how many records it holds"
    return f"at the end of slots of {study.slot} s; a site that misses one shows that it did"


def guarantee_of(
    study: Study,
    persons_told: bool = False,
    *,
    epsilon: Cost | None = None,
    drawn: Drawn | None = None,
) -> Guarantee:
    """What a run of the study keeps: all it is allowed, or `epsilon` if less is known to be.

    `persons_told` says that sites know whose each record is; `drawn` which records it is of.
    """
    at_one_site = persons_told and study.parties > 1
    is_open = study.placement is Placement.NOWHERE or bool(study.schema.unconfirmed)
    protected = Protected.LABEL if study.placement is Placement.LABEL else Protected.RECORD
    return Guarantee(
        unit=Unit(most=study.records_per_person, counted=persons_told, at_one_site=at_one_site),
        protected=Protected.NOTHING if is_open else protected,
        epsilon=math.inf if is_open else study.epsilon if epsilon is None else epsilon,
        delta=study.delta,
        drawn=drawn,
    )


def neighbours(study: Study, persons_told: bool = False) -> str:
    """Between which data sets nobody can tell."""
    most = study.records_per_person
    where = _at_one_site(study) if persons_told else ""
    if study.placement is Placement.LABEL:
        one = most == 1 and not persons_told
        whose = "one record has another label" if one else f"one person has other labels{where}"
        return f"two data sets with the same records and features, in which {whose}"
    if persons_told:
        what = f"all records of one person{where}"
    elif most > 1:
        what = f"the records of one person (up to {most}, at all sites together)"
    else:
        what = "one record of one site" if study.placement is Placement.SILO else "one record"
    return f"two data sets that are alike but for {what}, which only one of them has"


def together_words(parts: Sequence[Guarantee]) -> str:
    """What releases that may be of the same records keep, and why that may be nothing."""
    whole = together(*parts)
    if {Protected.LABEL, Protected.RECORD} <= {part.protected for part in parts}:
        return f"{whole.promise}: some protect labels alone, with features in the open"
    return whole.promise


LEFT_OUT = "these records were drawn to be left out of training by secrets of their holders"
OTHER_UNITS = (
    "if any of these records was trained on, nothing is promised of both together: the promises "
    "are to different units, {}."
)


def evaluation_words(trained: Sequence[Guarantee], evaluated: Guarantee) -> str:
    """What training and evaluation keep together: `trained` are the fits that were evaluated."""
    units = dict.fromkeys(unit_words(one.unit) for one in (*trained, evaluated))
    if evaluated.drawn is None and len(units) > 1:
        return OTHER_UNITS.format(" and ".join(units))
    added = together_words([*trained, evaluated])
    if evaluated.drawn is None:
        return f"if any of these records was trained on, what both promise adds for it: {added}."
    whole, who = together(*trained), LEFT_OUT
    if len(trained) > 1:
        who = (
            f"{who}; the others were trained on by each of {len(trained)} fits, which together "
            f"keep {together_words(trained)}"
        )
    reason = why_not_apart(whole, evaluated)
    if reason is not None:
        return f"{who}. But {reason}: training and evaluation together keep {added}."
    kept = apart(whole, evaluated).promise
    return f"{who}. No record paid for both, so training and evaluation together keep {kept}."


def _at_one_site(study: Study) -> str:
    return "" if study.parties == 1 else " at one site"


def trust(study: Study, epsilon: float, asked: Sequence[Asked]) -> list[tuple[str, str]]:
    """Against whom what holds. Ranges that were read from rows are seen by everybody."""
    shown = f"epsilon {printed(epsilon)}"
    if study.schema.unconfirmed:
        shown = f"epsilon infinity, of what was asked {printed(epsilon)}"
    everybody = [("the public", shown)]
    if study.parties == 1 or study.placement is Placement.NOWHERE:
        return everybody
    if study.placement is not Placement.SHARES:
        return [*everybody, ("all others", f"{shown}, even if all other sites collude")]
    more = max(epsilon, _against(study, asked, study.colluders + 1))
    return [
        *everybody,
        ("coordinator", f"{shown} (computational)"),
        (
            "coalition",
            f"{shown} with up to {_sites(study.colluders)} colluding; "
            f"{printed(more)} with one more, by what this run released",
        ),
        ("other site", f"{shown} (a site is one of the {study.colluders} tolerated)"),
    ]


def _sites(count: int) -> str:
    return "1 site" if count == 1 else f"{count} sites"


def _against(study: Study, asked: Sequence[Asked], colluders: int) -> float:
    """Epsilon against more colluders than the study tolerates, on the worst path.

    A choice is a site's own, so its price is the same whoever colludes.
    """
    coalition = Coalition(h=study.honest, t=study.threshold, colluders=colluders)
    price = cache(lambda release: cost_against(study.measure, release, coalition))
    dearer = [q if q.release is None else replace(q, cost=price(q.release)) for q in asked]
    return conversions.epsilon_of(study.measure, paid(worst_path(dearer)), study.noise_delta)


def meaning_words(meaning: Meaning, unit: str) -> list[str]:
    """The promise for people who read no epsilons; `unit` is in the words of this module."""
    one = "person" if "person" in unit else "record"
    of_labels = unit.startswith("the label")
    told = f"the labels of one {one}" if of_labels else f"whether one {one} took part"
    _, found = meaning.found[1]
    return [
        f"a guess at {told} is right at most {percent(meaning.guess)} of the time; a coin, 50 %",
        f"a test with 1 % false alarms finds at most {percent(found)}; its advantage is at most "
        f"{percent(meaning.advantage)}",
    ]


def percent(part: float) -> str:
    """Rounded up, like every number of a promise."""
    return f"{printed(100.0 * part, 3)} %"
