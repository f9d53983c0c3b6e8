"""The bound on a person's records is kept, and what is kept is no other person's business.

Every person's records are read and drawn from with and without some other person in the table;
what becomes of the others must be the same, record by record.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from hedgerow.data import rows as rows_module
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.schema.regions import Fold
from hedgerow.schema.schema import Categorical, Numeric, Schema

SCHEMA = Schema((Numeric("age", 0, 8, bins=8), Categorical("ward", ("n", "s"))), classes=("0", "1"))
ERROR_RATE = 1e-6

RECORDS = st.tuples(
    st.sampled_from(["x", "y", "z", "1", 2, None]),  # few persons, so that each has many records
    st.integers(0, 2),
    st.sampled_from(["n", "s", "elsewhere"]),
    st.sampled_from(["0", "1", None]),
)
TABLES = st.lists(RECORDS, min_size=1, max_size=25)
SECRETS = st.binary(min_size=16, max_size=16)
BOUNDED = (TABLES, SECRETS, st.integers(1, 4))
WITH_CHOICES = (*BOUNDED, st.data())
TURNED = (*BOUNDED, st.randoms(use_true_random=False))


def kept_of(table, secret, most) -> Rows:
    frame = pd.DataFrame(table, columns=["who", "age", "ward", "y"]).astype(object)
    encoded = encode(frame, SCHEMA, target="y", person="who")
    return Rows(encoded, SCHEMA, Draws(secret, "study")).of_each_person(most)


def by_person(kept: Rows) -> dict[tuple, Counter]:
    """Each person's kept records, with their folds and their draws."""
    found: dict[tuple, Counter] = {}
    facts = zip(
        kept._persons.tolist(),
        kept.codes.T.tolist(),
        kept.labels.tolist(),
        kept.fold(Fold("trees", 1000)).tolist(),
        kept.draw("label").tolist(),
        strict=True,
    )
    for who, codes, label, fold, word in facts:
        found.setdefault(tuple(who), Counter())[(*codes, label, fold, word)] += 1
    return found


# ------------------------------------------------------------------------------------ the promise
@settings(max_examples=150, deadline=None)
@given(*WITH_CHOICES)
def test_one_person_less_changes_nothing_of_the_others(table, secret, most, data):
    gone = data.draw(st.sampled_from(sorted({str(who) for who, *_ in table})))
    fewer = [record for record in table if str(record[0]) != gone]
    before = by_person(kept_of(table, secret, most))
    after = by_person(kept_of(fewer, secret, most)) if fewer else {}
    assert after.items() <= before.items()
    assert len(before) - len(after) <= 1


@settings(max_examples=100, deadline=None)
@given(*BOUNDED)
def test_nobody_has_more_records_than_the_bound_and_nobody_loses_more_than_they_must(
    table, secret, most
):
    had = Counter(str(who) for who, _, _, y in table if who is not None and y is not None)
    kept = [records.total() for records in by_person(kept_of(table, secret, most)).values()]
    assert sorted(kept) == sorted(min(most, n) for n in had.values())


@settings(max_examples=100, deadline=None)
@given(*TURNED)
def test_the_order_of_rows_changes_nothing(table, secret, most, random):
    turned = random.sample(table, len(table))
    assert by_person(kept_of(table, secret, most)) == by_person(kept_of(turned, secret, most))


@settings(max_examples=100, deadline=None)
@given(*WITH_CHOICES)
def test_labels_do_not_decide_which_features_are_seen(table, secret, most, data):
    """Under placement `label` features are not protected: a label that chose them would be told."""
    table = [record for record in table if record[3] is not None]
    labels = data.draw(st.lists(st.sampled_from("01"), min_size=len(table), max_size=len(table)))
    other = [(*record[:3], label) for record, label in zip(table, labels, strict=True)]
    if table:
        one, two = (kept_of(t, secret, most).codes.T.tolist() for t in (table, other))
        assert sorted(one) == sorted(two)


# ------------------------------------------------------------------------------------ the draw
PEOPLE, EACH, MOST = 6_000, 4, 2


def crowd(features_differ: bool) -> list[tuple]:
    """Persons of four records that differ, in a feature or in the label only two by two."""
    return [
        (who, k if features_differ else 0, "n", "01"[k % 2])
        for who in range(PEOPLE)
        for k in range(EACH)
    ]


def p_value_of_pairs() -> float:
    """Of the hypothesis that each pair of a person's four records is kept equally often."""
    kept = kept_of(crowd(features_differ=True), bytes(16), MOST)
    ages = kept.codes[0].reshape(PEOPLE, MOST)  # the order of the file is the order of ages
    pairs = Counter(map(tuple, ages.tolist()))
    codes = np.unique(kept_of(crowd(features_differ=True), bytes(16), EACH).codes[0]).tolist()
    return chisquare([pairs[pair] for pair in combinations(codes, MOST)]).pvalue


def p_value_of_labels() -> float:
    """Of four records of equal features, two with each label: 0, 1 or 2 of a label 1:4:1."""
    kept = kept_of(crowd(features_differ=False), bytes(16), MOST)
    ones = Counter(kept.labels.reshape(PEOPLE, MOST).sum(axis=1).tolist())
    expected = [PEOPLE / 6, PEOPLE * 4 / 6, PEOPLE / 6]
    return chisquare([ones[k] for k in range(3)], expected).pvalue


def test_every_subset_of_a_persons_records_is_kept_equally_often():
    assert p_value_of_pairs() > ERROR_RATE
    assert p_value_of_labels() > ERROR_RATE


# ------------------------------------------------------------------------------------ twins
def assert_seen(test, drawn) -> None:
    """That some example fails; it need not be made short."""
    once = settings(max_examples=150, deadline=None, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        once(given(*drawn)(test.hypothesis.inner_test))()


def test_keeping_the_first_of_the_file_is_seen(monkeypatch):
    def in_file_order(ids, *keys):
        return PLACES(ids)

    PLACES = rows_module._places
    monkeypatch.setattr(rows_module, "_places", in_file_order)
    assert p_value_of_pairs() < ERROR_RATE
    assert_seen(test_the_order_of_rows_changes_nothing, TURNED)


def test_a_bound_that_is_not_kept_is_seen(monkeypatch):
    monkeypatch.setattr(Rows, "of_each_person", lambda self, most: self)
    test = test_nobody_has_more_records_than_the_bound_and_nobody_loses_more_than_they_must
    assert_seen(test, BOUNDED)


def test_a_draw_by_the_number_of_the_row_is_seen(monkeypatch):
    """One person less moves all later rows up."""

    def numbered(self, content, purpose):
        return np.stack([np.arange(self.n), np.zeros(self.n)], axis=1).astype(np.uint64)

    monkeypatch.setattr(Rows, "_hashed", numbered)
    assert_seen(test_one_person_less_changes_nothing_of_the_others, WITH_CHOICES)


def test_labels_that_decide_which_records_are_kept_are_seen(monkeypatch):
    monkeypatch.setattr(Rows, "_features_and_person", Rows._content)
    assert_seen(test_labels_do_not_decide_which_features_are_seen, WITH_CHOICES)
