"""A coordinator's journal keeps sums as they were, in few bytes."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from hedgerow.federation.exchange import Collected
from hedgerow.federation.journal import Answered, FileJournal, Record, narrowed

EDGES = [
    (1, [-128, 127]),
    (2, [-129]),
    (2, [128]),
    (2, [-(2**15), 2**15 - 1]),
    (4, [2**15]),
    (4, [-(2**31), 2**31 - 1]),
    (8, [-(2**31) - 1]),
    (8, [-(2**63), 2**63 - 1]),
    (1, []),
]


@pytest.mark.parametrize(("width", "numbers"), EDGES)
def test_a_sum_takes_as_many_bytes_as_its_largest_number_and_comes_back(tmp_path, width, numbers):
    total = np.array(numbers, np.int64)
    assert narrowed(total).itemsize == width
    kept = Answered(1, 1, "digest", Collected(total, (), 10, 20, (0, 1)))
    journal = FileJournal(tmp_path)
    journal.answered(kept, {}, {})
    journal.close()
    found = Record(tmp_path).recorded(1).collected
    assert found.total.dtype == np.int64
    assert found.total.tolist() == numbers
    assert (found.bytes_out, found.bytes_in, found.members) == (10, 20, (0, 1))


def test_a_line_without_a_width_has_eight_bytes_a_number(tmp_path):
    """As journals had them before there were others."""
    total = base64.b64encode(np.array([1, -2], "<i8").tobytes()).decode()
    line = {
        "what": "answered",
        "round": 1,
        "attempt": 1,
        "digest": "d",
        "selections": [],
        "members": [0],
    }
    (tmp_path / "answers.jsonl").write_text(
        json.dumps(line | {"bytes": [1, 2], "heads": {}, "total": total}) + "\n"
    )
    assert Record(tmp_path).recorded(1).collected.total.tolist() == [1, -2]
