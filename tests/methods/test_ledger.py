"""`ledger=`: fits that name one file add up in it, whatever becomes of them."""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from fractions import Fraction as Q
from pathlib import Path

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.errors import (
    BudgetExceeded,
    LedgerBroken,
    LedgerRolledBack,
    LedgerUnavailable,
    ParameterError,
    PrivacyWarning,
)
from hedgerow.federation.transports import in_process
from hedgerow.methods import base
from hedgerow.privacy.accounting.guarantee import Guarantee, Protected, Unit
from hedgerow.privacy.statement.statement import PrivacyStatement
from methods.test_estimators import EACH, small, world
from support.worlds import TWO, sample

X, Y = sample(60, TWO)


def tree(ledger, **options):
    return hr.HistogramTreeClassifier(
        TWO, **{"delta": 0.0, "max_depth": 2, "ledger": ledger, **options}
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fits.ledger"


@pytest.fixture
def nothing_asked(monkeypatch):
    def never(*given):
        pytest.fail("rows were asked")

    monkeypatch.setattr(in_process, "open_federation", never)


def summed(path):
    total = hr.Ledger(path).total()
    return total.epsilon, total.delta, total.fits


# ------------------------------------------------------------------------------------- adding up
def test_fits_that_name_one_file_add_up_and_the_statement_says_so(path):
    for k, epsilon in enumerate([0.1, 0.2, 0.7], start=1):
        said = tree(path, epsilon=epsilon).fit(X, Y).privacy_
        assert (said.epsilon, said.total.fits) == (epsilon, k)
    assert said.total.epsilon == 1.0, "tenths add up exactly"
    assert "all fits" in str(said)
    assert "epsilon = 1, delta = 0 over 3 fits" in str(said)
    assert said.total.head in str(said)
    assert summed(path) == (1.0, 0.0, 3)


def test_pure_and_gaussian_fits_add_up_side_by_side(path):
    tree(path, epsilon=1.0).fit(X, Y)
    said = tree(str(path), epsilon=0.5, delta=1e-6).fit(X, Y).privacy_
    assert (said.total.epsilon, said.total.delta) == (1.5, 1e-6)
    said = tree(hr.Ledger(path), epsilon=0.5, delta=2e-6).fit(X, Y).privacy_
    assert (said.total.epsilon, said.total.delta) == (2.0, 3e-6)


@EACH
def test_every_estimator_is_charged_with_all_it_may_spend(kind, path):
    schema, rows, y = world(kind)
    said = small(kind, schema=schema, epsilon=0.5, ledger=path).fit(rows, y).privacy_
    assert (said.total.epsilon, said.total.fits) == (0.5, 1)


def test_a_search_over_parameters_adds_every_fit(path):
    search = GridSearchCV(tree(path, epsilon=0.5), {"max_depth": [1, 2]}, cv=2).fit(X, Y)
    assert summed(path) == (2.5, 0.0, 5)
    assert search.best_estimator_.privacy_.total.epsilon == 2.5


def test_a_fit_without_noise_makes_the_total_infinite(path):
    tree(path).fit(X, Y)
    said = tree(path, dp_model="none").fit(X, Y).privacy_
    assert said.total.epsilon == math.inf
    assert "all fits" in str(said)
    assert "epsilon = infinity, delta = 0 over 2 fits" in str(said)


def test_a_fit_that_reads_its_schema_from_the_rows_makes_the_total_infinite(path):
    with pytest.warns(PrivacyWarning):
        said = hr.HistogramTreeClassifier(max_depth=1, ledger=path).fit(X, Y).privacy_
    assert said.total.epsilon == math.inf


def test_without_a_ledger_a_statement_speaks_of_one_fit():
    said = tree(None).fit(X, Y).privacy_
    assert said.total is None
    assert "all fits" not in str(said)
    assert "epsilons and deltas add" in str(said)


def test_promises_of_two_kinds_do_not_add_up(path):
    tree(path).fit(X, Y)
    others = [({"records_per_person": 2}, {}), ({}, {"person": range(60)})]
    for options, more in others:
        with pytest.raises(
            ParameterError, match="adds up guarantees to 'one record'; this fit makes one"
        ):
            tree(path, **options).fit(X, Y, **more)
    label = hr.ExtraTreesClassifier(TWO, n_estimators=2, max_depth=2, dp_model="label", ledger=path)
    with pytest.raises(ParameterError, match="name another ledger"):
        label.fit(X, Y)
    assert summed(path)[2] == 1


# ---------------------------------------------------------------------------------------- limits
def test_a_fit_beyond_the_limit_is_refused_before_anything_is_asked(path, request):
    limited = hr.Ledger(path, epsilon=1.0)
    tree(limited, epsilon=0.6).fit(X, Y)
    request.getfixturevalue("nothing_asked")
    for ledger in (limited, path):
        model = tree(ledger, epsilon=0.5)
        with pytest.raises(BudgetExceeded, match=r"to epsilon = 1\.1, .* over 2 fits; its limit"):
            model.fit(X, Y)
        assert not hasattr(model, "model_")
    assert summed(path) == (0.6, 0.0, 1)


def test_a_limit_is_reached_and_not_exceeded_by_a_trace(path):
    limited = hr.Ledger(path, epsilon=0.3)
    for _ in range(3):
        tree(limited, epsilon=0.1).fit(X, Y)
    with pytest.raises(BudgetExceeded):
        tree(limited, epsilon=1e-12).fit(X, Y)
    assert summed(path)[0] == 0.3


def test_delta_has_a_limit_of_its_own(path):
    limited = hr.Ledger(path, epsilon=10.0, delta=1e-6)
    tree(limited, delta=1e-6).fit(X, Y)
    with pytest.raises(BudgetExceeded, match="delta = 2e-6"):
        tree(limited, delta=1e-6).fit(X, Y)
    tree(limited).fit(X, Y)
    assert summed(path) == (2.0, 1e-6, 2)


def test_a_limited_ledger_refuses_what_promises_nothing(path, nothing_asked):
    with pytest.raises(BudgetExceeded, match="epsilon = infinity"):
        tree(hr.Ledger(path, epsilon=10.0), dp_model="none").fit(X, Y)


def test_a_limit_can_be_lowered_and_not_raised(path):
    tree(path).fit(X, Y)
    tree(hr.Ledger(path, epsilon=4.0)).fit(X, Y)
    with pytest.raises(ParameterError, match="can be lowered, not raised"):
        tree(hr.Ledger(path, epsilon=5.0)).fit(X, Y)
    with pytest.raises(BudgetExceeded):
        tree(hr.Ledger(path, epsilon=2.5)).fit(X, Y)
    tree(hr.Ledger(path, epsilon=4.0)).fit(X, Y)
    tree(path).fit(X, Y)
    with pytest.raises(BudgetExceeded):
        tree(path).fit(X, Y)


@pytest.mark.parametrize("cost", [("9/10", "0/1"), ("1/10", "1/10")])
def test_the_ledgers_own_rules_are_a_second_lock(path, cost, monkeypatch):
    """Twin: a check that is left out is made again by the books."""
    epsilon, delta = map(Q, cost)
    fit = Guarantee(unit=Unit(), protected=Protected.RECORD, epsilon=epsilon, delta=delta)
    limited = hr.Ledger(path, epsilon=0.8, delta=1e-3)
    monkeypatch.setattr(hr.Ledger, "_require_room", lambda *given: None)
    with pytest.raises(BudgetExceeded, match="Nothing was approved"):
        limited.reserve(fit, name="a fit")
    assert summed(path)[2] == 0


# ------------------------------------------------------------------------- fits that do not end
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_that_is_interrupted_stays_charged(path, error, monkeypatch):
    def interrupted(*given):
        raise error

    monkeypatch.setattr(base, "train", interrupted)
    with pytest.raises(error):
        tree(path).fit(X, Y)
    assert summed(path) == (1.0, 0.0, 1)


def test_rows_that_cannot_be_read_cost_nothing(path):
    with pytest.raises(hr.DataError):
        tree(path).fit(X, Y, person=[None] * 60)
    assert not path.exists()


CHILD = """
import os, signal, sys
from fractions import Fraction
import numpy as np
import hedgerow as hr
from hedgerow.methods import base
from hedgerow.privacy.ledger.rules import Books

schema = hr.Schema((hr.Numeric("x", 0, 1, bins=4),), classes=("0", "1"))
X = np.linspace(0, 1, 40)[:, None]
y = (X[:, 0] > 0.5).astype(int).astype(str)
ledger = hr.Ledger(sys.argv[1], epsilon=5.0)
model = hr.HistogramTreeClassifier(schema, epsilon=1.0, delta=0.0, max_depth=1, ledger=ledger)
if sys.argv[2] == "killed":
    base.train = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "forgetful":
    hr.Ledger._require_room = lambda *given: None
    Books._total_committed = lambda *given: Fraction(0)


def fits():
    done = 0
    for _ in range(4):
        try:
            model.fit(X, y)
            done += 1
        except hr.BudgetExceeded:
            pass
    return done


gate, held = os.pipe()
children = []
for _ in range(int(sys.argv[3])):
    children.append(os.fork())
    if children[-1] == 0:
        os.close(held)
        os.read(gate, 1)  # returns when nobody holds the gate: all begin at once
        result = 99
        try:
            result = fits()
        finally:
            os._exit(result)
os.close(held)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def fits_of_processes_at_once(path, how, n):
    """How many of the four fits of each process were let through; minus the signal that ended it.

    The processes are forks of one, so that the package is loaded once.
    """
    words = [sys.executable, "-c", CHILD, str(path), how, str(n)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    return [int(word) for word in done.stdout.split()]


def test_processes_at_once_do_not_spend_the_same_budget_twice(path):
    """Also the first use, at which key, anchor and limit are made, is one process' alone."""
    assert sum(fits_of_processes_at_once(path, "alive", 3)) == 5
    assert summed(path) == (5.0, 0.0, 5)
    assert hr.Ledger(path).verify().fits == 5


def test_processes_that_do_not_read_what_others_wrote_are_seen(path):
    assert fits_of_processes_at_once(path, "forgetful", 2) == [4, 4]


def test_a_fit_that_is_killed_stays_charged(path):
    assert fits_of_processes_at_once(path, "killed", 1) == [-signal.SIGKILL]
    assert summed(path) == (1.0, 0.0, 1)
    tree(path).fit(X, Y)
    assert summed(path)[2] == 2


def test_a_charge_that_is_made_afterwards_is_seen_by_the_tests_above(path, monkeypatch):
    """Twin: whoever charges at the end forgets the fit that was killed."""
    monkeypatch.setattr(base.PrivateEstimator, "_reserve", lambda *given, **more: None)
    with pytest.raises(ParameterError, match="there is no ledger"):
        test_a_fit_that_is_interrupted_stays_charged(path, MemoryError, monkeypatch)


# ------------------------------------------------------------------------------------- the file
def test_all_files_are_their_owners_alone(path):
    mask = os.umask(0)
    try:
        tree(path).fit(X, Y)
    finally:
        os.umask(mask)
    files = sorted(path.parent.iterdir())
    assert [one.name.removeprefix(path.name) for one in files] == ["", ".anchor", ".key", ".lock"]
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}


def test_an_older_copy_of_the_file_is_refused(path, tmp_path):
    tree(path).fit(X, Y)
    shutil.copy(path, tmp_path / "old")
    tree(path).fit(X, Y)
    shutil.copy(tmp_path / "old", path)
    with pytest.raises(LedgerRolledBack):
        tree(path).fit(X, Y)


def test_a_file_that_was_removed_is_missed(path):
    tree(path).fit(X, Y)
    path.unlink()
    with pytest.raises(LedgerRolledBack):
        tree(path).fit(X, Y)


def test_a_lost_or_broken_key_is_not_replaced(path):
    tree(path).fit(X, Y)
    key = path.with_name(path.name + ".key")
    secret = key.read_bytes()
    key.unlink()
    with pytest.raises(LedgerBroken, match="bring the key back"):
        tree(path).fit(X, Y)
    key.write_bytes(b"")
    with pytest.raises(LedgerBroken, match="no key"):
        tree(path).fit(X, Y)
    key.write_bytes(secret)
    tree(path).fit(X, Y)


def test_a_changed_entry_is_seen(path):
    for _ in range(2):
        tree(path).fit(X, Y)
    with sqlite3.connect(path) as file:
        file.execute("DROP TRIGGER ledger_keeps_entries")
        file.execute("UPDATE ledger SET body = replace(body, '1/1', '1/9') WHERE seq = 2")
    with pytest.raises(LedgerBroken):
        tree(path).fit(X, Y)


def test_a_users_own_file_or_folder_is_left_alone(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("age,dose\n1,2\n" * 10)
    table.chmod(0o644)
    with pytest.raises(ParameterError, match="is no ledger"):
        tree(table).fit(X, Y)
    with pytest.raises(ParameterError, match="is a folder"):
        tree(tmp_path).fit(X, Y)
    assert stat.S_IMODE(table.stat().st_mode) == 0o644
    assert [one.name for one in tmp_path.iterdir()] == ["rows.csv"]


def test_a_folder_that_is_not_there_is_said(tmp_path, nothing_asked):
    with pytest.raises(LedgerUnavailable, match="directory exists"):
        tree(tmp_path / "none" / "fits.ledger").fit(X, Y)


@pytest.mark.parametrize("strange", [3, "", b"fits", ["fits.ledger"], True])
def test_what_is_no_path_is_refused(strange):
    with pytest.raises(
        ParameterError, match=r"ledger is .*; use a path or a hedgerow\.Ledger, or None"
    ):
        tree(strange).fit(X, Y)


@pytest.mark.parametrize(
    "given",
    [{"epsilon": 0.0}, {"epsilon": math.inf}, {"epsilon": "x"}, {"delta": 0.1},
     {"epsilon": 1.0, "delta": 1.0}, {"epsilon": 1.0, "delta": -0.1}],
)  # fmt: skip
def test_a_limit_that_is_none_is_refused(given):
    with pytest.raises(ParameterError):
        hr.Ledger("fits.ledger", **given)


# ------------------------------------------------------------------------- copies and model files
def test_a_ledger_goes_along_with_copies_of_an_estimator(path):
    model = tree(hr.Ledger(path, epsilon=9.0))
    assert clone(model).ledger == model.ledger
    assert pickle.loads(pickle.dumps(model)).ledger == model.ledger


@pytest.mark.parametrize("dp_model", ["central", "none"])
def test_a_model_file_holds_the_total_and_not_the_place_of_the_ledger(path, tmp_path, dp_model):
    model = tree(path, dp_model=dp_model).fit(X, Y)
    model.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text(encoding="utf-8")
    assert path.name not in text
    again = hr.load(tmp_path / "model.json")
    assert again.ledger is None
    assert again.privacy_ == model.privacy_
    said = json.loads(json.dumps(model.privacy_.to_dict()))
    assert PrivacyStatement.from_dict(said) == model.privacy_


# ------------------------------------------------------------------------------- the command line
def command(*words):
    return CliRunner().invoke(app, ["ledger", *map(str, words)])


def test_the_command_line_shows_and_verifies(path):
    tree(hr.Ledger(path, epsilon=3.0, delta=1e-5), delta=1e-6).fit(X, Y)
    tree(path).fit(X, Y)
    shown = command("show", path).stdout.splitlines()
    assert [line.split()[0] for line in shown[:3]] == ["1", "2", "3"]
    assert shown[0].endswith("limit epsilon = 3, delta = 1e-5, for one record")
    assert shown[1].endswith("HistogramTreeClassifier: epsilon = 1, delta = 1e-6")
    assert shown[-1] == "epsilon = 2, delta = 1e-6 over 2 fits"
    assert hr.Ledger(path).total().head in command("verify", path).stdout


def test_the_command_line_makes_no_ledger(path):
    for word in ("show", "verify"):
        result = command(word, path)
        assert isinstance(result.exception, ParameterError)
        assert "there is no ledger" in str(result.exception)
    assert not path.exists()
    assert not list(Path(path.parent).iterdir())
