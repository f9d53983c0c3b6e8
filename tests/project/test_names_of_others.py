"""Types in public docstrings lead somewhere: to our own pages, or to another project's."""

from __future__ import annotations

import inspect
import re

import numpydoc.xref
import sphobjinv
from numpydoc.docscrape import NumpyDocString

import hedgerow as hr
from docs.make_inventories import ALIASES, FOLDER, SITES, WORDS, differences, mapping, text_of
from docs.make_reference import own_methods

SECTIONS = ("Parameters", "Returns", "Attributes", "Raises")
KNOWN = {**numpydoc.xref.DEFAULT_LINKS, **ALIASES}
TARGET = re.compile(r":(\w+):`(?:[^`<]*<)?(?:[\w-]+:)?([^`>]+)>?`")


def documented() -> list[object]:
    things = [getattr(hr, name) for name in hr.__all__]
    methods = [getattr(getattr(hr, c), m) for c, names in own_methods().items() for m in names]
    return [*things, *methods]


def types() -> set[str]:
    texts = [NumpyDocString(inspect.getdoc(one) or "") for one in documented()]
    return {entry.type for text in texts for section in SECTIONS for entry in text[section]}


def targets(kind: str) -> set[tuple[str, str]]:
    """What Sphinx will look up for a type: roles and names."""
    return set(TARGET.findall(numpydoc.xref.make_xref(kind, KNOWN, set(WORDS))))


def known() -> set[str]:
    ours = {*hr.__all__, "/files/model_file", "/statement", "/communication"}
    kept = (sphobjinv.Inventory(text_of(name)).objects for name in SITES)
    return ours | {one.name for objects in kept for one in objects}


def test_every_type_of_a_public_docstring_leads_somewhere():
    named = {name for kind in types() for _, name in targets(kind)}
    assert {"int", "numpy.ndarray", "pandas.DataFrame", "estimator", "Schema"} <= named
    assert named - known() == set()


def test_a_type_that_nobody_knows_would_be_seen():
    assert targets("Wreath or None") == {("obj", "Wreath"), ("data", "None")}
    assert "Wreath" not in known()


def test_no_name_is_kept_that_nothing_links_to():
    named = {name for kind in types() for _, name in targets(kind)}
    kept = {one.name for s in SITES for one in sphobjinv.Inventory(text_of(s)).objects}
    assert kept <= named


def test_every_public_thing_has_words():
    assert [one for one in documented() if not inspect.getdoc(one)] == []


def test_packed_inventories_are_whole_and_a_moved_page_is_told(tmp_path):
    for name, (_, packed) in mapping(tmp_path / "packed").items():
        whole = sphobjinv.Inventory(packed)
        assert whole.objects == sphobjinv.Inventory(text_of(name)).objects
        moved = text_of(name).read_bytes().replace(b"library/functions", b"library/elsewhere")
        (tmp_path / f"{name}.inv").write_bytes(sphobjinv.compress(moved))
    assert list(differences(tmp_path)) == [
        "python: callable py:function library/functions.html#callable",
        "python: float py:class library/functions.html#float",
        "python: int py:class library/functions.html#int",
    ]
    assert len(list(FOLDER.iterdir())) == len(SITES)
