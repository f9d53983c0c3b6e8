from __future__ import annotations

import math

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import ParameterError
from hedgerow.schema.schema import Categorical, ColumnKind, Hashed, Numeric, Schema, Spacing, Target
from hedgerow.schema.tokens import token_of
from hedgerow.schema.visible import MOST_LINES, html_table
from support.worlds import TWO, codes_of, encoded, sample

AGE = Numeric("age", 0, 100, bins=10)
JOB = Categorical("job", ("nurse", "clerk"))


# ---- what is refused, and how it is said --------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Numeric("age", 5, 5), "column 'age': low is 5.0 and high is 5.0"),
        (lambda: Numeric("age", 9, 5), "low must be below high"),
        (lambda: Numeric("age", math.nan, 5), "column 'age': low is nan; use a finite number"),
        (lambda: Numeric("age", 0, math.inf), "column 'age': high is inf"),
        (lambda: Numeric("age", "young", 5), "low is 'young'"),
        (lambda: Numeric("age", True, 5), "low is True"),
        (lambda: Numeric("age", 0, 10**400), "high is 1000"),
        (lambda: Numeric("age", 0, 5, bins=300), "column 'age': bins is 300; .* 2 to 255"),
        (lambda: Numeric("age", 0, 5, bins=1), "bins is 1"),
        (lambda: Numeric("age", 0, 5, bins=2.5), "bins is 2.5"),
        (lambda: Numeric("age", 0, 5, spacing="cubic"), "column 'age': spacing is 'cubic'"),
        (lambda: Numeric("age", 0, 5, edges=(3, 2)), "column 'age': edges are"),
        (lambda: Numeric("age", 0, 5, edges=(0, 2)), "above low"),
        (lambda: Numeric("age", 0, 5, edges=(2, 6)), "up to high"),
        (lambda: Numeric("age", 0, 5, edges=()), "1 to 254 rising"),
        (lambda: Numeric("age", 0, 5, edges=7), "edges is 7; give a list"),
        (lambda: Numeric("age", 0, 300, edges=tuple(range(1, 256))), "1 to 254 rising"),
        (lambda: Numeric("", 0, 5), "named ''"),
        (lambda: Numeric(3, 0, 5), "named 3"),
        (lambda: Categorical("job", ("a", "a")), "column 'job': values names 'a' and 'a'"),
        (lambda: Categorical("job", ("1", 2, 1.0)), "values names '1' and 1.0, which no site"),
        (lambda: Categorical("job", (True, "1")), "values names True and '1'"),
        (lambda: Categorical("job", ("a", " a")), "values names 'a' and ' a'"),
        (lambda: Categorical("job", (0.1, np.float32(0.1))), "which no site can tell apart"),
        (lambda: Categorical("job", (10**17,)), "names 100000000000000000, a number .* as text"),
        (lambda: Categorical("job", (1e300,)), "names 1e[+]300, a number of 2.53 or more"),
        (lambda: Categorical("job", ("a", None)), "names None, which is a missing value"),
        (lambda: Categorical("job", ("nan",)), "names 'nan', which is a missing value"),
        (lambda: Categorical("job", ([1],)), "names .1., which is neither a number"),
        (lambda: Categorical("job", tuple(range(255))), "255 values; .* hash them"),
        (lambda: Categorical("job", ()), "column 'job' lists no values; .* or hash them"),
        (lambda: Categorical("job", "nurse"), "values is 'nurse'; give a list"),
        (lambda: Categorical("job", ("\ud800",)), "not valid Unicode"),
        (lambda: Categorical("job", ("a",), other="yes"), "other is 'yes'"),
        (lambda: Hashed("zip", 255), "column 'zip': buckets is 255"),
        (lambda: Target(1, 1), "the target: low is 1.0"),
        (lambda: Schema(()), "no features"),
        (lambda: Schema(AGE), "features is Numeric.*give a list"),
        (lambda: Schema(["age"]), "a feature of the schema is 'age'; use hedgerow.Numeric or"),
        (lambda: Schema((AGE,), target=5), "use hedgerow.Target"),
        (lambda: Schema((AGE, JOB, AGE)), "column 'age' is declared 2 times"),
        (lambda: Schema((AGE,), classes=("a",)), "1 class"),
        (lambda: Schema((AGE,), classes=("a", "a")), "classes names 'a' and 'a'"),
        (lambda: Schema((AGE,), classes=(0, 1, True)), "classes names 1 and True"),
        (lambda: Schema((AGE,), classes=tuple(range(256))), "256 class"),
        (lambda: Schema((AGE,), ("a", "b"), Target(0, 1)), "classes and a target"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, says) -> None:
    with pytest.raises(ParameterError, match=says):
        make()


def test_254_categories_with_other_and_missing_just_fill_one_byte() -> None:
    assert Categorical("job", tuple(range(254))).grid.n_cells == 256


def test_an_unknown_column_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(
        ParameterError, match=r"'wage' is not in the schema; it has \['age', 'job'\]"
    ):
        Schema((AGE, JOB)).index("wage")


# ---- grids --------------------------------------------------------------------------------------


def test_uniform_cells_have_equal_width_and_round_decimals_stay_round() -> None:
    assert Numeric("x", 0, 0.7, bins=7).grid.edges == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def test_log_cells_of_a_positive_range_have_equal_ratio() -> None:
    assert Numeric("x", 1, 1000, bins=3, spacing=Spacing.LOG).grid.edges == (10.0, 100.0)


def test_log_cells_of_a_range_from_zero_span_seven_decades() -> None:
    grid = Numeric("x", 0, 1000, bins=7, spacing=Spacing.LOG).grid
    assert grid.edges == (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


def test_log_cells_around_zero_mirror_each_other() -> None:
    grid = Numeric("x", -1000, 1000, bins=6, spacing=Spacing.LOG).grid
    above = [e for e in grid.edges if e > 0]
    assert grid.n_cells == 6 + 1
    assert grid.edges == (*(-e for e in reversed(above)), 0.0, *above)


def test_log_cells_below_zero_are_fine_near_zero() -> None:
    assert Numeric("x", -1000, -1, bins=3, spacing=Spacing.LOG).grid.edges == (-100.0, -10.0)


@pytest.mark.parametrize(
    ("low", "high", "n_cells"), [(0.0, 1.0, 121), (3.0, 17.5, 121), (-1.7, 2.9, 235)]
)
def test_the_fine_grid_has_121_cells_or_235_around_zero(low, high, n_cells) -> None:
    assert Numeric("x", low, high, spacing=Spacing.FINE).grid.n_cells == n_cells + 1


@pytest.mark.parametrize(
    ("low", "high", "n_cells"), [(0.0, 1.0, 241), (3.0, 17.5, 241), (-1.7, 2.9, 235)]
)
def test_the_finer_grid_holds_all_edges_of_the_fine_one(low, high, n_cells) -> None:
    fine, finer = (Numeric("x", low, high, spacing=s).grid for s in (Spacing.FINE, Spacing.FINER))
    assert finer.n_cells == n_cells + 1
    assert set(fine.edges) <= set(finer.edges)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (3.0, 17.5), (-1.7, 2.9), (-50.0, 2e6)])
def test_the_fine_grid_is_the_union_of_its_ladders(low, high) -> None:
    width, rungs = high - low, 10.0 ** (-np.arange(1, 57) / 8)
    cuts = [low + width * np.arange(1, 64) / 64, low + width * rungs, [high - 1e-6 * width]]
    if low < 0 < high:
        cuts += [high * rungs, low * rungs, [0.0, 1e-9 * high]]
    grid = Numeric("x", low, high, spacing=Spacing.FINE).grid
    expected = np.concatenate(cuts)
    nearest = np.array([min(grid.edges, key=lambda e, c=c: abs(e - c)) for c in expected])
    assert np.allclose(nearest, expected, rtol=1e-9, atol=1e-12 * width)
    assert len(grid.edges) <= len(expected)


@pytest.mark.parametrize("spike", [-3.0, 0.0, 8.0])
def test_low_zero_and_high_have_a_fine_cell_of_their_own(spike) -> None:
    fine = Numeric("x", -3, 8, spacing=Spacing.FINE)
    code, before, after = codes_of(fine, [spike, spike - 1e-4, spike + 1e-4])
    assert code != before or spike == -3.0
    assert code != after or spike == 8.0


def test_a_wide_range_overflows_nothing() -> None:
    for spacing in Spacing:
        grid = Numeric("x", -1.7e308, 1.7e308, spacing=spacing).grid
        assert all(math.isfinite(edge) for edge in grid.edges)


def test_missing_is_the_last_cell_of_every_kind() -> None:
    schema = Schema((AGE, JOB, Categorical("sex", ("f", "m"), other=False), Hashed("zip", 8)))
    assert [grid.missing for grid in schema.grids] == [10, 3, 2, 8]
    assert codes_of(AGE, [math.nan]) == [10]
    assert [grid.category_code(None) for grid in schema.grids[1:]] == [3, 2, 8]


def test_unknown_text_is_other_or_missing_and_counted() -> None:
    read = encoded(JOB, ["nurse", "pilot", None, "clerk", "NA"])
    assert (read.codes[0].tolist(), read.unknown) == ([0, 2, 3, 1, 3], {JOB.name: 1})
    strict = Categorical("job", ("nurse", "clerk"), other=False)
    assert codes_of(strict, ["pilot"]) == [2]


def test_a_listed_value_wins_over_its_meaning_as_missing() -> None:
    assert Categorical("country", ("NA", "DE")).grid.category_code("NA") == 0


def test_spaces_and_the_point_zero_of_a_float_are_forgiven() -> None:
    grade = Categorical("grade", (1, 2, "2.0 litre"))
    assert codes_of(grade, ["1", "1.0", " 2 ", "2.0 litre"]) == [0, 0, 1, 2]


def test_codes_of_many_digits_are_told_apart_as_text_and_unknown_as_numbers() -> None:
    listed = Categorical("snomed", ("100000000000000001", "100000000000000002"))
    written = ["100000000000000001", "100000000000000002", b"100000000000000002"]
    assert codes_of(listed, written) == [0, 1, 1]
    assert codes_of(listed, [10**17 + 1, float(10**17 + 1)]) == [2, 2]
    assert codes_of(Hashed("snomed", 8), [10**17]) == [8]


def test_texts_are_listed_as_written_and_numbers_as_their_tokens() -> None:
    listed = (True, "false", 2.0, "3.0", np.int8(4), b"a", " b ", np.float32(0.1), "01", "2.50")
    expected = ("True", "false", "2", "3.0", "4", "a", " b ", "0.1", "01", "2.50")
    assert Categorical("x", listed).values == expected
    assert Categorical("x", expected).values == expected


def test_buckets_are_public_and_stable() -> None:
    zips = Hashed("zip", 16)
    codes = codes_of(zips, ["8001", "8001.0", 8001, 8001.0, "8002", ""])
    assert len(set(codes[:4])) == 1
    assert codes[5] == 16
    assert len(set(codes_of(zips, range(500)))) == 16


# ---- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0b0000000011, "age < 20"),
        (0b11111111100, "age >= 20 or missing"),
        (0b1111111100, "age >= 20"),
        (0b10000000011, "age < 20 or missing"),
        (0b0000001100, "20 <= age < 40"),
        (0b1000000011, "age < 20 or age >= 90"),
        (0b10000000000, "age is missing"),
        (0b01111111111, "age is known"),
        (0b11111111111, "any age"),
        (0, "no age"),
    ],
)
def test_cells_of_numbers_in_words(bits, words) -> None:
    assert AGE.grid.describe(bits) == words


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0b00001, "job = a"),
        (0b00011, "job in {a, b}"),
        (0b10001, "job = a or missing"),
        (0b01000, "job = any other value"),
        (0b11110, "not job = a"),
        (0b11100, "not job in {a, b}"),
        (0b01110, "not (job = a or missing)"),
        (0b10111, "job in {a, b, c} or missing"),
        (0b00111, "job in {a, b, c}"),
        (0b01111, "job is known"),
        (0b10000, "job is missing"),
        (0b11111, "any job"),
    ],
)
def test_cells_of_categories_in_words(bits, words) -> None:
    assert Categorical("job", ("a", "b", "c")).grid.describe(bits) == words


def test_an_edge_is_written_out_when_six_digits_would_lie() -> None:
    assert Numeric("x", 0, 1, edges=(1 / 3,)).grid.describe(1) == "x < 0.3333333333333333"


def test_words_for_cells_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"'age'.*beyond the 11"):
        AGE.grid.describe(1 << 11)


@pytest.mark.parametrize("codes", [[], range(11), [11], [-1]])
def test_a_split_with_an_empty_or_unknown_side_is_refused(codes) -> None:
    with pytest.raises(ParameterError, match="column 'age'"):
        AGE.grid.split_values(codes)


def test_a_cut_sends_lower_cells_left_and_missing_right() -> None:
    assert AGE.grid.split_values(range(3)).left == 0b111
    assert AGE.grid.split_values(range(10)).left == 0b1111111111


# ---- the schema ---------------------------------------------------------------------------------


def test_lists_and_numbers_are_taken_as_tuples_of_text() -> None:
    schema = Schema([AGE], classes=[0, 1])
    assert schema.features == (AGE,)
    assert schema.classes == ("0", "1")
    assert schema.class_code(token_of("1.0")) == schema.class_code(token_of(True)) == 1
    assert schema.class_code(token_of("2")) is None
    assert schema.class_code(None) is None


def test_regridding_touches_numeric_columns_only() -> None:
    schema = Schema((Numeric("age", 0, 100, edges=(18,)), JOB), classes=("a", "b"))
    again = schema.with_grid(bins=np.int64(4), spacing=Spacing.LOG)
    assert again.grids[0].n_cells == 5
    assert again.features[0] == Numeric("age", 0, 100, 4, Spacing.LOG)
    assert again.features[1] is JOB
    assert schema.with_grid() is schema


def test_the_digest_covers_ranges_and_classes() -> None:
    base = Schema((AGE,), classes=("a", "b"))
    others = [
        Schema((Numeric("age", 0, 101, bins=10),), classes=("a", "b")),
        Schema((AGE,), classes=("b", "a")),
        Schema((AGE,), target=Target(0, 1)),
        Schema((AGE,)),
    ]
    assert len({schema.digest for schema in (base, *others)}) == 5
    assert base.digest == Schema((Numeric("age", -0.0, 100.0, 10),), ("a", "b")).digest


def test_kinds_are_told_apart() -> None:
    kinds = [grid.kind for grid in Schema((AGE, JOB, Hashed("zip"))).grids]
    assert kinds == [ColumnKind.NUMERIC, ColumnKind.CATEGORICAL, ColumnKind.HASHED]


def test_a_schema_is_told_in_one_line():
    one = (Numeric("age", 0, 100),)
    assert repr(Schema(one)) == "Schema(1 feature: 'age')"
    assert repr(Schema(one, target=Target(0, 5))) == "Schema(1 feature: 'age'; target: 0.0 to 5.0)"
    many = Schema(one, classes=("a", "b", "c", "d", "e"))
    assert repr(many) == "Schema(1 feature: 'age'; classes: 'a', 'b', 'c' and 2 more)"


@pytest.mark.parametrize(
    ("listed", "labels"),
    [
        ((1, 0), (0, 1)),
        ((10, 9), (9, 10)),
        ((True, False), (False, True)),
        (("10", "9"), ("10", "9")),
        ((2.0, 1), (1, 2)),
        ((0.5, 1), ("0.5", "1")),
    ],
)
def test_labels_have_the_type_in_which_classes_were_listed_also_from_a_file(listed, labels):
    schema = Schema((AGE,), classes=iter(listed))
    for same in (schema, Schema.from_toml(schema.to_toml()), Schema.from_dict(schema.to_dict())):
        found = same.with_sorted_classes().labels
        assert found == labels
        assert [type(one) for one in found] == [type(one) for one in labels]
        assert same.digest == Schema((AGE,), classes=[str(one) for one in schema.classes]).digest


# --------------------------------------------------------------------------------------------------
# In a notebook: tables of released numbers, every text escaped, long ones counted.
X, Y = sample(300, TWO)


@pytest.fixture(scope="module")
def model():
    return hr.HistogramTreeClassifier(TWO, epsilon=5.0, max_depth=2).fit(X, Y)


def test_results_of_a_fit_are_tables_in_a_notebook(model):
    evaluated = hr.evaluate(model, X, Y, epsilon=5.0)
    for shown in (model.privacy_, model.run_, model.ledger_, model.data_report_, evaluated):
        html = shown._repr_html_()
        assert html.startswith("<details")
        assert html.count("<tr>") > 0
        assert "\n" not in repr(shown) or shown is model.data_report_


def test_texts_are_escaped_and_long_tables_count_the_rest():
    html = html_table("<b>", [("<script>", "x")] * (MOST_LINES + 3))
    assert "<script>" not in html
    assert "... 3 more" in html


# ---- manners of scikit-learn ---------------------------------------------------------------------


def test_weights_of_classes_are_refused_with_a_reason():
    with pytest.raises(ParameterError, match=r"influence beyond the bound.*multiply predict_proba"):
        hr.TreeClassifier(TWO, class_weight="balanced")
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        hr.TreeClassifier(TWO, clas_weight=None)


def test_log_probabilities_are_those_of_the_probabilities(model):
    logs = model.predict_log_proba(X)
    assert np.exp(logs) == pytest.approx(model.predict_proba(X))
