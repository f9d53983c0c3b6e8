"""The words of a guarantee that depend on the DP model: who is protected from whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, DPModel, Measure
from hedgerow.privacy.accounting.coalition import Coalition, cost_against
from hedgerow.privacy.accounting.guarantee import (
    Drawn,
    Guarantee,
    Meaning,
    Protected,
    Unit,
    add_guarantees,
    combine_disjoint,
    reason_not_apart,
    unit_words,
)
from hedgerow.privacy.accounting.rounding import format_above
from hedgerow.privacy.statement.spending import Asked, total_cost, worst_path
from hedgerow.privacy.study import Study

# What a run does not protect; it follows from the study alone.

READ_FROM_DATA = "ranges were read from the data"
LITERATURE = {
    DPModel.CENTRAL.value: "central DP",
    DPModel.DISTRIBUTED.value: "distributed DP",
    DPModel.PER_SITE.value: "per-site DP",
    DPModel.LABEL.value: "label DP, local",
}
ALWAYS = (
    "the schema: names of columns, ranges, categories, classes",
    "the study: method, parameters, epsilon, delta, where noise is added",
    "that a model was trained, and how many rounds it took",
)
SEVERAL_SITES = "which sites take part, and how many may be lost or collude"
LENGTHS_OF_MESSAGES = (
    "how long messages are: the study and earlier noisy answers decide it, not the rows"
)
TIMES = "when sites answer: {}"
ON_PAPER = {
    "whole_budget": "budgets in mu (Gaussian DP)",
    "delta_of_sparse_rounds": "the sparse graph of masks",
    "LocalSelection": "selections by single sites",
    "ENTROPY": "the entropy score of splits",
    "RandomizedResponse": "labels by randomized response",
    "BloomRandomizedResponse": "labels by Bloom reports",
}
"""Parts of a study whose proof is not machine-checked, by the names of their cards."""
UNVETTED = "not machine-checked, proved on paper: {}. No outside reader has checked the proof yet."


def list_unvetted(study: Study) -> list[str]:
    """A note if a study uses parts that are proved on paper only."""
    if study.dp_model is DPModel.NONE:
        return []
    names = {name for kind in study.asks for name in (kind.query, kind.what)}
    if study.measure is Measure.GDP:
        names.add("whole_budget")
    if study.graph_delta:
        names.add("delta_of_sparse_rounds")
    if study.dp_model is DPModel.LABEL:
        reports = study.label_reports
        names.add("RandomizedResponse" if reports is None else type(reports).__name__)
    words = [ON_PAPER[name] for name in ON_PAPER if name in names]
    return [UNVETTED.format(", ".join(words))] if words else []


def list_unprotected(
    study: Study, is_schema_inferred: bool, is_simulation: bool
) -> tuple[str, ...]:
    """Quantities that are public or unprotected, the most surprising last."""
    lines = [*ALWAYS]
    if study.n_sites > 1:
        lines += [SEVERAL_SITES, LENGTHS_OF_MESSAGES]
    if not is_simulation:
        lines.append(TIMES.format(_times(study)))
    if is_schema_inferred:
        lines.append("ranges, categories and classes as the rows have them")
    if study.dp_model is DPModel.LABEL:
        lines.append("features of every record, in sums over the sites, and how many records")
    if study.dp_model is DPModel.NONE:
        lines.append("everything: sums are exact")
    return tuple(lines)


def _times(study: Study) -> str:
    if not study.reply_interval:
        return "how long a site takes shows about how many records it holds"
    return (
        f"at fixed intervals of {study.reply_interval} s; a site that misses one shows that it did"
    )


def guarantee_of(
    study: Study,
    persons_declared: bool = False,
    *,
    epsilon: Cost | None = None,
    sample: Drawn | None = None,
) -> Guarantee:
    """The guarantee of a run of the study: the whole budget, or `epsilon` if it is less.

    `persons_declared` says that sites know the person of each record; `sample` names the records.
    """
    at_one_site = persons_declared and study.n_sites > 1
    is_open = study.dp_model is DPModel.NONE or bool(study.schema.unconfirmed)
    protection = Protected.LABEL if study.dp_model is DPModel.LABEL else Protected.RECORD
    return Guarantee(
        unit=Unit(most=study.records_per_person, counted=persons_declared, at_one_site=at_one_site),
        protected=Protected.NOTHING if is_open else protection,
        epsilon=math.inf if is_open else study.epsilon if epsilon is None else epsilon,
        delta=study.delta,
        drawn=sample,
    )


def neighbors(study: Study, persons_declared: bool = False) -> str:
    """Describes how neighboring data sets differ."""
    most = study.records_per_person
    where = " at one site" if persons_declared and study.n_sites > 1 else ""
    if study.dp_model is DPModel.LABEL:
        whose = f"one person has other labels{where}"
        if most == 1 and not persons_declared:
            whose = "one record has another label"
        return f"data sets with the same records and features, in which {whose}"
    if persons_declared:
        difference = f"all records of one person{where}"
    elif most > 1:
        difference = f"the records of one person (up to {most}, at all sites together)"
    else:
        of_site = " of one site" if study.dp_model is DPModel.PER_SITE else ""
        difference = f"one record{of_site}"
    return f"data sets that differ by adding or removing {difference}"


def together_words(parts: Sequence[Guarantee]) -> str:
    """The joint guarantee of releases that may share records, or why there is none."""
    whole = add_guarantees(*parts)
    if {Protected.LABEL, Protected.RECORD} <= {part.protected for part in parts}:
        return f"{whole.summary}: some protect labels alone, with features in the open"
    return whole.summary


LEFT_OUT = "these records were held out of training by secret random draws of their sites"
OTHER_UNITS = (
    "if any of these records was trained on, there is no guarantee for both together: the units of "
    "privacy differ, {}."
)


def evaluation_words(fits: Sequence[Guarantee], evaluation: Guarantee) -> str:
    """The joint guarantee of training and evaluation; `fits` are those of the evaluated models."""
    units = dict.fromkeys(unit_words(guarantee.unit) for guarantee in (*fits, evaluation))
    if evaluation.drawn is None and len(units) > 1:
        return OTHER_UNITS.format(" and ".join(units))
    sum_words = together_words([*fits, evaluation])
    if evaluation.drawn is None:
        return f"if any of these records was trained on, both add up for it: {sum_words}."
    whole, subject = add_guarantees(*fits), LEFT_OUT
    if len(fits) > 1:
        subject = (
            f"{subject}; the others were trained on by each of {len(fits)} fits, which together "
            f"guarantee {together_words(fits)}"
        )
    reason = reason_not_apart(whole, evaluation)
    if reason is not None:
        return f"{subject}. But {reason}: training and evaluation together guarantee {sum_words}."
    joint_words = combine_disjoint(whole, evaluation).summary
    return (
        f"{subject}. No record paid for both, so training and evaluation together guarantee "
        f"{joint_words}."
    )


def trust(study: Study, epsilon: float, queries: Sequence[Asked]) -> list[tuple[str, str]]:
    """The guarantee against each adversary; everybody sees ranges that were read from rows."""
    shown = f"epsilon {format_above(epsilon)}"
    if study.dp_model is DPModel.NONE:
        shown = "no guarantee: no noise was added"
    elif study.schema.unconfirmed:
        shown = f"no guarantee: {READ_FROM_DATA} (requested: epsilon {format_above(epsilon)})"
    everybody = [("the public", shown)]
    if study.n_sites == 1 or study.dp_model is DPModel.NONE:
        return everybody
    if study.dp_model is not DPModel.DISTRIBUTED:
        return [*everybody, ("all others", f"{shown}, even if all other sites collude")]
    more = max(epsilon, _against(study, queries, study.colluders + 1))
    many, which = f"{study.colluders} sites collude", f"one of the {study.colluders} colluders"
    if study.colluders == 1:
        many, which = "1 site colludes", "the one colluder"
    return [
        *everybody,
        ("coordinator", f"{shown}, assuming standard cryptography"),
        (
            "coalition",
            f"{shown} if up to {many}; epsilon {format_above(more)} if one more site colludes",
        ),
        ("other site", f"{shown} (another site counts as {which})"),
    ]


def dp_model_words(noise: str) -> str:
    """The name of the DP model in the literature, and its description of the noise."""
    return f"{LITERATURE[noise]}: {noise}" if noise in LITERATURE else noise


def _against(study: Study, queries: Sequence[Asked], colluders: int) -> float:
    """Epsilon against more colluders than the study tolerates, on the worst path.

    A selection is made at one site, so its cost does not depend on colluders.
    """
    coalition = Coalition(h=study.honest, t=study.threshold, colluders=colluders)
    price = cache(lambda release: cost_against(study.measure, release, coalition))
    dearer = [q if q.release is None else replace(q, cost=price(q.release)) for q in queries]
    return conversions.epsilon_of(study.measure, total_cost(worst_path(dearer)), study.noise_delta)


def meaning_words(meaning: Meaning, unit: str) -> list[str]:
    """The guarantee for readers who do not know epsilon; `unit` is in the words of `unit_words`."""
    unit_word = "person" if "person" in unit else "record"
    of_labels = unit.startswith("the label")
    secret = (
        f"at the labels of one {unit_word}" if of_labels else f"whether one {unit_word} took part"
    )
    _, success_rate = meaning.found[1]
    return [
        f"a guess {secret} is right at most {percent(meaning.guess)} of the time (a coin: 50 %)",
        f"an attack with 1 % false positives succeeds at most {percent(success_rate)} of the time; "
        f"its advantage is at most {percent(meaning.advantage)}",
    ]


def percent(part: float) -> str:
    """A percentage, rounded up like every number of a guarantee."""
    return f"{format_above(100.0 * part, 3)} %"
