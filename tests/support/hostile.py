"""Bundles that were made to exhaust or to confuse a site, and a site that is measured on them."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.federation import wire
from hedgerow.federation.wire import Bundle, Sender
from hedgerow.models.layers import MOST_TESTS, ROOT_LAYER, NodeTests
from hedgerow.models.model import Curve
from hedgerow.privacy.queries import Binning, CurveNewton, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
from support.worlds import TWO, federation, sample, site_rows, study

MOST_SECONDS = 1.0
MOST_MEMORY = 200 * 2**20
SHARE = {"%": "1/10000"}

RAW = {
    "nothing": b"",
    "no JSON": b"{",
    "a number": b"5",
    "a list of numbers": b"[5]",
    "an empty list": b"[]",
    "null": b"null",
    "NaN": b"[NaN]",
    "a key twice": b'[{"!":"Count","!":"Count"}]',
    "an unknown kind": b'[{"!":"os.system"}]',
    "a field too many": b'[{"!":"Count","x":1}]',
    "a field too few": b'[{"!":"SumQuery"}]',
    "an unknown mark": b'[{"?":1}]',
    "an exponent": b'[{"%":"1e100000000"}]',
    "a long rational": b'[{"%":"' + b"9" * 65 + b'"}]',
    "a long integer": b"[" + b"9" * 5000 + b"]",
    "deep nesting": b"[" * 5000 + b"]" * 5000,
    "an enum that is none": b'[{"#":["Score","SECRET"]}]',
    "a count alone": b'[{"!":"Count"}]',
    "an unbalanced tree": b'[{"!":"Tree","tree":{"features":["a"],"tests":[],"nodes":[0],'
    b'"leaves":[]}}]',
    "millions of zeros": b"[" + b"0," * (5 << 20) + b"0]",
    "too many queries": b"[" + b",".join([b"1"] * 5000) + b"]",
}
"""What is no bundle at all."""


def told(statistic, by=None, region=()):
    """A sum over everybody, spelled out, whatever is in it."""
    query = {"!": "SumQuery", "region": list(region), "statistic": statistic, "fraction": SHARE}
    return json.dumps([{**query, "by": by or {"!": "Whole"}}]).encode()


def packed(*blobs: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(blob)) + blob for blob in blobs)


def step(test, outcome=0):
    return {"!": "Step", "test": test, "outcome": outcome}


def fold(n):
    return step({"!": "Fold", "draw": "d", "n": n})


def model(**parts):
    return {"!": "Additive", "base": [0.0], "curves": [], "trees": [], "clip": None, **parts}


def gradients(loss, at=None):
    return {"!": "Gradients", "loss": loss, "at": at or model()}


def tests_of(count: int):
    """So many tests, all the same: a few hundred bytes."""
    tests = NodeTests(np.zeros((1, count), np.int16), np.zeros((1, count, 4), np.uint64))
    return {"!": "NodeTests", "tests": tests.to_dict()}


def sides(count: int, sender: Sender):
    root = sender._layer(ROOT_LAYER)
    return {"!": "Sides", "layer": {"@": root}, "tests": tests_of(count)}


def large() -> Iterator[tuple[str, Bundle]]:
    """Small messages that ask for much, and long ones that ask for little."""
    count, softmax = {"!": "Count"}, {"!": "SoftmaxLoss", "n_classes": 10**8}
    three, named = {"!": "ClassCounts", "n_classes": 3}, Sender()
    yield "a hundred million folds", Bundle(told(count, region=[fold(10**8)]), b"")
    yield "folds of eighty digits", Bundle(told(count, region=[fold(10**79)]), b"")
    yield "no fold", Bundle(told(count, region=[fold(0)]), b"")
    yield "a hundred million classes", Bundle(told(gradients(softmax)), b"")
    yield "Hessians of as many", Bundle(told({**gradients(softmax), "!": "Hessians"}), b"")
    yield "a billion counts", Bundle(told({"!": "ClassCounts", "n_classes": 10**9}), b"")
    yield "a billion bits", Bundle(told({"!": "LabelReports", "bits": 10**9}), b"")
    yield "ten thousand steps", Bundle(told(count, region=[fold(2)] * 10_000), b"")
    yield (
        "a hundred thousand outputs",
        Bundle(told(gradients({"!": "LogLoss"}, model(base=[0.0] * 100_000))), b""),
    )
    yield (
        "a hundred thousand edges",
        Bundle(told(count, {"!": "TargetCells", "edges": [float(k) for k in range(100_000)]}), b""),
    )
    yield (
        "one column very often",
        Bundle(
            told(count, {"!": "Cells", "features": [0] * 100_000, "binning": {"@": "0" * 64}}), b""
        ),
    )
    yield (
        "twenty thousand names",
        Bundle(told(three), packed(*(json.dumps(name(k)).encode() for k in range(20_000)))),
    )
    yield "twenty thousand curves", curves(20_000)
    yield (
        "a text of ten million messages",
        Bundle(told(count, region=[step({"!": "Fold", "draw": "x" * 10**7, "n": 2})]), b""),
    )
    yield "4,096 times everything", everything()
    yield "a bomb of tests", Bundle(told(three, sides(MOST_TESTS + 1, named)), packed_of(named))
    yield (
        "many bombs of tests",
        Bundle(
            json.dumps([json.loads(told(three, sides(MOST_TESTS // 2, named)))[0]] * 8).encode(),
            packed_of(named),
        ),
    )
    yield (
        "tests of a negative shape",
        Bundle(told(count, {"!": "Sides", "layer": None, "tests": shaped([-5, 3])}), b""),
    )
    yield "definitions without an end", Bundle(told(count), b"\xff" * 2**20)
    yield "a tree of left turns", Bundle(told(three), packed(left_turns(60_000)))


def packed_of(sender: Sender) -> bytes:
    return packed(*sender.blobs.values())


def shaped(shape):
    return {"!": "NodeTests", "tests": {"shape": shape, "feature": "", "left": ""}}


def name(k: int):
    return {"!": "Split", "feature": "age", "grid": TWO.grids[0].digest, "left": k + 1}


def curves(many: int) -> Bundle:
    curve = Curve(0, ((1.0,),) * TWO.grids[0].n_cells)
    query = CurveNewton((curve,) * many, 0.5, 2.0, (0.1,) * (many + 1), 0.0)
    return Sender().encode([SumQuery(EVERYONE, query, Whole(), Fraction(1, 10_000))])


def everything() -> Bundle:
    """As many queries as may be, each as large as may be."""
    sender = Sender()
    binning = sender._plain(Binning.of_cells(TWO))
    cells = {"!": "Cells", "features": [0, 1, 2], "binning": binning}
    query = json.loads(told({"!": "ClassCounts", "n_classes": 2}, cells))[0]
    return Bundle(
        json.dumps([{**query, "fraction": {"%": "1"}}] * 4096).encode(), packed_of(sender)
    )


def left_turns(depth: int) -> bytes:
    split = TWO.grids[0].split_values(range(2))
    test = {"feature": split.feature, "grid": split.grid, "left": hex(split.left)}
    nodes = [0] * depth + [-1] * (depth + 1)
    tree = {"features": list(TWO.names), "tests": [test], "nodes": nodes}
    tree["leaves"] = [0.0] * (depth + 1)
    return json.dumps({"!": "Tree", "tree": tree}).encode()


def bundles() -> dict[str, Bundle]:
    return {name: Bundle(raw, b"") for name, raw in RAW.items()} | dict(large())


# ----------------------------------------------------------------------------------- measuring
def measured(asked: Mapping[str, Bundle]) -> dict[str, Any]:
    """What a fresh process says to each, and the most memory that one of them took."""
    X, y = sample(60, TWO)
    link = federation(study(TWO, 2), site_rows(X, y, np.arange(60) % 2, 2, TWO)).sites
    messages = {
        name: link.coordinator.start(bundle.questions, 1).requests({0: bundle.definitions})[0]
        for name, bundle in asked.items()
    }
    answers, most = {}, 0
    for name, message in messages.items():
        before, began = memory_from_now_on(), time.process_time()
        reply = link.clients[0].handle(message)
        answers[name] = (reply.hex(), time.process_time() - began)
        most = max(most, peak_memory() - before)
    charged = len(link.clients[0].store.ledger.entries)
    return {"answers": answers, "charged": charged, "memory": most}


def memory_from_now_on() -> int:
    """What is in use; from here on the peak is that of what comes, where the system can do so."""
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")
    return peak_memory()


def peak_memory() -> int:
    """Of this program alone: what `getrusage` says begins with the size of whoever started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_a_process_of_its_own(asked: Mapping[str, Bundle], folder: Path, *flags: str) -> Any:
    """Made here and read there, so that making them does not count."""
    given = {name: (one.questions.hex(), one.definitions.hex()) for name, one in asked.items()}
    (folder / "bundles.json").write_text(json.dumps(given))
    command = [sys.executable, "-m", "support.hostile", str(folder / "bundles.json"), *flags]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, env=os.environ | paths, check=True, capture_output=True, timeout=300
    )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    if "--endless" in sys.argv:  # the negative control: tests are unpacked however many there are
        wire._Reading._make_room = lambda self, packed: None  # type: ignore[method-assign]
    bundles_given = {name: Bundle(*map(bytes.fromhex, one)) for name, one in given.items()}
    print(json.dumps(measured(bundles_given)))
