"""The constants that read noisy answers, where each stands, and a way to fit with others.

A setting is a text such as `tree.ROOT_FRACTION x 1.5; leaning.PSEUDO_ROWS x 2`; the empty one is
the recipes as they are. Shares move by a half, since shares must add up; all others are doubled and
halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

from hedgerow.methods import boosting_classes, boosting_numbers, forest, tree
from hedgerow.methods.blocks import (
    calibration,
    curves,
    fallback,
    leaves,
    private_bins,
    target,
)

CLASSES, NUMBERS = "classes", "numbers"
TWICE = (Fraction(1, 2), Fraction(2))
SHARE = (Fraction(2, 3), Fraction(3, 2))
AND = "; "


@dataclass(frozen=True)
class Constant:
    """A name in a module; or, with a `field`, that field of what the name makes.

    The same constant may have been imported by its name: then every module has to change.
    """

    group: str
    """By which kept rows call it."""
    module: ModuleType
    name: str
    factors: tuple[Fraction, ...] = TWICE
    field: str = ""
    also: tuple[ModuleType, ...] = ()

    @property
    def label(self) -> str:
        parts = (self.group, self.name, self.field)
        return ".".join(part for part in parts if part)

    def settings(self) -> list[str]:
        return [f"{self.label} x {float(factor):.4g}" for factor in self.factors]

    def times(self, factor: Fraction) -> Any:
        present = getattr(self.module, self.name)
        if not self.field:
            return _times(present, factor)
        if isinstance(present, type):
            default = present.__dataclass_fields__[self.field].default  # type: ignore[attr-defined]
            return partial(present, **{self.field: _times(default, factor)})
        return _changed_after(present, self.field.split("."), factor)


def _times(value: Any, factor: Fraction) -> Any:
    if isinstance(value, tuple):
        return tuple(_times(part, factor) for part in value)
    return value * (factor if isinstance(value, Fraction) else float(factor))


def _changed_after(make: Callable[..., Any], path: list[str], factor: Fraction) -> Any:
    """Makes what `make` does, with one field multiplied."""

    def made(*given: Any) -> Any:
        return _with_field(make(*given), path, factor)

    return made


def _with_field(whole: Any, path: list[str], factor: Fraction) -> Any:
    first, *inner = path
    part = getattr(whole, first)
    new = _with_field(part, inner, factor) if inner else _times(part, factor)
    return replace(whole, **{first: new})


COUNTING = (
    Constant("counting", target, "COUNT_IS_SEEN", also=(fallback,)),
    Constant("counting", target, "AGAIN_FRACTION", SHARE),
)
TARGET = (
    Constant("target_range", target, "TARGET_FRACTION", SHARE, also=(target,)),
    Constant("target_range", target, "TARGET_STANDS_OUT"),
    Constant("goal", target, "TARGET_AGAIN", SHARE),
    Constant("plain", fallback, "FALLBACK_BELOW_FOR_NUMBERS"),
)
TREES_OF_CLASSES = (
    Constant("leaning", leaves, "PSEUDO_ROWS"),
    Constant("plain", fallback, "FALLBACK_BELOW"),
)
ONE_TREE = (
    Constant("tree", tree, "shrinkage_of", field="per_noise"),
    Constant("tree", tree, "ROOT_FRACTION", SHARE),
    Constant("tree", tree, "tree_constants", SHARE, "leaf_fraction"),
    Constant("tree", tree, "tree_constants", field="pieces.penalty"),
    Constant("tree", tree, "tree_constants", field="pieces.deviations"),
    Constant("tree", tree, "LEAST_ROWS"),
)
ONE_FOREST = (
    Constant("forest", forest, "forest_constants", SHARE, "root_fraction"),
    Constant("forest", forest, "WEAK_PENALTY"),
    Constant("forest", forest, "NOISE_PENALTY"),
    Constant("forest", forest, "SCREEN_FROM"),
    Constant("forest", forest, "WEIGHT_FLOOR"),
)
OF_METHODS: dict[tuple[str, str], tuple[Constant, ...]] = {
    ("boosted", CLASSES): (
        *COUNTING,
        Constant("boost_classes", boosting_classes, "RANDOM_TREES_BELOW"),
        Constant("by_count", private_bins, "BINS_FRACTION", SHARE),
        Constant("by_count", private_bins, "DEVIATIONS_A_BIN"),
        Constant("by_count", private_bins, "COUNT_STANDS_OUT"),
        Constant("smoothing", curves, "ROUGH"),
        Constant("smoothing", curves, "PULL"),
        Constant("smoothing", curves, "LEAST_CLASS"),
        Constant("stacking", curves, "LARGEST_START"),
        Constant("stacking", curves, "STEP_DEVIATION"),
        Constant("boost_classes", boosting_classes, "STACK_PART", SHARE),
        Constant("boost_classes", boosting_classes, "MOST_FOR_TREES", SHARE),
        Constant("boost_classes", boosting_classes, "TREE_GATE"),
        Constant("boost_classes", boosting_classes, "TREE_GATE_OF_MANY"),
        Constant("boost_classes", boosting_classes, "MANY_DEVIATION"),
        Constant("boost_classes", boosting_classes, "Wiener", field="deviation"),
    ),
    ("forest", CLASSES): (
        *COUNTING,
        *TREES_OF_CLASSES,
        *ONE_FOREST,
        Constant("forest", forest, "RANDOM_TREES_BELOW"),
        Constant("forest", forest, "forest_constants", SHARE, "sharpness"),
        Constant("leaning", leaves, "CLASSES_PER_NOISE"),
        Constant("forest", forest, "CALIBRATION_FRACTION", SHARE),
        Constant("calibration", calibration, "EXPECTED_ERROR"),
    ),
    ("tree", CLASSES): (
        *COUNTING,
        *TREES_OF_CLASSES,
        *ONE_TREE,
        Constant("tree", tree, "RANDOM_TREES_BELOW"),
    ),
    ("boosted", NUMBERS): (
        *TARGET,
        Constant("boost_numbers", boosting_numbers, "LEAST_SIGNAL"),
        Constant("boost_numbers", boosting_numbers, "RESIDUAL_FRACTION"),
        Constant("boost_numbers", boosting_numbers, "RESIDUAL_TAIL"),
        Constant("boost_numbers", boosting_numbers, "boost_constants", SHARE, "root_fraction"),
    ),
    ("forest", NUMBERS): (
        *COUNTING,
        *TARGET,
        *ONE_FOREST,
        Constant("forest", forest, "MOST_LEAF_NOISE"),
        Constant("levelling", calibration, "LEVEL_NOISE"),
    ),
    ("tree", NUMBERS): (
        *COUNTING,
        *TARGET,
        *ONE_TREE,
        Constant("levelling", calibration, "LEVEL_NOISE"),
    ),
}
"""Of each recipe and task, those that were varied. A constant stands where a recipe uses it."""

_EVERY = {c.label: c for constants in OF_METHODS.values() for c in constants}


@contextmanager
def fitted_with(setting: str) -> Iterator[None]:
    """Fits inside see other constants; everything is as it was afterwards."""
    with ExitStack() as changed:
        for part in setting.split(AND) if setting else ():
            label, _, written = part.partition(" x ")
            constant = _EVERY[label]
            factor = next(f for f in constant.factors if f"{float(f):.4g}" == written)
            other = constant.times(factor)
            for module in (constant.module, *constant.also):
                changed.enter_context(mock.patch.object(module, constant.name, other))
        yield
