"""A model as one Python file that imports nothing but the standard library."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from hedgerow.report.plain import PlainBranch, PlainLeaf, PlainModel, PlainNode, nodes_of
from hedgerow.schema.grids import Grid
from hedgerow.schema.parsers import MONTHS
from hedgerow.schema.tokens import token_of
from hedgerow.version import __version__

SHARED = "# The functions below are copied into exported Python files."
CODE_TEMPLATE = "python_template.txt"
"""The code around the numbers; not a module, so that nobody imports it."""


def to_python(model: PlainModel) -> str:
    template = files("hedgerow.report.exports").joinpath(CODE_TEMPLATE).read_text("utf-8")
    data: dict[str, Any] = {
        "release": __version__,
        "estimator": model.name,
        "columns": [_column(grid) for grid in model.grids],
        "classes": model.classes,
        "base": model.base,
        "curves": [_tree(root) for root in model.curves],
        "trees": [_tree(root) for root in model.trees],
        "clip": model.clip,
        "link": model.link.name,
    }
    if model.survival is not None:
        names = ("edges", "odds", "slopes", "center")
        data["survival"] = {name: getattr(model.survival, name) for name in names}
    fields = ",\n".join(f"    {name!r}: {_literal(value)}" for name, value in data.items())
    head = f"{model.name}, exported by hedgerow {__version__}"
    text = template.replace("@HEAD@", head).replace("{'@': 'MODEL'}", "{\n" + fields + ",\n}")
    return text.replace("# @PARSERS@\n", _parsers(model.grids))


def _parsers(grids: tuple[Grid, ...]) -> str:
    """The source of the library's own parsers, if a column needs one."""
    if not any(grid.is_parsed for grid in grids):
        return ""
    source = files("hedgerow.schema").joinpath("parsers.py").read_text("utf-8")
    months = ", ".join(map(repr, MONTHS))
    return f"\n\nMONTHS = [{months}]\n{source[source.index(SHARED) :].partition(chr(10))[2]}"


def _column(grid: Grid) -> dict[str, Any]:
    codes_by_token = {token_of(value): code for code, value in enumerate(grid.values)}
    return {
        "name": grid.feature,
        "kind": grid.kind.value,
        "edges": grid.edges,
        "listed": codes_by_token if grid.kind.value == "categorical" else {},
        "buckets": len(grid.values) if grid.kind.value == "hashed" else 0,
        "other": grid.other,
        "missing": grid.missing,
        **({"column": grid.source} if grid.column else {}),
        **({"rules": grid.rules} if grid.is_parsed else {}),
    }


def _tree(root: PlainNode) -> list[Any]:
    """Preorder: a test is (column, cells of yes, number of yes nodes), a leaf is a list."""
    return [
        list(node.values)
        if isinstance(node, PlainLeaf)
        else (node.column, node.cells, size(node.yes))
        for node in nodes_of(root)
    ]


def size(node: PlainNode) -> int:
    return 1 + size(node.yes) + size(node.no) if isinstance(node, PlainBranch) else 1


def _literal(value: Any) -> str:
    """A literal, on several lines for several columns or trees."""
    if isinstance(value, list) and value:
        return "[\n" + "".join(f"        {item!r},\n" for item in value) + "    ]"
    return json.dumps(value) if isinstance(value, str) else repr(value)
