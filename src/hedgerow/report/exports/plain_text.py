"""A model as text for people, and as a graph for Graphviz."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from hedgerow.report.plain import OutputLink, PlainBranch, PlainLeaf, PlainModel, PlainNode
from hedgerow.report.text import INDENT
from hedgerow.report.view import readable


# A model as indented lines: every test and leaf, in the words of its columns.
def to_text(model: PlainModel) -> str:
    lines = [f"{model.name}: {sum_words(model)}", f"start: {values_words(model, model.base)}"]
    for name, root in named_terms(model):
        lines += ["", f"{name}:", *_lines(model, root, "")]
    return "\n".join(lines) + "\n"


def named_terms(model: PlainModel) -> Iterator[tuple[str, PlainNode]]:
    for root in model.curves:
        column = model.grids[root.column].feature if isinstance(root, PlainBranch) else "nothing"
        yield f"curve of {column}", root
    for number, root in enumerate(model.trees, 1):
        yield f"tree {number}", root


def sum_words(model: PlainModel) -> str:
    words = "the start, all curves and all trees add up"
    if model.clip is not None:
        low, high = model.clip
        words += f", clipped to {low:g} ... {high:g} after each tree"
    return f"{words}; {model.link.value}"


def values_words(model: PlainModel, values: tuple[float, ...]) -> str:
    """One number, or one for each class, in words."""
    if model.classes is None or model.link is OutputLink.SIGMOID:
        return f"{values[0]:.6g}"
    return ", ".join(
        f"{name} {value:.6g}" for name, value in zip(model.classes, values, strict=True)
    )


def question_words(model: PlainModel, branch: PlainBranch) -> str:
    return readable(model.grids[branch.column].describe(branch.cells))


def _lines(model: PlainModel, node: PlainNode, indent: str) -> Iterator[str]:
    if isinstance(node, PlainLeaf):
        yield f"{indent}{values_words(model, node.values)}"
        return
    yield f"{indent}if {question_words(model, node)}:"
    yield from _lines(model, node.yes, indent + INDENT)
    yield f"{indent}else:"
    yield from _lines(model, node.no, indent + INDENT)


# A model in the language of Graphviz: one cluster per tree or curve.
DOT_STYLE = (
    'graph [fontname="sans-serif", rankdir=LR, ranksep=0.6];',
    'node [fontname="sans-serif", shape=box, style=rounded, color="#9a9a9a"];',
    'edge [fontname="sans-serif", fontsize=10, color="#9a9a9a"];',
)


def to_dot(model: PlainModel) -> str:
    lines = ["digraph model {", *DOT_STYLE, f"label={_quote(f'{model.name}: {sum_words(model)}')};"]
    numbers, start = count(), f"start: {values_words(model, model.base)}"
    lines.append(f"start [shape=plaintext, label={_quote(start)}];")
    for place, (name, root) in enumerate(named_terms(model)):
        lines += [f"subgraph cluster_{place} {{", f"label={_quote(name)};"]
        lines += [line for _, line in _statements(model, root, numbers)]
        lines.append("}")
    return "\n".join([*lines, "}"]) + "\n"


def _statements(
    model: PlainModel, node: PlainNode, numbers: count[int]
) -> Iterator[tuple[str, str]]:
    """(name of the node, a line) for the node and all below it; its own line comes first."""
    name = f"n{next(numbers)}"
    if not isinstance(node, PlainBranch):
        words = _quote(values_words(model, node.values))
        yield name, f'{name} [style=filled, fillcolor="#f6f4ee", label={words}];'
        return
    yield name, f"{name} [label={_quote(question_words(model, node) + '?')}];"
    for word, child in (("yes", node.yes), ("no", node.no)):
        below = list(_statements(model, child, numbers))
        yield from below
        yield name, f"{name} -> {below[0][0]} [label={word}];"


def _quote(text: str) -> str:
    """DOT strings escape quotes as JSON does; a backslash would begin an escape."""
    return json.dumps(text.replace("\\", "/"), ensure_ascii=False)
