"""Ahead-of-time compilation: all loops are loaded from the disk or compiled before a run.

For services at their start and for images while they are built. Loops that no process has
compiled yet take some seconds each, all others milliseconds.
"""

from __future__ import annotations

import numpy as np

from hedgerow.kernels import dispatch
from hedgerow.kernels.codes import RECODE, encode_edges, recode, split_rows
from hedgerow.kernels.dispatch import Kernel
from hedgerow.kernels.newton import add_newton_vectors, scaled_rows
from hedgerow.kernels.noise import invert
from hedgerow.kernels.sums import count_cells, sum_cells
from hedgerow.kernels.surfaces import add_at_places, look_up
from hedgerow.kernels.trees import (
    add_values,
    count_sides,
    leaf_counts,
    leaf_sums,
    next_nodes,
    sum_sides,
)
from hedgerow.kernels.units import bounded_units
from hedgerow.models.layers import ROOT_LAYER, Layer, NodeTests
from hedgerow.models.packing import pack
from hedgerow.models.sensitivity import Sensitivity
from hedgerow.models.tree import Tree
from hedgerow.schema.arrays import N_CODES
from hedgerow.schema.regions import EVERYONE

CODES = np.zeros((1, 1), np.uint8)
STATS = np.zeros((1, 2), np.int64)


def compile_kernels() -> None:
    """Compiles or loads all loops; from then on this process runs compiled loops alone."""
    with dispatch.assumed_costs(start=0.0, compile=0.0):
        for work in (_encoding, _sums, _trees, _layers, _newton, _surfaces, _noise):
            work()
    Kernel.everyones_seconds = max(Kernel.everyones_seconds, dispatch.PRICES.start)


def place() -> str | None:
    """The folder in which compiled loops are kept; None if none can be written."""
    return dispatch.folder_of(RECODE)


def _encoding() -> None:
    encode_edges(np.zeros(1), (0.5,), np.zeros(1, np.uint8))
    recode(CODES, np.zeros((1, N_CODES), np.uint8))
    split_rows(CODES[0], None, 1)
    bounded_units(np.zeros((1, 2)), 1, Sensitivity(1, 1, 1))


def _sums() -> None:
    for codes in (CODES, CODES.astype(np.uint16)):
        count_cells(codes, None, [0], CODES[0], 1, 1)
        sum_cells(codes, None, [0], STATS, 1)


def _trees() -> None:
    stump = pack([Tree.build(("x",), {EVERYONE: (0.0,)})])
    leaf_sums(stump, CODES, STATS)
    leaf_counts(stump, CODES, CODES[0], 1)
    add_values(stump, CODES, np.zeros((1, 1)))


def _layers() -> None:
    standing, words = np.zeros(1, np.int32), np.ones((1, 1, 4), np.uint64)
    node_tests = NodeTests(np.zeros(1, np.int16), words[0])
    next_nodes(Layer(ROOT_LAYER, node_tests, np.ones(2, np.bool_)), standing, CODES)
    tests = NodeTests(np.zeros((1, 1), np.int16), words)
    count_sides(tests, standing, CODES, CODES[0], 1)
    sum_sides(tests, standing, CODES, STATS)


def _newton() -> None:
    z, score = scaled_rows(np.zeros((1, N_CODES)), CODES, 1.0, 1.0, np.zeros(2))
    add_newton_vectors(z, score, score, 1, np.zeros(5, np.int64))


def _surfaces() -> None:
    layout, tables = np.array([[0, 0, 0, 1]]), np.zeros(1)
    look_up(CODES, layout, tables, tables)
    add_at_places(CODES, layout, np.zeros(CODES.shape[1], np.int64), np.zeros(1, np.int64))


def _noise() -> None:
    words, out = np.zeros(1, np.uint64), np.zeros(1, np.int64)
    invert(words, words + np.uint64(1), np.zeros(2, np.int32), 63, out, out.copy())
