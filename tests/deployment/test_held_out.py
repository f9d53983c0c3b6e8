"""Records that sites keep out of training, and what they tell of the model in the same run."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.deployment.approve import what_leaves
from hedgerow.deployment.run import run_study
from hedgerow.deployment.study_file import StudyFile, as_text
from hedgerow.deployment.verify import verify_model
from hedgerow.errors import ParameterError
from hedgerow.methods.blocks import evaluation
from hedgerow.methods.dry_run import forecast
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.admission import reason_against
from hedgerow.privacy.ledger.events import Charged
from hedgerow.privacy.queries import ClassCounts, SumQuery, Whole
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Step
from support.worlds import ROWS, TWO, World, federation, sample, site_rows, study

ONE_IN = 3
X, Y = sample(ROWS, TWO)
OWNER = np.arange(ROWS) % 3
COUNTS = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1, 2))


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path, hold_out=ONE_IN)
    yield made
    made.close()


@pytest.fixture
def noisy(tmp_path):
    """With so little noise that it stops no tree."""
    made = World(tmp_path, dp_model="distributed", hold_out=ONE_IN, epsilon="80")
    yield made
    made.close()


def in_process(**more):
    model = hr.HistogramTreeClassifier(
        TWO, epsilon=1, delta=1e-6, max_depth=2, dp_model="none", random_state=7, **more
    )
    return model.fit(X, Y, site=OWNER)


def with_test_rows(held: bool = True) -> Study:
    asks = evaluation.asks(TWO) if held else frozenset()
    return replace(study(TWO, 3), hold_out=ONE_IN, asks_held_out=asks)


# ---------------------------------------------------------------------------------- over the sites
def test_the_model_is_that_of_fit_and_the_measures_are_those_of_the_records_left_out(world):
    model = run_study(world.folder, world)
    alone = in_process(hold_out=ONE_IN)
    assert model.model_.to_dict() == alone.model_.to_dict()
    assert model.model_.to_dict() != in_process().model_.to_dict()
    held = [end.rows.sums._tested_on.rows for end in world.clients]
    right = sum(
        int((model.model_.predict(rows.codes).argmax(axis=1) == rows.labels).sum()) for rows in held
    )
    assert model.evaluation_["accuracy"].value == pytest.approx(right / sum(r.n for r in held))
    assert 0 < sum(rows.n for rows in held) < ROWS / 2
    written = json.loads(world.folder.evaluation_file.read_text())
    assert written["models"][0][0]["measures"]["accuracy"][0] == model.evaluation_["accuracy"].value
    assert world.folder.report_file.read_text().startswith("<!doctype html>")


def test_a_record_pays_for_training_or_for_evaluation_and_never_for_both(noisy):
    """Half of the budget for each would be charged if they added up; all of it is, twice."""
    model = run_study(noisy.folder, noisy)
    for site_store in noisy.site_stores:
        charged = [e for _, e in site_store.ledger.entries() if isinstance(e, Charged)]
        first = [{charge.region[:1] for charge in event.charges} for event in charged]
        assert first == [{noisy.study.trained_on}] * (len(charged) - 1) + [{noisy.study.held_out}]
        costs = [max(charge.cost for charge in event.charges) for event in charged]
        assert site_store.ledger.spent(noisy.study.account) <= noisy.study.total < sum(costs)
        site_store.ledger.verify()
    said = model.privacy_
    assert said.held_out[0].part == pytest.approx(0.7)  # all that is not kept for failed rounds
    assert sum(line.part for line in said.spending) <= said.spent_fraction
    assert said.spent_fraction == pytest.approx(0.7)
    assert "of held-out records, which paid for nothing else" in str(said)
    assert "simulated" not in str(said)
    assert said == type(said).from_dict(json.loads(json.dumps(said.to_dict())))
    assert not any(
        c.has_failed for c in verify_model(noisy.folder.model_file, noisy.folder.study_file)
    )


def test_an_evaluation_that_was_interrupted_is_asked_again_at_no_charge(world, monkeypatch):
    class Died(BaseException):
        pass

    real = World.ask
    asked = []

    def dies(self, messages, timeout):
        answers = real(self, messages, timeout)
        asked.append(len(messages))
        if len(asked) == 3 + 3 + 1:  # JOIN, OPEN, BIND, three rounds, and the MASKED of the last
            raise Died
        return answers

    monkeypatch.setattr(World, "ask", dies)
    with pytest.raises(Died):
        run_study(world.folder, world)
    model = run_study(world.folder, world, resume=True)
    assert model.model_.to_dict() == in_process(hold_out=ONE_IN).model_.to_dict()
    assert [len(rounds) for rounds in world.charged()] == [4, 4, 4]


def test_a_person_who_approves_reads_what_is_held_out(noisy):
    said = [" ".join(line) for line in what_leaves(noisy.agreed)]
    assert "held out one record in 3, by a secret random draw" in said
    assert any(line.endswith("predicted probability, of held-out records") for line in said)
    text = as_text(noisy.agreed)
    assert tomllib.loads(text)["evaluation"] == {"hold_out": 3}
    assert "[evaluation]\n# One record in this many is held out of training" in text
    path = noisy.place / "again.toml"
    path.write_text(text)
    assert StudyFile.read(path).study.hash == noisy.study.hash
    without = path.read_text().replace("hold_out = 3", "hold_out = 4")
    path.write_text(without)
    assert StudyFile.read(path).study.hash != noisy.study.hash


def test_a_rehearsal_counts_the_round_of_the_evaluation(noisy, tmp_path):
    seen = forecast(noisy.study, noisy.agreed.method)
    assert noisy.agreed.rounds == noisy.agreed.method.largest(noisy.study.schema).rounds + 1
    assert seen.most_rounds == noisy.agreed.rounds
    assert noisy.study == Study.from_dict(noisy.study.to_dict())


# --------------------------------------------------------------------------------- what is refused
def test_a_site_admits_of_each_part_what_the_study_says_of_that_part():
    held = with_test_rows()
    trained = held.as_asked(COUNTS)
    assert trained.region == held.trained_on
    assert reason_against(held, [trained]) is None
    assert "does not say" in str(reason_against(held, [COUNTS]))
    assert "of records held out" in str(
        reason_against(held, [replace(COUNTS, region=held.held_out)])
    )
    narrower = Step(HeldOut(ONE_IN + 1), 0)
    assert "does not say" in str(reason_against(held, [replace(COUNTS, region=(narrower,))]))
    twice = held.trained_on + held.held_out
    assert "names the draw" in str(reason_against(held, [replace(COUNTS, region=twice)]))
    assert "names the draw" in str(
        reason_against(study(TWO, 3), [replace(COUNTS, region=held.held_out)])
    )
    folded = (*held.trained_on, Step(Fold("trees", 2), 1))
    assert reason_against(held, [replace(COUNTS, region=folded)]) is None


def test_an_evaluation_asks_no_record_that_is_trained_on():
    """A coordinator that asks the questions of the evaluation of the others is refused."""
    held = with_test_rows()
    model = in_process().model_
    (query,) = next(evaluation.flow([model], TWO, None, held.held_out))
    assert reason_against(held, [query]) is None
    only = replace(held, asks=frozenset())
    assert "never asks" in str(reason_against(only, [replace(query, region=held.trained_on)]))


def test_without_its_part_a_query_would_count_everybody():
    """Twin: the same sum of both parts is that of all records."""
    held = replace(with_test_rows(), dp_model=DPModel.NONE, asks_held_out=study(TWO, 3).asks)
    whole = replace(held, hold_out=0, asks_held_out=frozenset())
    parts = site_rows(X, Y, OWNER, 3, TWO)
    asked = [COUNTS, replace(COUNTS, region=held.held_out)]
    trained, tested = (reply.values for reply in federation(held, parts).ask(asked))
    (everybody,) = federation(whole, parts).ask([COUNTS])
    assert (trained + tested == everybody.values).all()
    assert min(trained.sum(), tested.sum()) > 0


@pytest.mark.parametrize(("change", "said"), [
    ({"hold_out": 1}, "use 0 .no record is held out. or 2 to"),
    ({"hold_out": 0}, "hold_out is 0; say one in how many"),
    ({"hold_out": True}, "hold_out is True"),
])  # fmt: skip
def test_numbers_that_hold_out_nothing_are_refused(change, said):
    with pytest.raises(ParameterError, match=said):
        replace(with_test_rows(), **change)


def test_labels_that_are_told_at_random_are_not_evaluated(tmp_path):
    with pytest.raises(ParameterError, match="cannot be asked under dp_model 'label'"):
        World(tmp_path, dp_model="label", hold_out=5)


def test_a_database_that_makes_the_sums_cannot_hold_out(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    frame = pd.DataFrame(X, columns=list(TWO.names)).assign(target=Y)
    connection = duckdb.connect()
    connection.register("wards", frame)
    model = hr.HistogramTreeClassifier(TWO, max_depth=1, hold_out=3)
    with pytest.raises(ParameterError, match="held out are chosen by secret draws"):
        model.fit(connection, sql="SELECT * FROM wards", target="target", push_down=True)
