"""Adding a method: a toy file with a toy statistic is found everywhere, and a false one is named.

The file is written into a temporary folder that a plugin puts on the path of the package, before
anything is collected: nothing of the package names it.
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
    "tests/methods/test_method_contract.py",
    "tests/methods/test_method_sensitivity.py",
    "tests/privacy/test_sensitivity.py",
    "tests/kernels/test_units.py",
]
CATCHING = [GATES[1], GATES[3]]
"""Those that see a false bound."""

TOY = '''
from dataclasses import dataclass
from fractions import Fraction
import numpy as np
from hedgerow.methods.base import PrivateRegressor
from hedgerow.methods.blocks.flow import ask
from hedgerow.methods.method import Method, Needs, Task, TrainingResult, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.methods.presets import preset
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import SumQuery, Whole, sums
from hedgerow.privacy.queries.statistics import statistic
from hedgerow.privacy.queries.statistics import Phrase
from hedgerow.schema.rules import whole

PAPER = "Nobody 2009"


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

    def incompatibility(self, schema):
        return None if schema.target is not None else "the rows have no numeric target"


@method("toy", test_settings=({"toy_height": 3},))
class Toy(Method):
    """One number for everybody."""

    toy_height: int = parameter(default=2, rule=whole(1), text="Does nothing.")

    @property
    def needs(self):
        return Needs(tasks=frozenset({Task.NUMBER}))

    def asks(self, schema):
        return sums(ToyMean, Whole)

    def largest(self, schema):
        return Size.of_step(integers=1, bytes=4096)

    def flow(self, schema, noise_model, rng):
        low, high = schema.target.low, schema.target.high
        answer = yield from ask(SumQuery((), ToyMean(low, high), Whole(), Fraction(1)))
        return TrainingResult(Model(Additive((float(answer.values.ravel()[0]),)), Output.MEAN))


@estimator
class ToyRegressor(PrivateRegressor, Toy):
    """One number for everybody, to be fitted."""


tall = preset("tall", "Tall", ToyRegressor, words="a high one.", fixed_parameters={"toy_height": 9})
'''
PLUGIN = """
import hedgerow.methods
hedgerow.methods.__path__.append(FOLDER)
from hedgerow.methods.toy_method import ToyMean
from support import examples
examples.VALUE_STATISTICS.append(ToyMean(-1.0, 3.0))
"""
EVERYWHERE = """
import toy
from pathlib import Path
import hedgerow as hr
hr.ToyRegressor  # before all else is loaded
from docs import make_methods, make_pages
from hedgerow.audit.running import estimators_named
from hedgerow.cli.fit import parse_estimator
from hedgerow.deployment.study_file import StudyFile
from hedgerow.methods import registry
from hedgerow.secagg.keys import Identity
from support.worlds import VALUE, study_text

def study(name):
    file, keys = Path("FOLDER", "study.toml"), [Identity.generate().public.hex() for _ in "abcd"]
    text = study_text(keys[1:], keys[0], model=f'estimator = "{name}"', schema=VALUE)
    file.write_text(text, encoding="utf-8")
    return StudyFile.read(file).estimator()

found = {
    "public name": "ToyRegressor" in hr.__all__ and "ToyRegressor" in dir(hr),
    "attribute": hr.ToyRegressor(toy_height=4).toy_height == 4,
    "type checkers": "import ToyRegressor as ToyRegressor" in make_pages.stub(),
    "contract tests": [m.toy_height for m in registry.catalog() if m.name == "toy"] == [3],
    "parameters": "| `toy_height` | " in make_methods.parameters_page(),
    "checks": "| `ToyRegressor` | " in make_methods.checks_page(),
    "papers": hr.papers.toy_method.tall().toy_height == 9,
    "table of papers": "hr.papers.toy_method.tall(schema)" in make_pages.papers_table(),
    "study file": type(study("ToyRegressor")) is hr.ToyRegressor,
    "paper in a study file": study("papers.toy_method.tall").toy_height == 9,
    "fit --estimator": parse_estimator("ToyRegressor toy_height=5", {}).toy_height == 5,
    "audit --estimator": "ToyRegressor" in estimators_named("all"),
}
print(*(f"{place}: {found[place]}" for place in found), sep="\\n")
"""


def environment(folder: Path, parts: int = 1) -> dict[str, str]:
    """Of a process that has the toy in its package, with a target that counts `parts` times."""
    (folder / "package").mkdir(exist_ok=True)
    toy = TOY.replace("PARTS", str(parts))
    (folder / "package" / "toy_method.py").write_text(toy, encoding="utf-8")
    plugin = PLUGIN.replace("FOLDER", repr(str(folder / "package")))
    (folder / "toy.py").write_text(plugin, encoding="utf-8")
    path = os.pathsep.join(map(str, (folder, ROOT / "src", ROOT / "tests", ROOT)))
    return os.environ | {"PYTHONPATH": path, "PYTEST_ADDOPTS": ""}


def gates(folder: Path, parts: int, files: list[str] = GATES) -> subprocess.CompletedProcess[str]:
    """What the inherited tests say of the toy."""
    words = ["-p", "toy", "-p", "no:cacheprovider", "-k", "toy or example_here", "-rpf"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-m", "not slow", *files],
        cwd=ROOT,
        env=environment(folder, parts),
        capture_output=True,
        text=True,
        check=False,
    )


def everywhere(folder: Path, plugin: str = "") -> subprocess.CompletedProcess[str]:
    """Where the toy is found, by a plugin that puts it on the path or by another one."""
    env = environment(folder)
    if plugin:
        (folder / "toy.py").write_text(plugin, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-c", EVERYWHERE.replace("FOLDER", str(folder))],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_toy_file_is_found_everywhere(tmp_path):
    done = everywhere(tmp_path)
    assert done.returncode == 0, done.stderr
    places = done.stdout.splitlines()
    assert len(places) == EVERYWHERE.count('": ')
    assert [place for place in places if not place.endswith(": True")] == []


def test_a_toy_that_is_not_on_the_path_of_the_package_is_not_found(tmp_path):
    """Twin."""
    done = everywhere(tmp_path, plugin="import hedgerow.methods")
    assert "has no attribute 'ToyRegressor'" in done.stderr


def verdicts(said: str, word: str) -> set[str]:
    """The tests, with what they are about, that end so."""
    return set(re.findall(rf"^{word} \S+?::(\S+)", said, re.M))


def test_a_toy_method_and_its_statistic_inherit_the_gates(tmp_path):
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


# ------------------------------------------------------------------------ a paper as one file
PAPER_GATES = {
    "test_every_departure_is_off_under_the_paper_s_names_or_says_why_it_cannot_be",
    "test_help_and_page_tell_each_departure",
    "test_the_line_as_it_stands_in_the_table_fits_and_says_its_epsilon",
    "test_what_papers_made_for_several_sites_fits_over_several",
    "test_every_parameter_of_a_name_changes_what_is_built_or_is_refused_by_name",
    "test_a_parameter_that_nobody_knows_is_refused",
    "test_every_method_of_the_papers_is_below_its_claim",
    "test_every_method_of_the_papers_is_a_study_by_its_name_alone",
}
"""A paper's method is fitted, audited and declared by these, without a line of theirs."""
PAPER_FILES = ("methods/test_papers.py", "audit/test_audit.py", "privacy/test_study.py")


def test_random_decision_trees_are_one_file_that_inherits_the_gates_of_papers():
    """Nothing else of the package names `methods/jagannathan.py`, nor do these gates."""
    named = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests" / file for file in PAPER_FILES)]
    assert [path.name for path in named if "jagannathan" in path.read_text(encoding="utf-8")] == []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-v", "-k", "jagannathan"]
        + [f"tests/{file}" for file in PAPER_FILES],
        cwd=ROOT,
        env=os.environ | {"PYTEST_ADDOPTS": "-p no:cacheprovider -o addopts="},
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(re.findall(r"<Function (\w+)\[", done.stdout)) == PAPER_GATES, done.stdout


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
    section = page.split("\n## Add a method")[1].split("\n## Rules")[0]
    named = re.findall(r"`([\w/]+\.py|[\w/]+/)`", section)
    places = (ROOT, ROOT / "src/hedgerow")
    return [name for name in named if not any((place / name).exists() for place in places)]


def test_every_file_that_contributing_names_is_there():
    assert missing_files(CONTRIBUTING) == []


@pytest.mark.parametrize("name", ["growing/", "site/answer.py"])
def test_a_file_that_moved_is_seen(name):
    """Twin."""
    assert missing_files(f"\n## Add a method\n`{name}`\n## Rules") == [name]
