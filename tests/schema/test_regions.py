"""One object for each test and step, and regions that travel as what is new in them."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from threading import Barrier, Thread

import pytest

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.federation.wire import Bundle, Receiver, Sender
from hedgerow.models.validation import MOST_STEPS
from hedgerow.privacy.queries import Count, SumQuery, Whole
from hedgerow.schema.grids import canonical_bytes
from hedgerow.schema.regions import Fold, Split, Step
from hedgerow.secagg.encoding import bytes_field


def region(steps: int):
    return tuple(Step(Split("x", "grid", 2 + k), k % 2) for k in range(steps))


def asked(steps: int) -> SumQuery:
    return SumQuery(region(steps), Count(), Whole(), Fraction(1, 2))


# ------------------------------------------------------------------------------------ one object
@pytest.mark.parametrize("value", [Split("x", "g", 3), Fold("d", 4), Step(Fold("d", 4), 1)])
def test_equal_values_are_one_object_however_they_are_made(value):
    assert copy.deepcopy(value) is value
    assert pickle.loads(pickle.dumps(value)) is value
    assert Split("x", grid="g", left=3) is Split("x", "g", 3)


@pytest.mark.parametrize("strange", [True, 1.0])
def test_what_only_looks_like_a_value_is_refused_though_the_value_is_known(strange):
    known = Split("x", "g", 1)
    with pytest.raises(ParameterError):
        Split("x", "g", strange)
    with pytest.raises(TypeError):
        Split("x", "g", known.left, other=1)


def test_threads_that_make_one_value_at_a_time_get_one_object():
    start, made = Barrier(8), []

    def make() -> None:
        start.wait()
        made.append([Split("together", "g", 1 + k) for k in range(200)])

    threads = [Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one is other for row in made for one, other in zip(row, made[0], strict=True))


# ---------------------------------------------------------------------------------- on the wire
def test_a_region_below_a_known_one_travels_as_one_step():
    sender, receiver, sizes = Sender(), Receiver(), []
    for steps in (40, 41, 42):
        bundle = sender.encode([asked(steps)])
        queries, learned = receiver.decode(bundle)
        receiver.keep(learned)
        assert queries == [asked(steps)]
        sizes.append(bundle.size)
    assert max(sizes[1:]) < sizes[0] / 15


def test_a_site_that_lacks_the_region_above_says_so():
    sender = Sender()
    sender.encode([asked(3)])
    with pytest.raises(SiteRefused, match="UnknownName"):
        Receiver().decode(sender.encode([asked(4)]))


def test_no_region_is_read_that_is_deeper_than_any_site_admits():
    sender = Sender()
    assert Receiver().decode(sender.encode([asked(MOST_STEPS)]))
    with pytest.raises(SiteRefused, match="BadMessage"):
        Receiver().decode(Sender().encode([asked(MOST_STEPS + 1)]))


def test_only_a_region_stands_above_a_region():
    test = canonical_bytes({"!": "Split", "feature": "x", "grid": "g", "left": 1})
    sender = Sender()
    name = sender._plain(Split("x", "g", 1))["@"]
    below = {"!": "Region", "above": name, "step": {"!": "Step", "test": {"@": name}, "outcome": 0}}
    with pytest.raises(SiteRefused, match="BadMessage"):
        Receiver().decode(Bundle(b"[]", b"".join(map(bytes_field, [test, canonical_bytes(below)]))))
