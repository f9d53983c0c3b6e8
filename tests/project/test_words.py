"""The words that people read are the field's: retired ones do not come back."""

from __future__ import annotations

import ast
import inspect
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main

import hedgerow
from hedgerow.cli.main import app
from hedgerow.methods.registry import paper_methods
from support.effort import syntax_of

ROOT = Path(__file__).parents[2]
LIST = tomllib.loads((ROOT / "tests/project/retired_words.toml").read_text(encoding="utf-8"))
RETIRED: dict[str, str] = LIST["retired"]
EXCEPTIONS: list[dict[str, str]] = LIST.get("exception", [])
FRONT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
MADE_ELSEWHERE = {"proofs", "_build", "reference", "gallery", "mutants.md"}
"""Mathematics, and what a build makes of texts that are searched here."""
EXPLAINED = ("audit", "deployment", "federation", "privacy", "secagg")
"""Packages whose docstrings and comments are searched too."""


class Text(NamedTuple):
    """What somebody reads, and where it stands."""

    place: str
    words: str


# ------------------------------------------------------------------------------ what people read
def pages() -> Iterator[Text]:
    for page in [*FRONT, *sorted((ROOT / "docs").rglob("*.md"))]:
        if not MADE_ELSEWHERE & set(page.relative_to(ROOT).parts):
            yield Text(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))


def signatures() -> Iterator[Text]:
    """Names of what is public, of its methods and of their parameters; what help() shows."""
    for name in hedgerow.__all__:
        thing = getattr(hedgerow, name)
        yield Text(f"hedgerow.{name}", f"{name}\n{inspect.getdoc(thing) or ''}")
        if callable(thing):
            yield from _parameters(f"hedgerow.{name}", thing)
        if inspect.isclass(thing):
            for method in (one for one in dir(thing) if not one.startswith("_")):
                words = inspect.getdoc(getattr(thing, method)) or ""
                yield Text(f"hedgerow.{name}.{method}", f"{method}\n{words}")
                if callable(getattr(thing, method)):
                    yield from _parameters(f"hedgerow.{name}.{method}", getattr(thing, method))
    for name, made in paper_methods().items():
        yield Text(name, name)
        yield from _parameters(name, made)


def _parameters(place: str, thing: object) -> Iterator[Text]:
    try:
        parameters = inspect.signature(thing).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return
    yield from (Text(f"{place}({name})", name) for name in parameters)


def command_line() -> Iterator[Text]:
    """Names and help of all commands and their options."""
    yield from _command("hedgerow", typer.main.get_command(app))


def _command(place: str, command: object) -> Iterator[Text]:
    yield Text(place, f"{place}\n{getattr(command, 'help', '') or ''}")
    for one in getattr(command, "params", ()):
        words = [one.name, *one.opts, getattr(one, "help", None) or ""]
        yield Text(f"{place} {one.name}", "\n".join(words))
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(f"{place} {name}", inner)


def source_texts(folder: str = "src/hedgerow") -> Iterator[Text]:
    """Errors, statements, help: all texts of the source that are more than a word."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        tree = syntax_of(file)
        comments = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and id(node) not in comments and " " in node.value.strip():
                yield Text(str(file.relative_to(ROOT)), node.value)


def explanations() -> Iterator[Text]:
    """Docstrings and comments."""
    for package in EXPLAINED:
        for file in sorted((ROOT / "src/hedgerow" / package).rglob("*.py")):
            lines = iter(file.read_text(encoding="utf-8").splitlines(keepends=True))
            for kind, text, *_ in tokenize.generate_tokens(lines.__next__):
                if kind == tokenize.COMMENT or text.startswith('"""'):
                    yield Text(str(file.relative_to(ROOT)), text)


KINDS = {
    "pages": pages,
    "signatures": signatures,
    "command line": command_line,
    "texts of the source": source_texts,
    "texts of the studies' pages": partial(source_texts, "studies"),
    "docstrings and comments": explanations,
}


# ------------------------------------------------------------------------------------ the search
def whole_words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w])({pattern})(?![\w])", re.IGNORECASE)


EACH_RETIRED = {whole_words(pattern): better for pattern, better in RETIRED.items()}
ANY_RETIRED = whole_words("|".join(RETIRED))


def retired_words(text: Text) -> list[str]:
    """Each line with a retired word that no exception allows, and the word to use."""
    found = []
    allowed = [one["text"] for one in EXCEPTIONS if text.place.startswith(one["where"])]
    for line in text.words.splitlines():
        rest = line
        for words in allowed:
            rest = rest.replace(words, "")
        for retired, better in EACH_RETIRED.items() if ANY_RETIRED.search(rest) else ():
            if retired.search(rest):
                found.append(f"{text.place}: {line.strip()[:160]} -> {better}")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_retired_word_comes_back(kind):
    texts = list(KINDS[kind]())
    assert len(texts) > 40
    assert [line for text in texts for line in retired_words(text)] == []


def test_every_exception_is_needed_and_says_why():
    everything = [text for kind in KINDS.values() for text in kind()]
    for one in EXCEPTIONS:
        assert len(one["why"].split()) > 2, one
        assert any(t.place.startswith(one["where"]) and one["text"] in t.words for t in everything)


@pytest.mark.parametrize(
    "words",
    ["The dearest round", "each party, alone", "`placement=`", "n_trees=5", "recipes = []"],
)
def test_a_retired_word_would_be_seen(words):
    """The negative control, in a page, an error and a signature alike."""
    for place in ("docs/tutorial.md", "src/hedgerow/errors.py", "hedgerow.fit"):
        assert len(retired_words(Text(place, words))) == 1


def test_words_that_only_look_alike_pass():
    words = "partly cleaning, a participant, n_estimators"
    assert retired_words(Text("docs/tutorial.md", words)) == []


# --------------------------------------------------------------------------------------------------
# Names of variables, parameters and fields are nouns: few are bare participles or pronouns.
SOURCE = Path(__file__).parents[2] / "src" / "hedgerow"
CEILING = 0.0065
"""Largest allowed part of all names."""
LISTED = """
    found said told known given asked held kept one what who each other made done sent put taken
    drawn seen meant heard begun opened closed counted paid saved joined grown pulled stacked agreed
    named allowed moved wanted read written called met used needed missed listed turned gone
"""
BARE_WORDS = frozenset(LISTED.split())
PARTICIPLE = re.compile(r"[a-z]{2,}ed")
NOUNS = frozenset({"seed", "need", "speed", "feed", "shed"})


def stored_names(tree: ast.AST) -> Iterator[str]:
    """Every name that is assigned to, as a variable, an attribute or a parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def is_bare(name: str) -> bool:
    """Whether a name is a participle or a pronoun without its noun."""
    word = name.strip("_")
    return word in BARE_WORDS or (bool(PARTICIPLE.fullmatch(word)) and word not in NOUNS)


def test_few_names_are_bare_participles_or_pronouns():
    total, bare = 0, dict[str, list[str]]()
    for file in sorted(SOURCE.rglob("*.py")):
        names = list(stored_names(syntax_of(file)))
        total += len(names)
        bare[str(file.relative_to(SOURCE))] = [name for name in names if is_bare(name)]
    count = sum(map(len, bare.values()))
    worst = sorted(bare.items(), key=lambda entry: -len(entry[1]))[:5]
    assert total > 10_000
    assert count <= CEILING * total, f"{count} of {total} names are bare words, most in {worst}"


def test_bare_words_are_seen_wherever_a_name_is_stored():
    source = "def f(told, seed):\n    found, x = told, seed\n    x.kept = [one for one in x]\n"
    names = list(stored_names(ast.parse(source)))
    assert sorted(filter(is_bare, names)) == ["found", "kept", "one", "told"]
    assert len(names) == 6


def test_names_with_a_head_noun_pass():
    assert is_bare("_saved")
    assert is_bare("clipped")
    assert not any(map(is_bare, ("noisy_counts", "kept_rows", "split_gains", "seed")))


# --------------------------------------------------------------------------------------------------
# A public name means one thing; commands have the names that users type, whatever they call.
SHARED_NAMES = {"DEPARTURES", "PAPER", "dp_rf"}
"""Each file of a paper's method has the first two; two papers call a method by the third."""


def public_names(tree: ast.Module) -> Iterator[str]:
    """Classes, functions and constants at the top of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_a_public_name_is_defined_in_one_file():
    places: dict[str, set[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for name in public_names(syntax_of(file)):
            if not name.startswith("_"):
                places.setdefault(name, set()).add(str(file.relative_to(SOURCE)))
    doubled = {name: files for name, files in places.items() if len(files) > 1}
    commands = {name for name, files in doubled.items() if any(f.startswith("cli/") for f in files)}
    assert set(doubled) - {name for name in commands if name.islower()} == SHARED_NAMES


def test_names_at_the_top_of_a_module_are_seen():
    tree = ast.parse("class A:\n    B = 1\ndef c():\n    pass\nD = 1\nE: int = 2\n")
    assert list(public_names(tree)) == ["A", "c", "D", "E"]
