"""The real data on which learned constants are judged; the search sees none of it."""

from __future__ import annotations

from studies.learned.constants import CLASSES, NUMBERS

BUNDLED = {CLASSES: ("breast_cancer", "wine", "digits"), NUMBERS: ("diabetes",)}
"""They come with scikit-learn."""
STORED: dict[str, tuple[str, ...]] = {
    CLASSES: (
        *("adult", "bank", "credit_default", "spambase", "banknote", "wall_robot", "letter"),
        *("waveform", "puc_rio_har", "avazu_15k", "skin"),
    ),
    NUMBERS: ("parkinsons", "appliances_energy", "metro_traffic", "gas_turbine", "flights_nyc13"),
}
REAL = {goal: BUNDLED[goal] + STORED[goal] for goal in (CLASSES, NUMBERS)}
