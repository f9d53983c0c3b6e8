"""Earlier code that answers as the code of today does, so that its rows are still true.

A digest changes with every renamed helper; what is measured does not. For each module of fits here
are the digests of earlier code whose answers were compared with today's, to the last digit and
with the noise held fixed, on the cells of `studies/tests/answers.json`. `--resume` takes their rows
over. The test of these answers (`studies/tests/test_same_answers.py`) turns red when today's code
gives other ones: then the digests here must go, or the change is a fault.
"""

from __future__ import annotations

SAME_ANSWERS: dict[str, tuple[str, ...]] = {
    "studies.gubler.fits": ("c6b3aeb7e15f", "1caf7633d945"),
    "studies.topdown.fits": ("6f04bf66ed28",),
    "studies.boosted.fits": ("140c01e8e63c",),
}
