"""Pages that the code itself tells: public names, commands, errors; and links to other projects.

Written at every build.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import sphobjinv
import typer.main

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.methods.plan import OWN_METHODS

FOLDER = Path(__file__).with_name("reference")
MOST_USES = 6
"""Pages that a name's own page links to."""

API_HEAD = """# Public names

For data scientists. `import hedgerow as hr`; what is not listed here may change without notice.
"""
PAPERS_HEAD = """## Methods of the papers

Each function takes the schema and returns an estimator with the paper's own numbers; every
parameter of that estimator may be changed by its name, but for those that make the method. Those
that end in `as_published` and `as_released` take `published_epsilon`; the estimator says what that
really costs.
"""
COMMANDS_HEAD = """# Commands

For everybody at a terminal. `hedgerow COMMAND --help` says the same.

"""
ERRORS_HEAD = """# Errors

For whoever meets one. All are `hedgerow.HedgerowError`; the message of each says what was found,
what is allowed and what to do. A site tells others only a constant code;
its own log has the reasons. Each of them brought about on purpose: [errors](../howto/errors.md).
"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    pages = {"api": api_page(), "commands": commands_page(), "errors": errors_page()}
    for name, text in pages.items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


# ---------------------------------------------------------------------------------------- names
def api_page() -> str:
    estimators = [n for n in hr.__all__ if hasattr(getattr(hr, n), "fit")]
    groups = {
        "Estimators": [n for n in estimators if n.startswith(OWN_METHODS)],
        "Estimators of the papers": [n for n in estimators if not n.startswith(OWN_METHODS)],
        "Errors and warnings": [n for n in hr.__all__ if _is_error(getattr(hr, n))],
    }
    grouped = {name for names in groups.values() for name in names}
    rest = [name for name in hr.__all__ if name not in grouped]
    groups["Schema, ledger and what surrounds them"] = [n for n in rest if n[0].isupper()]
    groups["Functions"] = [n for n in rest if not n[0].isupper()]
    parts = [_summary(title, names) for title, names in groups.items()]
    return "\n".join([API_HEAD, *parts, papers_part()])


def papers_part() -> str:
    """Every function of `hedgerow.papers`, in its own words."""
    calls = dict.fromkeys(method.call.split("(")[0] for method in hr.papers.METHODS)
    rows = [
        f"| `hr.papers.{call}` | {_first_line(attrgetter(call)(hr.papers))} |" for call in calls
    ]
    return "\n".join([PAPERS_HEAD, "| function | method |", "|---|---|", *rows, ""])


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def _summary(title: str, names: list[str]) -> str:
    lines = "\n".join(f"   ~hedgerow.{name}" for name in names)
    table = f".. autosummary::\n   :toctree: names\n   :nosignatures:\n\n{lines}"
    return f"## {title}\n\n```{{eval-rst}}\n{table}\n```\n"


def used_in() -> dict[str, list[tuple[str, str]]]:
    """By public name: titles and places of pages whose code uses it, how-to pages first."""
    docs = Path(__file__).parent
    texts = [(page, page.read_text(encoding="utf-8")) for page in _pages_with_code(docs)]
    found = [(_place(page, docs), *_title_and_code(page, text)) for page, text in texts]
    return {
        name: [(title, place) for place, title, code in found if _uses(code, name)][:MOST_USES]
        for name in hr.__all__
    }


def _pages_with_code(docs: Path) -> list[Path]:
    pages = [*sorted(docs.glob("howto/*.md")), docs / "tutorial.md", docs / "migrate.md"]
    return [*pages, *sorted(docs.parent.glob("examples/gallery/plot_*.py"))]


def _place(page: Path, docs: Path) -> str:
    """Of a page on the site; that of an example is made of its file."""
    inside = page.relative_to(docs.parent / "examples" if page.suffix == ".py" else docs)
    return f"/{inside.with_suffix('')}"


def _title_and_code(page: Path, text: str) -> tuple[str, str]:
    if page.suffix == ".py":
        return text.splitlines()[1], text
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    return text.splitlines()[0].removeprefix("# "), "\n".join(blocks)


def _uses(code: str, name: str) -> bool:
    return re.search(rf"\bhr\.{name}\b", code) is not None


PAGE_NAME = re.compile(r"`{0,2}docs/([\w/-]+)\.md`{0,2}")
"""How docstrings name a page; in `help()` it is the file of a checkout."""


def with_links(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """On the site it is a link, by the page's title. Sphinx calls this for every docstring."""
    lines[:] = [PAGE_NAME.sub(r":doc:`/\1`", line) for line in lines]


def own_methods() -> dict[str, list[str]]:
    """By class: the public methods that hedgerow itself defines, not those of scikit-learn."""
    classes = {n: getattr(hr, n) for n in hr.__all__ if inspect.isclass(getattr(hr, n))}
    return {
        name: [m for m, f in inspect.getmembers(cls, inspect.isroutine) if _is_own(m, f)]
        for name, cls in classes.items()
    }


def _is_own(name: str, method: Any) -> bool:
    module = getattr(inspect.unwrap(method), "__module__", None) or ""
    return not name.startswith("_") and module.startswith("hedgerow")


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


# ------------------------------------------------------------------------------------- commands
def commands_page() -> str:
    codes = (app.registered_callback.callback.__doc__ or "").split("\n\n")[1]
    every = _commands("hedgerow", typer.main.get_group(app))
    return "\n".join([COMMANDS_HEAD + inspect.cleandoc(codes) + "\n", *every])


def _commands(path: str, command: Any) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is None:
        yield f"## `{path}`\n\n```text\n{_help(path, command)}\n```\n"
        return
    for name in sorted(children):
        yield from _commands(f"{path} {name}", children[name])


def _help(path: str, command: Any) -> str:
    """Plain words without the frames of a terminal."""
    command.rich_markup_mode = None
    with command.make_context(path, [], resilient_parsing=True) as context:
        return str(command.get_help(context)).rstrip()


# --------------------------------------------------------------------------------------- errors
def errors_page() -> str:
    errors = [getattr(hr, name) for name in hr.__all__ if _is_error(getattr(hr, name))]
    return "\n".join([ERRORS_HEAD, *(_entry(error) for error in errors)])


def _entry(error: type[Exception]) -> str:
    parents = [base.__name__ for base in error.__mro__[1:] if base.__name__ in hr.__all__]
    kind = f"*A kind of {parents[0]}.* " if parents and parents[0] != "HedgerowError" else ""
    words = PAGE_NAME.sub(r"[\1](../\1.md)", inspect.cleandoc(error.__doc__ or ""))
    return f"## {error.__name__}\n\n{kind}{words}\n"


# ---------------------------------------------------------------------- names of other projects
# `docs/inventories.txt` has a few lines of each project's own inventory. Every build packs them for
# Sphinx, so that it needs no network. `python -m docs.make_reference FOLDER` holds them against
# whole inventories: files `FOLDER/python.inv` and so on, fetched from the addresses below.
LINES = FOLDER.with_name("inventories.txt")
SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "scikit-learn": "https://scikit-learn.org/stable/",
}
INVENTORY_HEAD = """\
# Sphinx inventory version 2
# Project: {name}
# Version: stable
# The remainder of this file is compressed using zlib.
"""
ALIASES = {
    "Path": "pathlib.Path",
    "DataFrame": "pandas.DataFrame",
    "estimator": ":term:`estimator <scikit-learn:estimator>`",
    "estimators": ":term:`estimators <scikit-learn:estimator>`",
    "Model": ":doc:`Model </files>`",
    "PrivacyStatement": ":doc:`PrivacyStatement </statement>`",
    "RunRecord": ":doc:`RunRecord </communication>`",
}
"""What our docstrings call a type, and what it links to; numpydoc knows the most common ones."""
WORDS = frozenset(
    {"or", "of", "and", "as", "for", "X", "y", "rows", "labels", "connection"}
    | {"Newton", "IH", "EBM", "Batch", "uniform"}
)
"""Words between types, and of names of methods."""


def mapping(folder: Path = FOLDER) -> dict[str, tuple[str, str]]:
    """For `intersphinx_mapping`: where links go, and the file that knows the names."""
    folder.mkdir(exist_ok=True)
    found = {}
    for name, site in SITES.items():
        packed = folder / f"{name}.inv"
        sphobjinv.writebytes(packed, sphobjinv.compress(inventory_of(name).data_file()))
        found[name] = (site, str(packed))
    return found


def inventory_of(name: str) -> sphobjinv.Inventory:
    """Our lines of a project, as an inventory."""
    head = INVENTORY_HEAD.format(name=name)
    lines = LINES.read_text(encoding="utf-8").partition(f"[{name}]\n")[2].partition("\n\n")[0]
    return sphobjinv.Inventory(f"{head}{lines}\n".encode())


def differences(whole: Path) -> Iterator[str]:
    """Lines of ours that a project's own inventory does not have, or has otherwise."""
    for name in SITES:
        path = whole / f"{name}.inv"
        if not path.exists():
            yield f"{name}: not compared, {path} is missing; fetch {SITES[name]}objects.inv"
            continue
        theirs = {_entry_line(one) for one in sphobjinv.Inventory(path).objects}
        ours = inventory_of(name).objects
        yield from (f"{name}: {_entry_line(one)}" for one in ours if _entry_line(one) not in theirs)


def _entry_line(one: sphobjinv.DataObjStr) -> str:
    return f"{one.name} {one.domain}:{one.role} {one.uri_expanded}"


if __name__ == "__main__":
    sys.exit("\n".join(differences(Path(sys.argv[1]))) or None)
