"""What a run does not hide, in words: it follows from the study alone."""

from __future__ import annotations

from hedgerow.privacy.accounting.budget import Placement
from hedgerow.study.terms import Study

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
