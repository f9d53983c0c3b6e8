"""No float and no NumPy generator on the way from secret words to released integers."""

import ast
from pathlib import Path

import pytest

import hedgerow.privacy.mechanisms.randomness as room

ROOM = Path(room.__file__).parent
DRAWING = ["randomness", "coins", "laws", "inversion", "sampling", "selection"]
GENERATORS = {"random", "default_rng", "Generator", "RandomState", "SystemRandom"}
FLOAT_TYPES = {"float16", "float32", "float64", "float128", "longdouble", "double", "single"}


def names(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (getattr(node, "module", None) or "").split(".")
            yield from (part for alias in node.names for part in alias.name.split("."))


def generators(source):
    return GENERATORS & set(names(ast.parse(source)))


def float_types(source):
    """Float dtypes by name, and `float` or "f8" handed over as a dtype."""
    tree = ast.parse(source)
    found = FLOAT_TYPES & set(names(tree))
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        for argument in [*call.args, *(k.value for k in call.keywords)]:
            if isinstance(argument, ast.Name) and argument.id == "float":
                found.add("float as an argument")
            if isinstance(argument, ast.Constant) and argument.value in {"f4", "f8", "<f8", "d"}:
                found.add(argument.value)
    return found


def floats(source):
    """Any float at all: a literal, or the type."""
    tree = ast.parse(source)
    literals = {
        str(n.value)
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, float)
    }
    return literals | ({"float"} & set(names(tree))) | float_types(source)


@pytest.mark.parametrize("module", [*DRAWING, "mechanisms", "response"])
def test_no_generator_but_the_secret_one_is_named(module):
    assert generators((ROOM / f"{module}.py").read_text()) == set()


@pytest.mark.parametrize("module", [*DRAWING, "mechanisms"])
def test_no_array_of_floats_is_made(module):
    assert float_types((ROOM / f"{module}.py").read_text()) == set()


@pytest.mark.parametrize("module", DRAWING)
def test_no_float_is_written_where_noise_is_drawn(module):
    assert floats((ROOM / f"{module}.py").read_text()) == set()


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnoise = np.random.laplace(size=3)",
        "from numpy.random import default_rng",
        "import random",
        "from numpy import random as secret",
    ],
)
def test_the_lint_sees_a_generator(source):
    assert generators(source)


@pytest.mark.parametrize(
    "source",
    [
        "x = y.astype(float)",
        "x = np.zeros(3, dtype=float)",
        "x = np.zeros(3, np.float64)",
        "x = np.zeros(3, 'f8')",
        "x = 0.5 * n",
        "x = float(n)",
    ],
)
def test_the_lint_sees_a_float(source):
    assert floats(source)
