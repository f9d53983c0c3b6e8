"""Every code block of front page, tutorial and how-to pages runs, from top to bottom."""

from __future__ import annotations

import datetime as dt
import re
import sys
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import typer.main
from packaging.requirements import Requirement

import hedgerow
import hedgerow as hr
from docs.release_check import readme_needs
from docs.run_pages import PageRun
from hedgerow.cli.main import app
from support.rows import address, postgres_server

ROOT = Path(__file__).parents[2]
SLOW = {"docs/tutorial_processes.md", "docs/howto/methods.md"}
"""Pages that start processes, or fit every estimator there is."""
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/tutorial*.md")),
    *sorted(ROOT.glob("docs/howto/*.md")),
    ROOT / "docs/migrate.md",
]
RUN = {"python", "console", "bash", "text", "toml"}
KNOWN = RUN | {"ini", "dockerfile", "{toctree}", "{image}", "r"}
MAY_BE_SKIPPED = ("pip install", "git clone", "make ", "nvflare", "--flare")
OTHERS = ("diffprivlib", "interpret.privacy", "CommunicatorContext", "flwr")
"""What a page may show and not run: what needs a network, and code of other packages."""


SKIPPED = re.compile(r"<!-- skip: next [^\n]*-->\n```.*?```", re.S)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def params() -> list[object]:
    return [
        pytest.param(page, marks=[pytest.mark.slow] if named(page) in SLOW else [], id=named(page))
        for page in PAGES
    ]


@pytest.mark.parametrize("page", params())
def test_every_block_of_a_page_runs_and_prints_what_it_shows(page, tmp_path):
    PageRun(page, tmp_path).all()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_hides_no_code_from_the_tests(page):
    text = page.read_text(encoding="utf-8")
    kinds = re.findall(r"^```+([^\s`]+)", text, re.M)
    assert set(kinds) <= KNOWN


SITE = [p for p in sorted(ROOT.glob("docs/**/*.md")) if not {"_build", "paper"} & set(p.parts)]
"""The gallery has a test of its own, and the paper the form of its journal."""


def says_for_whom(text: str) -> bool:
    """In its first words, where a reader decides whether to go on."""
    return re.match(r"# [^\n]+\n\nFor ", text) is not None


@pytest.mark.parametrize("page", SITE, ids=named)
def test_a_page_says_for_whom_it_is(page):
    assert says_for_whom(page.read_text(encoding="utf-8"))


def test_a_page_for_nobody_would_be_seen():
    assert len(SITE) > 60
    assert not says_for_whom("# A page\n\nA sentence.\n\nFor two classes it is one.\n")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_only_what_needs_a_network_is_shown_without_being_run(page):
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"<!-- skip: next [^\n]*-->\n```\w+\n(.*?)```", text, re.S):
        assert any(words in block for words in MAY_BE_SKIPPED + OTHERS), block
    assert "skip: start" not in text


# ---- what a page needs is what it says to install ------------------------------------------------


def brings(word: str) -> set[str]:
    """The packages that an argument of `pip install` puts beside each other."""
    asked = Requirement(word) if word != "." else Requirement("hedgerow")
    if asked.name != "hedgerow":
        return {asked.name}
    every = [Requirement(line) for line in requires("hedgerow") or ()]
    extras = [{"extra": extra} for extra in (*asked.extras, "")]
    return {"hedgerow"} | {
        one.name for one in every if not one.marker or any(map(one.marker.evaluate, extras))
    }


owners_of_modules = cache(packages_distributions)


def not_installed(text: str) -> list[str]:
    """Modules that the page imports and that nothing it says to install brings."""
    named = re.findall(r"(?:^\$ |`)pip install ([^`\n]+)", text, re.M)
    words = {"hedgerow", *(word.strip("'\"") for line in named for word in line.split())}
    known = {package for word in words for package in brings(word)}
    owners = owners_of_modules()
    text = SKIPPED.sub("", text)
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    modules = set(re.findall(r"^(?:import|from) (\w+)", blocks, re.M))
    modules -= {"hedgerow", *sys.stdlib_module_names}
    return sorted(name for name in modules if not known & set(owners.get(name, ())))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_says_to_install_what_it_imports(page):
    assert not_installed(page.read_text(encoding="utf-8")) == []


def test_an_import_that_nobody_installs_would_be_seen():
    page = "{}```python\nimport json\nimport numpy\nimport pandas\nimport duckdb\n```\n"
    assert not_installed(page.format("")) == ["duckdb", "pandas"]
    assert not_installed(page.format("`pip install 'hedgerow[sql]' pandas`\n")) == []


def test_a_release_installs_for_readme_what_readme_says_and_no_more():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme_needs(text) == ["pandas"]


def code_that_runs() -> str:
    """All Python of pages and scripts that some test executes."""
    pages = [SKIPPED.sub("", page.read_text(encoding="utf-8")) for page in PAGES]
    blocks = [b for text in pages for b in re.findall(r"```python\n(.*?)```", text, re.S)]
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.py")]
    return "\n".join([*blocks, *scripts])


def without_example(names: list[str], code: str) -> list[str]:
    return [name for name in names if not re.search(rf"\b(?:hr|hedgerow)\.{name}\b", code)]


def test_every_public_name_has_an_example_that_runs():
    assert without_example(hedgerow.__all__, code_that_runs()) == []


def test_a_public_name_without_an_example_would_be_seen():
    assert without_example(["Ledger", "Legder"], code_that_runs()) == ["Legder"]


# ---- every command is typed somewhere ------------------------------------------------------------

TYPED_BY_OTHER_TESTS = {"docs/network_walk.md", "docs/first_model.md"}
"""Pages with commands that tests of their own run."""
BOTH = re.S | re.M
ELSEWHERE = {
    "hedgerow schema review": "waits for a person; tests/cli/test_review.py has a browser",
    "hedgerow site lock-flare": "needs a FLARE kit; tests/federation/test_flare.py has one",
    "hedgerow site flower": "needs a SuperNode; tests/federation/test_flower_network.py has three",
    "hedgerow site init": "for FLARE and Flower alone; tests/cli/test_site_commands.py does it",
    "hedgerow site close": "ends a study by hand; tests/cli/test_site_commands.py does it",
    "hedgerow study watch": "waits for a person; tests/deployment/test_live.py has a browser",
    "hedgerow compare": "needs two models; tests/report/test_sheet.py has them",
    "hedgerow study stop": "needs a run under way; tests/cli/test_study_commands.py has one",
    "hedgerow study resume": "needs a run cut off; tests/deployment/test_faults.py cuts many",
}


def commands(path: str, command: object) -> list[str]:
    children = getattr(command, "commands", None)
    if children is None:
        return [path]
    return [name for word in children for name in commands(f"{path} {word}", children[word])]


def never_typed(every: list[str]) -> set[str]:
    pages = [*PAGES, *(ROOT / name for name in TYPED_BY_OTHER_TESTS)]
    texts = [SKIPPED.sub("", page.read_text(encoding="utf-8")) for page in pages]
    blocks = [one for text in texts for one in re.findall(r"^```(.*?)\n(.*?)^```$", text, BOTH)]
    typed = "\n".join(code for kind, code in blocks if kind in {"console", "bash", ""})
    return {name for name in every if not re.search(rf"{name}\b", typed)}


def test_every_command_is_typed_on_a_page_that_runs_or_in_a_test_that_is_named():
    assert never_typed(commands("hedgerow", typer.main.get_group(app))) == {*ELSEWHERE}


def test_a_command_that_nobody_types_would_be_seen():
    assert never_typed(["hedgerow fit", "hedgerow fitt"]) == {"hedgerow fitt"}


# ---- how many commands a consortium types --------------------------------------------------------
MOST_COMMANDS = {"rehearsal": 3, "coordinator": 4, "each site": 4}
CONSORTIUM = ROOT / "docs/tutorial_processes.md"


def typed_by(role: str, page: str) -> list[str]:
    """The commands of a role, each once: what stands in a loop over sites is typed by each."""
    blocks = re.findall(rf"^```bash\n# {role}\n(.*?)^```$", page, BOTH)
    return [" ".join(words) for words in re.findall(r"hedgerow (\w+) (\w+)", "\n".join(blocks))]


def too_many(page: str) -> set[str]:
    return {role for role, most in MOST_COMMANDS.items() if len(typed_by(role, page)) > most}


def test_a_consortium_takes_few_commands_and_the_page_that_runs_says_all_of_them():
    page = CONSORTIUM.read_text(encoding="utf-8")
    assert typed_by("rehearsal", page) == ["new readmission", "rehearse readmission"]
    assert typed_by("coordinator", page) == [
        "new hospitals", "study invite", "study check", "study run",
    ]  # fmt: skip
    assert typed_by("each site", page) == ["site enroll", "site approve", "site serve"]
    assert too_many(page) == set()
    before_the_model = page.partition("hedgerow show")[0]
    shown = re.findall(
        r"^ *hedgerow \w+", "".join(re.findall(r"```bash\n(.*?)```", before_the_model, re.S)), re.M
    )
    assert len(shown) == 9  # negative control: no command hides in a block without a role
    assert too_many(page.replace("# each site\n", "# coordinator\n")) == {"coordinator"}


# ---- negative controls: a page that is wrong is seen ---------------------------------------------

WRONG = {
    "a block that raises": ("```python\n1 / 0\n```\n", ZeroDivisionError),
    "an unknown name": (
        "```python\nimport hedgerow as hr\nhr.TreeClasifier\n```\n",
        AttributeError,
    ),
    "a false output": ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", AssertionError),
    "no output": ("```python\nx = 1\n```\n\n```text noisy\n3\n```\n", AssertionError),
    "a failing command": ("```console\n$ hedgerow show nowhere.json\n```\n", AssertionError),
    "a failing program": ("```console\n$ ls nowhere\n```\n", AssertionError),
    "a failing script": ("```bash\nfalse\ntrue\n```\n", AssertionError),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_page_that_is_wrong_is_seen(name, tmp_path):
    text, error = WRONG[name]
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(error):
        PageRun(page, tmp_path).all()


def test_blocks_share_names_files_and_outputs_and_a_skipped_one_does_not_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```toml a.toml\nx = 3\n```\n\n"
        "```python\nfrom pathlib import Path\ny = Path('a.toml').read_text()\n```\n\n"
        '<!-- skip: next "makes no sense" -->\n```python\n1 / 0\n```\n\n'
        "```python\nprint(y)\n```\n\n```text\nx = 3\n```\n\n"
        "```console\n$ cat a.toml | tr 3 4\n```\n\n```text noisy\nold\n```\n\n"
        "```console\n$ read a; read b; echo $b $a\n> 1\n> 2\n```\n\n```text\n2 1\n```\n",
        encoding="utf-8",
    )
    run = PageRun(page, tmp_path)
    run.all()
    assert run.rewritten() == page.read_text(encoding="utf-8").replace("old", "x = 4")


# --------------------------------------------------------------------------------------------------
# docs/omop.md, run as it stands over invented tables of the Common Data Model.
PAGE = (Path(__file__).parents[2] / "docs/omop.md").read_text(encoding="utf-8")
QUERY = re.search(r"```sql\n(.*?)```", PAGE, re.S)[1]
CODE = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
PERSONS = 300


def tables():
    rng = np.random.default_rng(11)
    day = dt.date(2024, 1, 1)
    person, visits, conditions, drugs = [], [], [], []
    for k in range(PERSONS):
        person.append((k, int(rng.integers(1920, 2005)), int(rng.choice([8507, 8532, 0]))))
        starts = day + dt.timedelta(int(rng.integers(0, 300)))
        ends = starts + dt.timedelta(int(rng.integers(1, 20)))
        visits.append((len(visits), k, 9201, starts, ends))
        if rng.random() < 0.4:
            again = ends + dt.timedelta(int(rng.integers(1, 60)))
            visits.append((len(visits), k, 9202, again, again))
        if rng.random() < 0.7:
            conditions.append((len(conditions), k, 201826, day))
        for _ in range(rng.integers(0, 6)):
            drugs.append((len(drugs), k, 1503297, day))
    heads = {
        "person": ("person_id", "year_of_birth", "gender_concept_id"),
        "visit_occurrence": (
            "visit_occurrence_id",
            "person_id",
            "visit_concept_id",
            "visit_start_date",
            "visit_end_date",
        ),
        "condition_occurrence": (
            "condition_occurrence_id",
            "person_id",
            "condition_concept_id",
            "condition_start_date",
        ),
        "drug_exposure": (
            "drug_exposure_id",
            "person_id",
            "drug_concept_id",
            "drug_exposure_start_date",
        ),
    }
    rows = (person, visits, conditions, drugs)
    return {
        name: pa.table(dict(zip(head, map(list, zip(*some, strict=True)), strict=True)))
        for (name, head), some in zip(heads.items(), rows, strict=True)
    }


@pytest.fixture(scope="module")
def clinic():
    with duckdb.connect() as connection:
        for name, table in tables().items():
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            connection.unregister("given")
        yield connection


def walked(connection):
    known = {"connection": connection, "query": QUERY}
    exec(CODE, known)
    return known["model"]


def test_the_page_makes_a_private_model_in_duckdb(clinic, capsys):
    model = walked(clinic)
    assert "epsilon" in capsys.readouterr().out
    assert model.classes_.tolist() == ["no", "yes"]


def test_a_person_is_one_record_of_the_cohort(clinic):
    with_ids = QUERY.replace("SELECT\n  CAST(2024", "SELECT s.person_id,\n  CAST(2024", 1)
    ids = clinic.execute(with_ids).fetchnumpy()["person_id"]
    assert 100 < len(ids) == len(set(ids.tolist()))


def test_duckdb_and_postgres_make_one_model(clinic):
    from adbc_driver_postgresql import dbapi

    model = hr.TreeClassifier(walked(clinic).schema, dp_model="none", random_state=0)
    asked = {"sql": QUERY, "target": "back"}
    here = model.fit(clinic, push_down=True, **asked).model_
    assert model.fit(clinic, **asked).model_ == here
    with (
        postgres_server() as words,
        dbapi.connect(address(words), autocommit=True) as connection,
    ):
        with connection.cursor() as cursor:
            for name, table in tables().items():
                cursor.adbc_ingest(name, table, mode="create")
        assert model.fit(connection, push_down=True, **asked).model_ == here
