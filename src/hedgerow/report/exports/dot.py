"""A model in the language of Graphviz: one cluster per tree or curve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from hedgerow.report.exports.plain_text import named_terms, question_words, sum_words, values_words
from hedgerow.report.plain import PlainBranch, PlainModel, PlainNode

DOT_STYLE = (
    'graph [fontname="sans-serif", rankdir=LR, ranksep=0.6];',
    'node [fontname="sans-serif", shape=box, style=rounded, color="#9a9a9a"];',
    'edge [fontname="sans-serif", fontsize=10, color="#9a9a9a"];',
)


def to_dot(model: PlainModel) -> str:
    lines = ["digraph model {", *DOT_STYLE, f"label={_quote(f'{model.name}: {sum_words(model)}')};"]
    numbers = count()
    lines.append(f"start [shape=plaintext, label={_quote(_start(model))}];")
    for place, (name, root) in enumerate(named_terms(model)):
        lines += [f"subgraph cluster_{place} {{", f"label={_quote(name)};"]
        lines += [line for _, line in _statements(model, root, numbers)]
        lines.append("}")
    return "\n".join([*lines, "}"]) + "\n"


def _start(model: PlainModel) -> str:
    return f"start: {values_words(model, model.base)}"


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
    """A string of DOT escapes quotes as JSON does; a backslash would begin an escape."""
    return json.dumps(text.replace("\\", "/"), ensure_ascii=False)
