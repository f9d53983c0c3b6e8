from __future__ import annotations

import hmac
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from hedgerow.data import rows as rows_module
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.errors import ParameterError
from hedgerow.schema.regions import EVERYONE, Fold, Region, Split, Step
from hedgerow.schema.schema import Categorical, Numeric, Schema, Target

SCHEMA = Schema(
    (Numeric("age", 0, 10, bins=5), Categorical("job", ("a", "b")), Numeric("pay", 0, 1, bins=4)),
    classes=("no", "yes"),
)
SECRET = bytes(range(32))
DRAWS = Draws(SECRET, "study")
FOLD = Fold("trees", 1000)


def encoded_rows(n: int, seed: int = 0, ids: np.ndarray | None = None) -> Encoded:
    rng = np.random.default_rng(seed)
    codes = np.array([rng.integers(0, grid.n_cells, n) for grid in SCHEMA.grids], np.uint8)
    y = rng.integers(0, 2, n).astype(np.uint8)
    return Encoded(codes=codes, y=y, persons=ids, clamped={}, unknown={}, skipped=0)


def some_rows(n: int = 200, seed: int = 0) -> Rows:
    return Rows(encoded_rows(n, seed), SCHEMA, DRAWS)


# ---- regions ------------------------------------------------------------------------------------


@st.composite
def regions(draw: st.DrawFn) -> Region:
    def step() -> Step:
        if draw(st.booleans()):
            n = draw(st.integers(1, 5))
            return Step(Fold(draw(st.sampled_from("pq")), n), draw(st.integers(0, n - 1)))
        grid = draw(st.sampled_from(SCHEMA.grids))
        codes = st.sets(st.integers(0, grid.missing), min_size=1, max_size=grid.missing)
        return Step(grid.split_values(draw(codes)), draw(st.integers(0, 1)))

    return tuple(step() for _ in range(draw(st.integers(0, 4))))


def plainly_selected(rows: Rows, region: Region) -> list[int]:
    def fits(row: int, step: Step) -> bool:
        if isinstance(step.test, Fold):
            return bool(rows.fold(step.test)[row] == step.outcome)
        code = int(rows.codes[SCHEMA.index(step.test.feature), row])
        return (step.test.left >> code & 1) != step.outcome

    return [row for row in range(rows.n) if all(fits(row, step) for step in region)]


@pytest.mark.property
@settings(deadline=None)
@given(st.lists(regions(), min_size=1, max_size=6), st.integers(0, 30))
def test_a_region_selects_exactly_the_rows_that_pass_its_tests(asked, n) -> None:
    rows = some_rows(n)
    for region in asked:
        selected = rows.select(region)
        assert selected.tolist() == plainly_selected(rows, region)
        assert selected.dtype == np.int32


def all_leaves(depth: int) -> list[Region]:
    leaves: list[Region] = [EVERYONE]
    for level in range(depth):
        test = SCHEMA.grids[level % 3].split_values(range(1 + level // 3))
        leaves = [(*leaf, Step(test, outcome)) for leaf in leaves for outcome in (0, 1)]
    return leaves


@pytest.mark.parametrize(("rows_kept", "regions_kept"), [(0, 4096), (1, 4096), (2, 3), (2, 0)])
def test_a_small_cache_changes_no_selection(rows_kept, regions_kept, monkeypatch) -> None:
    expected = [some_rows().select(leaf).tolist() for leaf in all_leaves(5)]
    monkeypatch.setattr(rows_module, "CACHED_ROWS", rows_kept)
    monkeypatch.setattr(rows_module, "CACHED_AT_LEAST", 0)
    monkeypatch.setattr(rows_module, "CACHED_REGIONS", regions_kept)
    rows = some_rows()
    for _ in range(2):
        assert [rows.select(leaf).tolist() for leaf in all_leaves(5)] == expected


@pytest.mark.parametrize(("least", "most"), [(0, 400), (450, 450), (1 << 20, 1 << 20)])
def test_the_cache_never_outgrows_its_limit(least, most, monkeypatch) -> None:
    """Twice the rows, or what a small site may keep in any case."""
    monkeypatch.setattr(rows_module, "CACHED_AT_LEAST", least)
    rows = some_rows()
    assert rows.n == 200
    asked = [leaf for depth in range(1, 7) for leaf in all_leaves(depth)]
    for i in np.random.default_rng(0).integers(0, len(asked), 300):
        rows.select(asked[i])
        assert sum(map(len, rows._cached_rows.values())) == rows._n_cached <= most


def test_in_prefix_order_each_test_is_looked_up_once(monkeypatch) -> None:
    rows, looked_up = some_rows(), []
    split = rows._split_rows
    monkeypatch.setattr(rows, "_split_rows", lambda r, t: looked_up.append(t) or split(r, t))
    for leaf in all_leaves(6):
        rows.select(leaf)
    assert len(looked_up) == 2**6 - 1


def test_leaves_of_a_tree_part_the_rows() -> None:
    found = np.concatenate([some_rows().select(leaf) for leaf in all_leaves(6)])
    assert sorted(found.tolist()) == list(range(200))


def test_a_test_on_another_grid_is_refused() -> None:
    other = SCHEMA.with_grid(bins=7).grids[0].split_values(range(2))
    with pytest.raises(ParameterError, match=r"'age' was made on grid .* these rows are on grid"):
        some_rows().select((Step(other, 0),))


def test_a_test_on_cells_beyond_the_grid_or_on_no_column_is_refused() -> None:
    digest = SCHEMA.grids[0].digest
    with pytest.raises(ParameterError, match="'age'"):
        some_rows().select((Step(Split("age", digest, 1 << 300), 0),))
    with pytest.raises(ParameterError, match="'wage' is not in the schema"):
        some_rows().select((Step(Split("wage", digest, 1), 0),))


# ---- secret draws -------------------------------------------------------------------------------


def by_record(rows: Rows, values: np.ndarray) -> Counter[tuple[bytes, int]]:
    """Every record's content with its value, without the order of rows."""
    contents = np.vstack([rows.codes, rows.labels]).T
    return Counter(zip((row.tobytes() for row in contents), values.tolist(), strict=True))


def without(encoded: Encoded, row: int) -> Encoded:
    return replace(encoded, codes=np.delete(encoded.codes, row, 1), y=np.delete(encoded.y, row))


@pytest.mark.property
@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 10**6), st.data())
def test_one_record_more_changes_no_other_records_fold_or_draw(n, seed, data) -> None:
    # Few distinct rows, so that many are copies of each other.
    big = encoded_rows(n, seed)
    big = replace(big, codes=big.codes % 2)
    small = without(big, data.draw(st.integers(0, n - 1)))
    more, fewer = Rows(big, SCHEMA, DRAWS), Rows(small, SCHEMA, DRAWS)
    for asked in (lambda rows: rows.fold(FOLD), lambda rows: rows.draw("labels")):
        before, after = by_record(fewer, asked(fewer)), by_record(more, asked(more))
        assert before <= after
        assert (after - before).total() == 1


def test_folds_by_row_number_would_be_seen_to_move_other_records() -> None:
    def numbered(encoded: Encoded) -> Rows:
        ids = np.stack([np.arange(encoded.n), np.zeros(encoded.n)], axis=1).astype(np.uint64)
        return Rows(replace(encoded, persons=ids), SCHEMA, DRAWS)

    more, fewer = numbered(encoded_rows(40)), numbered(without(encoded_rows(40), 0))
    assert not by_record(fewer, fewer.fold(FOLD)) <= by_record(more, more.fold(FOLD))


def test_copies_of_a_record_have_draws_of_their_own() -> None:
    encoded = encoded_rows(50)
    same = replace(encoded, codes=np.zeros_like(encoded.codes), y=np.zeros_like(encoded.y))
    assert len(set(Rows(same, SCHEMA, DRAWS).draw("d").tolist())) == 50


def test_the_order_of_rows_changes_no_draw() -> None:
    encoded = encoded_rows(300)
    order = np.random.default_rng(1).permutation(300)
    turned = replace(encoded, codes=encoded.codes[:, order], y=encoded.y[order])
    here, there = Rows(encoded, SCHEMA, DRAWS), Rows(turned, SCHEMA, DRAWS)
    assert by_record(here, here.draw("d")) == by_record(there, there.draw("d"))


def test_a_restart_repeats_every_draw() -> None:
    again = Rows(encoded_rows(100), SCHEMA, Draws(SECRET, "study"))
    assert some_rows(100).draw("trees").tolist() == again.draw("trees").tolist()


@pytest.mark.parametrize(
    ("draws", "name"),
    [
        (Draws(bytes(32), "study"), "trees"),
        (Draws(SECRET, "study 2"), "trees"),
        (DRAWS, "trees 2"),
        (Draws(SECRET, "stud"), "ytrees"),
    ],
)
def test_another_secret_study_or_name_is_another_draw(draws, name) -> None:
    here = some_rows(100).draw("trees")
    there = Rows(encoded_rows(100), SCHEMA, draws).draw(name)
    assert not set(here.tolist()) & set(there.tolist())


def test_a_draw_is_the_stated_function_of_secret_study_name_and_id() -> None:
    ids = np.array([[7, 11]], "<u8")
    parts = [b"draw", b"study", b"trees"]
    message = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    key = hmac.new(SECRET, message, "sha256").digest()
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(ids.tobytes())
    assert DRAWS.words("draw", "trees", ids).tolist() == [int.from_bytes(block[:8], "little")]


def test_rows_with_one_id_share_their_fold_but_no_draw() -> None:
    frame = pd.DataFrame({"age": range(8), "job": "a", "pay": 0.5, "who": list("xyxyxxyy")})
    rows = Rows(encode(frame, SCHEMA, person="who"), SCHEMA, DRAWS)
    folds = rows.fold(Fold("trees", 1000))
    assert len(set(zip(frame["who"], folds.tolist(), strict=True))) == 2
    assert len(set(folds.tolist())) == 2
    assert len(set(rows.draw("labels").tolist())) == 8


def test_equal_rows_of_two_people_fall_apart() -> None:
    frame = pd.DataFrame({"age": 1, "job": "a", "pay": 0.5, "who": range(30)})
    rows = Rows(encode(frame, SCHEMA, person="who"), SCHEMA, DRAWS)
    assert len(set(rows.fold(Fold("trees", 10**6)).tolist())) == 30


def test_a_record_of_one_person_more_changes_no_draw_of_another_with_equal_rows() -> None:
    frame = pd.DataFrame({"age": 1, "job": "a", "pay": 0.5, "who": ["x", "y", "y", "z"]})
    more = Rows(encode(frame, SCHEMA, person="who"), SCHEMA, DRAWS).draw("labels").tolist()
    fewer = Rows(encode(frame[1:], SCHEMA, person="who"), SCHEMA, DRAWS).draw("labels").tolist()
    assert more[1:] == fewer


def test_ids_follow_their_rows_when_others_are_skipped() -> None:
    frame = pd.DataFrame({"age": 1, "job": "a", "pay": 0.5, "who": range(3), "y": "no"})
    whole = encode(frame, SCHEMA, target="y", person="who")
    holed = encode(frame.assign(y=["no", None, "no"]), SCHEMA, target="y", person="who")
    assert whole.persons is not None
    assert holed.persons is not None
    assert holed.persons.tolist() == whole.persons[[0, 2]].tolist()


def test_folds_are_of_about_equal_size() -> None:
    # Binomial(20000, 1/10) leaves 2000 +- 300 (7 standard deviations) with probability 4e-12.
    sizes = np.bincount(some_rows(20_000).fold(Fold("trees", 10)), minlength=10)
    assert np.all(np.abs(sizes - 2000) < 300)


def test_folds_without_the_sites_secret_are_refused() -> None:
    with pytest.raises(ParameterError, match="needs the site's secret"):
        Rows(encoded_rows(5), SCHEMA).select((Step(Fold("trees", 2), 0),))


def test_a_short_secret_is_refused_and_no_secret_is_ever_printed() -> None:
    with pytest.raises(ParameterError, match="15 bytes"):
        Draws(bytes(15), "study")
    assert repr(SECRET) not in repr(DRAWS)
    assert "secret" not in repr(DRAWS)


def test_a_site_without_rows_draws_nothing() -> None:
    empty = some_rows(0)
    assert empty.select((Step(Fold("trees", 3), 2),)).size == 0
    assert empty.draw("d").size == 0


# ---- labels and targets -------------------------------------------------------------------------


def target_rows(target: list[float]) -> Rows:
    schema = Schema((Numeric("x", 0, 1),), target=Target(-2, 2))
    return Rows(encode(np.zeros((len(target), 1)), schema, y=target), schema)


def test_targets_fall_in_cells_like_any_number() -> None:
    rows = target_rows([-2.0, -1.0, -0.5, 0.0, 2.0, 7.0])
    codes = rows.target_codes((-1.0, 0.0, 2.0))
    assert codes.tolist() == [0, 1, 1, 2, 3, 3]
    assert codes.dtype == np.uint8


@pytest.mark.parametrize(("n_edges", "dtype"), [(255, np.uint8), (256, np.uint16)])
def test_more_target_cells_than_one_byte_holds_take_two(n_edges, dtype) -> None:
    codes = target_rows([2.0]).target_codes(np.linspace(-1, 1, n_edges))
    assert codes.dtype == dtype
    assert codes.tolist() == [n_edges]


def test_a_target_as_part_of_its_range_lies_between_0_and_1() -> None:
    assert target_rows([-2.0, 0.0, 9.0]).unit_target.tolist() == [0.0, 0.5, 1.0]


def test_rows_have_labels_or_a_target_as_the_schema_says() -> None:
    labeled = some_rows(5)
    assert labeled.labels is not None
    assert labeled.n_classes == 2
    with pytest.raises(ParameterError, match="no target"):
        _ = labeled.target
    assert target_rows([1.0]).labels is None
    with pytest.raises(ParameterError, match="no target"):
        _ = labeled.unit_target


# --------------------------------------------------------------------------------------------------
# The bound on a person's records is kept, and what is kept is no other person's business.
OWNED = Schema((Numeric("age", 0, 8, bins=8), Categorical("ward", ("n", "s"))), classes=("0", "1"))
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
    encoded = encode(frame, OWNED, target="y", person="who")
    return Rows(encoded, OWNED, Draws(secret, "study")).of_each_person(most)


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


# ------------------------------------------------------------------------------------ the guarantee
@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(*WITH_CHOICES)
def test_one_person_less_changes_nothing_of_the_others(table, secret, most, data):
    gone = data.draw(st.sampled_from(sorted({str(who) for who, *_ in table})))
    fewer = [record for record in table if str(record[0]) != gone]
    before = by_person(kept_of(table, secret, most))
    after = by_person(kept_of(fewer, secret, most)) if fewer else {}
    assert after.items() <= before.items()
    assert len(before) - len(after) <= 1


@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(*BOUNDED)
def test_nobody_has_more_records_than_the_bound_and_nobody_loses_more_than_they_must(
    table, secret, most
):
    had = Counter(str(who) for who, _, _, y in table if who is not None and y is not None)
    kept = [records.total() for records in by_person(kept_of(table, secret, most)).values()]
    assert sorted(kept) == sorted(min(most, n) for n in had.values())


@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(*TURNED)
def test_the_order_of_rows_changes_nothing(table, secret, most, random):
    turned = random.sample(table, len(table))
    assert by_person(kept_of(table, secret, most)) == by_person(kept_of(turned, secret, most))


@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(*WITH_CHOICES)
def test_labels_do_not_decide_which_features_are_seen(table, secret, most, data):
    """Under DP model `label` features are not protected: a label that chose them would be told."""
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


# ------------------------------------------------------------------------------------ negative
# controls
def assert_seen(test, drawn) -> None:
    """That some example fails; it need not be made short."""
    once = settings(max_examples=150, deadline=None, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        once(given(*drawn)(test.hypothesis.inner_test))()


def test_keeping_the_first_of_the_file_is_seen(monkeypatch):
    def in_file_order(ids, *keys):
        return PLACES(ids)

    PLACES = rows_module.places_among
    monkeypatch.setattr(rows_module, "places_among", in_file_order)
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

    monkeypatch.setattr(Rows, "_hash_records", numbered)
    assert_seen(test_one_person_less_changes_nothing_of_the_others, WITH_CHOICES)


def test_labels_that_decide_which_records_are_kept_are_seen(monkeypatch):
    monkeypatch.setattr(Rows, "_features_and_person", Rows._content)
    assert_seen(test_labels_do_not_decide_which_features_are_seen, WITH_CHOICES)
