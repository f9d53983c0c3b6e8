"""A model as indented lines: every question, every leaf, in the words of its columns."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.report.plain import OutputLink, PlainBranch, PlainLeaf, PlainModel, PlainNode
from hedgerow.report.text import INDENT
from hedgerow.report.view import readable


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
