"""A grid gives every value there is exactly one code, and says in words which."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hedgerow.errors import ParameterError
from hedgerow.schema.grids import MISSING_TEXTS, ColumnKind, Grid
from hedgerow.schema.regions import cells
from hedgerow.schema.schema import Categorical, Feature, Hashed, Numeric, Schema, Spacing, Target
from hedgerow.schema.tokens import token_of
from hedgerow.schema.visible import has_hidden
from support.worlds import codes_of, encoded

pytestmark = pytest.mark.property

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VISIBLE = st.characters(exclude_categories=["Cs"]).filter(lambda message: not has_hidden(message))
NAMES = st.text(VISIBLE, min_size=1, max_size=8)
TEXTS = st.text(VISIBLE, max_size=8)


def listed(least: int, most: int) -> st.SearchStrategy[tuple[str, ...]]:
    """Texts that one schema may list: usable ones, no two of one token."""
    usable = TEXTS.filter(lambda text: isinstance(token_of(text), str))
    return st.lists(usable, min_size=least, max_size=most, unique_by=token_of).map(tuple)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[float, float]:
    low, high = sorted((draw(FINITE), draw(FINITE)))
    return (low, high) if low < high else (low, math.nextafter(low, math.inf))


@st.composite
def numerics(draw: st.DrawFn, name: str = "age") -> Numeric:
    low, high = draw(ranges().filter(lambda ends: math.isfinite(ends[1])))
    bins, spacing = draw(st.integers(2, 255)), draw(st.sampled_from(Spacing))
    inside = st.floats(low, high, exclude_min=True)
    edges = draw(st.none() | st.lists(inside, min_size=1, max_size=20, unique=True))
    try:
        return Numeric(name, low, high, bins, spacing, edges and tuple(sorted(edges)))
    except ParameterError:  # the range is a float or two wide and has no room for a cut
        assume(high <= math.nextafter(math.nextafter(low, math.inf), math.inf))
        return Numeric(name, 0.0, 1.0, bins, spacing)


def categoricals(name: str = "job") -> st.SearchStrategy[Categorical]:
    return st.builds(Categorical, st.just(name), listed(1, 6), st.booleans())


FEATURES: st.SearchStrategy[Feature] = st.one_of(
    numerics(), categoricals(), st.builds(Hashed, st.just("zip"), st.integers(2, 254))
)


def plain_cell(grid: Grid, value: float) -> int:
    """The definition: clamp, then count the edges at or below."""
    if math.isnan(value):
        return grid.n_cells - 1
    clamped = min(max(value, grid.low), grid.high)
    return sum(edge <= clamped for edge in grid.edges)


@settings(deadline=None)
@given(numerics(), st.lists(ANY_FLOAT, min_size=1, max_size=30))
@example(Numeric("x", -1, 1), [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, -5e-324])
def test_every_float_has_the_code_of_the_plain_definition(
    feature: Numeric, values: list[float]
) -> None:
    grid = feature.grid
    read = encoded(feature, values)
    assert read.codes[0].tolist() == [plain_cell(grid, value) for value in values]
    clamped = sum(value < grid.low or value > grid.high for value in values)
    assert sum(read.clamped.values()) == clamped


@settings(deadline=None)
@given(numerics(), st.lists(ANY_FLOAT.filter(lambda x: x == x), min_size=2, max_size=30))
def test_codes_of_numbers_never_fall_as_numbers_rise(feature: Numeric, values: list[float]) -> None:
    assert np.all(np.diff(codes_of(feature, sorted(values))) >= 0)


@settings(deadline=None)
@given(numerics())
def test_edges_rise_inside_the_range_and_codes_fit_one_byte(feature: Numeric) -> None:
    grid = feature.grid
    assert all(a < b for a, b in zip((grid.low, *grid.edges), grid.edges, strict=False))
    assert grid.edges[-1] <= grid.high
    assert 3 <= grid.n_cells <= 256
    assert grid.missing == grid.n_cells - 1


@settings(deadline=None)
@given(FEATURES, st.none() | st.text(max_size=10) | st.sampled_from(sorted(MISSING_TEXTS)))
@example(Numeric("wide", -1.7e308, 1.7e308, bins=10), None)
def test_every_text_has_a_code_of_the_grid(feature: Feature, text: str | None) -> None:
    (code,) = codes_of(feature, [text])
    assert 0 <= code < feature.grid.n_cells
    assert text is not None or code == feature.grid.missing


@settings(deadline=None)
@given(categoricals(), st.text(max_size=10))
def test_a_text_is_its_own_value_or_other_or_missing(feature: Categorical, text: str) -> None:
    grid, token = feature.grid, token_of(text)
    code, listed = grid.category_code(token), [token_of(value) for value in feature.values]
    if token in listed:
        assert code == listed.index(token)
    elif not grid.knows(token):
        assert code == (len(feature.values) if feature.other else grid.missing)


def holds(words: str, name: str, value: float) -> bool:
    """Reads a numeric description as Python would, for a value that may be missing."""
    if words == f"any {name}":
        return True
    if words == f"{name} is known":
        return not math.isnan(value)
    return any(_part_holds(part, name, value) for part in words.split(" or "))


def _part_holds(part: str, name: str, value: float) -> bool:
    if part in ("missing", f"{name} is missing"):
        return math.isnan(value)
    return bool(eval(part, {name: value}))


@settings(deadline=None)
@given(numerics(), st.data())
def test_a_description_of_cells_holds_exactly_for_the_values_coded_into_them(
    feature: Numeric, data: st.DataObject
) -> None:
    grid = feature.grid
    left = data.draw(st.integers(1, (1 << grid.n_cells) - 1))
    near = st.sampled_from([*grid.edges, grid.low, grid.high, math.nan])
    value = data.draw(near | st.floats(grid.low, grid.high))
    (code,) = codes_of(feature, [value])
    assert holds(grid.describe(left), "age", value) == bool(left >> code & 1)


@settings(deadline=None)
@given(FEATURES, st.data())
def test_a_split_sends_left_exactly_the_cells_it_names(
    feature: Feature, data: st.DataObject
) -> None:
    grid = feature.grid
    codes = data.draw(st.sets(st.integers(0, grid.missing), min_size=1, max_size=grid.missing))
    split = grid.split_values(codes)
    assert split.left == cells(sorted(codes))
    assert (split.feature, split.grid) == (feature.name, grid.digest)


@settings(deadline=None)
@given(FEATURES, FEATURES)
def test_two_grids_share_a_digest_only_if_they_share_every_code(a: Feature, b: Feature) -> None:
    def meaning(grid: Grid) -> tuple[object, ...]:
        return (grid.feature, grid.kind, grid.edges, grid.values, grid.other)

    same = meaning(a.grid) == meaning(b.grid)
    assert (a.grid.digest == b.grid.digest) == same


BASE = Grid(feature="f", kind=ColumnKind.CATEGORICAL, values=("a", "b"), other=True)


@pytest.mark.parametrize(
    "changed",
    [
        Grid(feature="g", kind=ColumnKind.CATEGORICAL, values=("a", "b"), other=True),
        Grid(feature="f", kind=ColumnKind.HASHED, values=("a", "b"), other=True),
        Grid(feature="f", kind=ColumnKind.CATEGORICAL, values=("b", "a"), other=True),
        Grid(feature="f", kind=ColumnKind.CATEGORICAL, values=("a", "b", "c"), other=True),
        Grid(feature="f", kind=ColumnKind.CATEGORICAL, values=("a", "b"), other=False),
        Grid(feature="f", kind=ColumnKind.CATEGORICAL, values=('a","b',), other=True),
    ],
)
def test_the_digest_changes_with_anything_that_decides_a_code(changed: Grid) -> None:
    assert changed.digest != BASE.digest


def test_the_digest_changes_when_one_edge_moves_by_one_bit() -> None:
    grid = Numeric("x", 0, 1, edges=(0.25, 0.5)).grid
    moved = Numeric("x", 0, 1, edges=(0.25, math.nextafter(0.5, 1))).grid
    assert grid.digest != moved.digest


def test_the_digest_ignores_a_range_that_changes_no_code() -> None:
    assert Numeric("x", 0, 9, edges=(3,)).grid.digest == Numeric("x", -5, 5, edges=(3,)).grid.digest


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    kinds = st.sampled_from([numerics, categoricals])
    features = [draw(draw(kinds)(name)) for name in names]
    classes = draw(st.none() | listed(2, 4))
    bound = st.none() if classes else st.none() | st.builds(Target, st.just(-0.0), st.just(3.5))
    return Schema(tuple(features), classes, draw(bound))


@settings(deadline=None)
@given(schemas())
def test_a_schema_survives_toml_and_plain_values(schema: Schema) -> None:
    for again in (Schema.from_toml(schema.to_toml()), Schema.from_dict(schema.to_dict())):
        assert again == schema
        assert again.digest == schema.digest
        assert [g.digest for g in again.grids] == [g.digest for g in schema.grids]
