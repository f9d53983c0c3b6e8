"""Adding a method: a toy recipe with a toy statistic inherits the gates, and a false one is named.

The toy is written into a temporary folder and loaded as a plugin, so that it registers itself
before the gates are collected, as a file of the package would.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GATES = [
    "tests/methods/test_recipes.py",
    "tests/methods/test_recipe_sensitivity.py",
    "tests/privacy/test_sensitivity.py",
    "tests/kernels/test_units.py",
]
CATCHING = [GATES[1], GATES[3]]
"""Those that see a false bound."""

TOY = '''
from dataclasses import dataclass
from fractions import Fraction
import numpy as np
from hedgerow.models.sensitivity import Sensitivity
from hedgerow.privacy.queries import SumQuery, Whole, sums
from hedgerow.privacy.queries.statistics import statistic
from hedgerow.privacy.queries.words import Phrase
from hedgerow.methods.blocks.flow import ask
from hedgerow.methods import catalog
from hedgerow.methods.method import Needs, Task, Trained
from hedgerow.privacy.bundles import Size
from hedgerow.models.model import Additive, Model, Output
from support import examples


@statistic
@dataclass(frozen=True)
class ToyMean:
    """PARTS times the place of the target in its range."""

    low: float
    high: float
    is_fractional = True
    channels = 1
    words = Phrase("toy sums")

    def channel(self, records):
        raise NotImplementedError

    def fractions(self, records, unit):
        inside = np.clip(records.target, self.low, self.high)
        return PARTS * ((inside - self.low) / (self.high - self.low))[:, None]

    def bound(self, unit):
        return Sensitivity(unit, unit**2, unit)

    def misfit(self, schema):
        return None if schema.target is not None else "the rows have no numeric target"


@dataclass(frozen=True)
class ToyRecipe:
    """One number for everybody."""

    name = "toy"
    needs = Needs(tasks=frozenset({Task.NUMBER}))

    def asks(self, schema):
        return sums(ToyMean, Whole)

    def grid(self, schema):
        return schema

    def largest(self, schema):
        return Size.of_step(integers=1, bytes=4096)

    def flow(self, schema, quote, rng):
        low, high = schema.target.low, schema.target.high
        answer = yield from ask(SumQuery((), ToyMean(low, high), Whole(), Fraction(1)))
        return Trained(Model(Additive((float(answer.values.ravel()[0]),)), Output.MEAN))


catalog.ALL += (ToyRecipe(),)
examples.VALUE_STATISTICS.append(ToyMean(-1.0, 3.0))
'''


def gates(folder: Path, parts: int, files: list[str] = GATES) -> subprocess.CompletedProcess[str]:
    """What the inherited tests say of the toy, with a target that counts `parts` times."""
    (folder / "toy.py").write_text(TOY.replace("PARTS", str(parts)), encoding="utf-8")
    path = os.pathsep.join(map(str, (folder, ROOT / "src", ROOT / "tests", ROOT)))
    words = ["-p", "toy", "-p", "no:cacheprovider", "-k", "toy or example_here", "-rpf"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-m", "not slow", *files],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def verdicts(said: str, word: str) -> set[str]:
    """The tests, with what they are about, that end so."""
    return set(re.findall(rf"^{word} \S+?::(\S+)", said, re.M))


def test_a_toy_recipe_and_its_statistic_inherit_the_gates(tmp_path):
    done = gates(tmp_path, parts=1)
    passed = verdicts(done.stdout, "PASSED")
    assert done.returncode == 0, done.stdout
    about = {re.sub(r"\[.*", "", name) for name in passed}
    assert about == {
        "test_without_noise_the_federated_model_is_the_pooled_model",
        "test_a_run_spends_what_it_reserved_and_never_more",
        "test_a_run_stops_before_it_would_spend_too_much",
        "test_a_recipe_says_how_many_rounds_it_takes",
        "test_a_recipe_asks_nothing_but_what_it_says",
        "test_a_recipe_never_asks_more_than_it_declares",
        "test_a_recipe_is_refused_before_anything_is_asked_where_it_cannot_run",
        "test_what_a_recipe_asks_keeps_the_bound_that_it_declares",
        "test_every_registered_statistic_and_grouping_has_an_example_here",
        "test_one_record_never_moves_a_sum_by_more_than_declared",
        "test_no_honest_record_meets_the_clamp",
    }


def test_a_toy_that_adds_three_and_declares_one_is_caught_by_name(tmp_path):
    """Twin."""
    done = gates(tmp_path, parts=3, files=CATCHING)
    failed = verdicts(done.stdout, "FAILED")
    assert done.returncode == 1, done.stdout
    assert any("keeps_the_bound" in name and "-toy-" in name for name in failed)
    assert any("meets_the_clamp" in name and "ToyMean" in name for name in failed)


# ------------------------------------------------------------------------- what CONTRIBUTING says
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def layers_shown(page: str) -> list[set[str]]:
    """The packages of each layer of the picture, from the top."""
    rows = re.findall(r"^\| \d+ \| (.*?) \|", page, re.M)
    return [set(re.findall(r"`(\w+)`", packages)) for packages in rows]


def layers_enforced() -> list[set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [set(re.split(r" [|:] ", layer)) for layer in layers["layers"]]


def test_the_picture_of_the_layers_is_the_import_contract():
    assert layers_shown(CONTRIBUTING) == layers_enforced()


def test_a_picture_without_a_layer_or_a_package_is_seen():
    """Twin."""
    for less in (
        re.sub(r"^\| 5 .*\n", "", CONTRIBUTING, flags=re.M),
        CONTRIBUTING.replace("`data`", ""),
    ):
        assert layers_shown(less) != layers_enforced()


def missing_files(page: str) -> list[str]:
    section = page.split("## Adding a method")[1].split("\n## ")[0]
    named = re.findall(r"`([\w/]+\.py|[\w/]+/)`", section)
    places = (ROOT, ROOT / "src/hedgerow")
    return [name for name in named if not any((place / name).exists() for place in places)]


def test_every_file_that_a_new_method_touches_is_there():
    assert missing_files(CONTRIBUTING) == []


@pytest.mark.parametrize("name", ["growing/", "party/answer.py"])
def test_a_file_that_moved_is_seen(name):
    """Twin."""
    assert missing_files(f"## Adding a method\n`{name}`\n## Rules") == [name]
