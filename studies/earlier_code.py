"""Earlier code that answers as the code of today does, so that its rows are still true.

A digest changes with every renamed helper; what is measured does not. For each module of fits here
are the digests of earlier code whose answers were compared with today's, to the last digit and
with the noise held fixed, on the cells of `studies/tests/answers.json`. `--resume` takes their rows
over. Where a sampler draws the same law from other words, the comparison was made with the sampler
of before in its place (docs/design/noise.md); since learners round what they release to 24 bits,
answers were compared to six digits (bytes aside: digests are whole), and best-first trees on one
kind of processor, because equal gains fell otherwise on another. Bytes of all rows before rounds
were opened at once are those of two exchanges, which is more. The test of these answers
(`studies/tests/test_same_answers.py`) turns red when today's code gives other ones: then the
digests here must go, or the change is a fault. A change that some cells cannot meet leaves the rows
of those: beside a digest are texts, and a cell that has one is old.
"""

from __future__ import annotations

from collections.abc import Sequence

STEPS = ("newton", "gradient")

SCORED_BY_UNCLIPPED_STEPS = ("split=histogram", "split=partially_random", "DP-GBM", "FEVERLESS")
"""Boosted trees that look before they split; see studies/notes/boosting.md#0142."""

FORESTS = ("forest",)
"""Of classes, whose probabilities did not add up; see studies/notes/forests.md#0153."""

PURE = ("pure",)
"""Laplace noise, of which few records had other gates; see studies/notes/gates.md#0155."""

FEW_RECORDS = ("wine", "breast_cancer", "banknote", "digits", "waveform", "wall_", "spambase")
"""Sets of classes so small that their gates are other ones; see studies/notes/gates.md#0156."""

FEWEST_RECORDS = ("wine", "breast_cancer", "banknote", "digits")
"""Of these, sets that may get the shares; see there."""

WITHOUT_WEIGHTS = ("SingleMachine RNM", "LocalRNM", "NoisyCounts")
"""Published trees of before, whose nodes had no weight query."""

REPAIRED = (
    *(f"split={kind};update={u}" for kind in ("histogram", "partially_random") for u in STEPS),
    *(f"method={name}" for name in ("DP-RF", "DP-GBM", "DP-EBM Newton", "DP-TR", "FEVERLESS")),
)
"""Published boosting of before, with repairs that had no switch."""

BEFORE_SURFACES = ("method=default",)
"""Our default before it learned surfaces; see studies/notes/boosting.md#0161."""

BOOSTED = ("boosted",)
"""The same, by its name among our estimators."""

AGREEING = ("silo, 20 trees",)
"""FET-GDP of before, whose tables agreed."""

SAME_ANSWERS: dict[str, dict[str, tuple[str, ...]]] = {
    "studies.gubler.fits": {
        "c6b3aeb7e15f": (),
        "1caf7633d945": (),
        "608b9979a372": (),
        "39f63303ab6b": (),
        "39321e068fc1": (),
        "d59c48e6acc4": (),
    },
    "studies.topdown.fits": {
        "6f04bf66ed28": WITHOUT_WEIGHTS,
        "137006685a9d": WITHOUT_WEIGHTS,
        "94e0440bef43": WITHOUT_WEIGHTS,
        "8d740e9f47b6": WITHOUT_WEIGHTS,
        "5c9c4d6bc0f6": WITHOUT_WEIGHTS,
        "df0efe175f1a": WITHOUT_WEIGHTS,
    },
    "studies.boosted.fits": {
        "140c01e8e63c": (*SCORED_BY_UNCLIPPED_STEPS, *REPAIRED, *BEFORE_SURFACES),
        "c6e9f781d5d9": (*SCORED_BY_UNCLIPPED_STEPS, *REPAIRED, *BEFORE_SURFACES),
        "fd0acdd39217": (*SCORED_BY_UNCLIPPED_STEPS, *REPAIRED, *BEFORE_SURFACES),
        "0375a903b131": (*REPAIRED, *BEFORE_SURFACES),
        "c2759830c63d": (*REPAIRED, *BEFORE_SURFACES),
        "b50625cbfde3": (*REPAIRED, *BEFORE_SURFACES),
        "fe881693640d": (*REPAIRED, *BEFORE_SURFACES),
        "3f05dad7edde": (*REPAIRED, *BEFORE_SURFACES),
        "5341f905a90e": (*REPAIRED, *BEFORE_SURFACES),
    },
    "studies.diprime.fits": {
        "78e53eb81a5f": (),
        "6747b761eebd": (),
        "bf025dd8efea": (),
        "70657c9ed5e6": (),
    },
    "studies.extra_trees.fits": {
        "21d81c639550": AGREEING,
        "eeaa06cc774f": AGREEING,
        "86fee060ace6": AGREEING,
        "2ce09618a0ac": AGREEING,
    },
    "studies.ours.tasks": {
        "784266835d2a": (*PURE, *FEW_RECORDS, *BOOSTED),
        "55f6ae7cfe7d": (*FEW_RECORDS, *BOOSTED),
        "f98574f0dbce": (*FEWEST_RECORDS, *BOOSTED),
    },
    "studies.which.fits": {"543de08c37ff": FORESTS},
}
"""Module -> digest -> texts of the cells that are old nevertheless."""


def gives_the_same(module: str, code: str, cell: Sequence[str]) -> bool:
    """Whether earlier code gives today's answer to a cell of a module's fits."""
    old = SAME_ANSWERS.get(module, {}).get(code)
    return old is not None and not any(text in value for text in old for value in cell)
