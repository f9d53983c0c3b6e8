"""Every way to use records is held to its charge; what is wrong with one is seen on that one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.audit.measuring import AuditVerdict
from hedgerow.audit.paths import compare_neighbors
from hedgerow.audit.running import AUDIT_FEATURES, audit_paths, lines
from hedgerow.data.engines import database
from hedgerow.data.rows import Rows
from hedgerow.methods import evaluated_rows

pytestmark = pytest.mark.filterwarnings("ignore")

SCHEMA = hr.Schema(AUDIT_FEATURES, classes=("no", "yes"))
TREE = partial(hr.HistogramTreeClassifier, SCHEMA, epsilon=4.0, max_depth=2, random_state=0)


def paths(dp_model="central", made=TREE):
    return audit_paths(made, SCHEMA, dp_model, False, np.random.default_rng(3))


def test_all_that_may_be_done_with_records_is_audited():
    found = paths()
    assert set(found) == {
        *("rounds that fail", "records of persons", "evaluation", "records held out"),
        *("model selection", "rows in a database"),
    }
    assert not any(path.problems for path in found.values())
    assert max(path.lost_fraction for path in found.values()) > 0.9
    assert "rows in a database" not in paths("per_site", partial(TREE, dp_model="per_site"))


def every_record_is_evaluated(monkeypatch):
    everybody = lambda part, *how: np.ones(len(part.y), bool)  # noqa: E731
    monkeypatch.setattr(evaluated_rows.SiteRows, "is_held_out", everybody)


def persons_are_not_counted(monkeypatch):
    plain = Rows.of_each_person
    monkeypatch.setattr(Rows, "of_each_person", lambda rows, most: plain(rows, most + 1))


def a_database_forgets_regions(monkeypatch):
    monkeypatch.setattr(database, "within", lambda region, schema: "TRUE")


WRONG = {
    every_record_is_evaluated: {"records held out"},
    persons_are_not_counted: {"records of persons"},
    a_database_forgets_regions: {"rows in a database"},
}


@pytest.mark.parametrize("mutant", WRONG, ids=lambda mutant: mutant.__name__)
def test_a_mistake_on_one_path_is_seen_there(mutant, monkeypatch):
    mutant(monkeypatch)
    found = {name for name, path in paths().items() if path.problems}
    assert found == WRONG[mutant]


def test_a_disagreement_is_told_and_the_verdict_is_not_sound():
    found = {"evaluation": compared_wrong()}
    verdict = AuditVerdict(1.0, 0.0, 0.5, 0.0, 10, 5, (), found)
    assert not verdict.is_sound
    told = "\n".join(lines("Tree", "central", verdict))
    assert "ACCOUNTANTS DISAGREE: what is asked depends on a record" in told


def compared_wrong():
    """A fit whose depth is that of its rows: what is asked depends on a record."""

    def act(rows):
        X = np.tile(np.array([[0.5] * 6 + ["a"]], dtype=object), (len(rows), 1))
        TREE(max_depth=1 if len(rows) == 9 else 2, epsilon=40.0).fit(X, ["yes"] * len(rows))

    return compare_neighbors(act, np.arange(10), np.arange(9))
