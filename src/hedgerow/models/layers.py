"""The open nodes of a tree, level by level, as arrays: for forests that grow in lockstep.

A region names one node by its whole path. A level of a deep forest has thousands of nodes, so here
all open nodes of a level are one value: the layer above, and the test of each of its nodes. Only
the new part of a layer is sent, and a site moves each of its rows down by one test.

Shapes: N nodes of a layer, m tests of each.
"""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.schema.arrays import Int16, Words, freeze
from hedgerow.schema.regions import Split
from hedgerow.schema.schema import Schema

NO_TEST = -1
WORDS_IN_SET = 4  # a set of cells is 256 bits
MOST_TESTS = 1 << 22  # in one bundle: 142 MB; more are refused before they are unpacked
_PIECE = 1 << 20


@dataclass(frozen=True, eq=False)
class NodeTests:
    """Tests on cells: the column of each test, NO_TEST for none, and the cells it sends left."""

    feature: Int16  # (N,) or (N, m)
    left: Words  # (N, 4) or (N, m, 4)

    def __post_init__(self) -> None:
        if self.left.shape != (*self.feature.shape, WORDS_IN_SET):
            raise ParameterError(
                f"{self.feature.shape} tests came with sets of shape {self.left.shape}; give "
                f"{WORDS_IN_SET} words for each."
            )

    def select(self, index: NDArray[np.intp], has_test: NDArray[np.bool_]) -> NodeTests:
        """Selects one of each node's m tests, (N,); NO_TEST where `has_test` is False."""
        rows = np.arange(len(index))
        feature = np.where(has_test, self.feature[rows, index], np.int16(NO_TEST))
        return NodeTests(feature, np.where(has_test[:, None], self.left[rows, index], np.uint64(0)))

    def split(self, node: int, schema: Schema) -> Split:
        """The test of a node, (N,), as a `Split` for the ledger and for people."""
        grid = schema.grids[int(self.feature[node])]
        bits = int.from_bytes(self.left[node].astype("<u8").tobytes(), "little")
        return Split(grid.feature, grid.digest, bits & ((1 << grid.n_cells) - 1))

    @cached_property
    def digest(self) -> str:
        content = hashlib.sha256(repr(self.feature.shape).encode())
        content.update(np.ascontiguousarray(self.feature, "<i2").tobytes())
        content.update(np.ascontiguousarray(self.left, "<u8").tobytes())
        return content.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return {
            "shape": list(self.feature.shape),
            "feature": _text(self.feature.astype("<i2")),
            "left": _text(self.left.astype("<u8")),
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> NodeTests:
        shape, size = _shape_of(data), tests_in(data)
        feature = _numbers(data["feature"], "<i2", size).reshape(shape)
        left = _numbers(data["left"], "<u8", size * WORDS_IN_SET).reshape(*shape, WORDS_IN_SET)
        return NodeTests(feature.astype(np.int16, copy=False), left.astype(np.uint64, copy=False))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeTests) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def tests_in(data: dict[str, Any]) -> int:
    """The number of tests that a text declares; checked before unpacking, since it may be large."""
    size = math.prod(_shape_of(data))
    if size > MOST_TESTS:
        raise ParameterError(f"{size} tests were declared; at most {MOST_TESTS} are allowed.")
    return size


def _shape_of(data: dict[str, Any]) -> tuple[int, ...]:
    shape = tuple(int(n) for n in data["shape"])
    if len(shape) not in (1, 2) or min(shape) < 0:
        raise ParameterError(f"tests have the shape {shape}; use one or two lengths of 0 or more.")
    return shape


@dataclass(frozen=True, eq=False)
class Layer:
    """The open nodes of one level. A record is at one of them, or has left the tree.

    Each node above that has a test has two children, left before right; `is_open` says which of
    these go on. The layer without another above it is the root alone.
    """

    above: Layer | None = None
    node_tests: NodeTests | None = None  # (N above,)
    is_open: NDArray[np.bool_] | None = None  # (2 x tests taken,)

    @cached_property
    def n_nodes(self) -> int:
        return 1 if self.is_open is None else int(self.is_open.sum())

    @cached_property
    def children(self) -> NDArray[np.int32]:
        """(N above, 2) the number of each child in this layer, -1 if it is not open."""
        assert self.node_tests is not None
        assert self.is_open is not None
        out = np.full((len(self.node_tests.feature), 2), -1, np.int32)
        numbers = np.where(self.is_open, np.cumsum(self.is_open) - 1, -1)
        out[self.node_tests.feature != NO_TEST] = numbers.reshape(-1, 2)
        return out

    @cached_property
    def digest(self) -> str:
        if self.above is None or self.node_tests is None or self.is_open is None:
            return "root"
        parts = f"{self.above.digest}/{self.node_tests.digest}/"
        open_bits = np.packbits(self.is_open).tobytes()
        return hashlib.sha256(parts.encode() + open_bits).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layer) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


ROOT_LAYER = Layer()


def layer_to_dict(layer: Layer) -> dict[str, Any]:
    """The new part of a layer; the sender names the one above."""
    if layer.node_tests is None or layer.is_open is None:
        return {}
    return {
        "taken": layer.node_tests.to_dict(),
        "children": len(layer.is_open),
        "open": _text(np.packbits(layer.is_open)),
    }


def layer_from_dict(data: dict[str, Any], above: Layer | None) -> Layer:
    if above is None:
        return ROOT_LAYER
    node_tests, children = NodeTests.from_dict(data["taken"]), int(data["children"])
    if node_tests.feature.shape != (above.n_nodes,) or children != 2 * int(
        (node_tests.feature != NO_TEST).sum()
    ):
        raise ParameterError(
            f"a layer of {children} children does not follow from the one above it."
        )
    open_bits = _numbers(data["open"], "u1", -(-children // 8))
    return Layer(above, node_tests, np.unpackbits(open_bits, count=children).astype(bool))


def _text(values: NDArray[Any]) -> str:
    """Compressed public numbers: neighboring tests are much alike."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 1)).decode()


def _numbers(text: str, kind: str, count: int) -> NDArray[Any]:
    """Unpacks piece by piece, in place; all at once would take twice the memory."""
    unpacking, compressed_bytes = zlib.decompressobj(), base64.b64decode(text)
    numbers, n_bytes = np.empty(count, kind), 0
    place = numbers.view(np.uint8)
    while piece := unpacking.decompress(compressed_bytes, _PIECE):
        if len(piece) > len(place) - n_bytes:
            break
        place[n_bytes : n_bytes + len(piece)] = np.frombuffer(piece, np.uint8)
        n_bytes, compressed_bytes = n_bytes + len(piece), unpacking.unconsumed_tail
    if piece or n_bytes < len(place):
        raise ParameterError(f"{count} numbers were declared; the text does not hold as many.")
    return freeze(numbers)
