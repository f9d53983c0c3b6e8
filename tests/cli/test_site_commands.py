"""`hedgerow site` as it is typed, in this process."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.deployment.approve import missing_lines
from hedgerow.deployment.site_state import StateFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import ParameterError
from hedgerow.federation.audit_log import lines_of
from hedgerow.federation.policy import TEMPLATE
from support.network import World

RUN = CliRunner()


def typed(*words: str | Path, answer: str = "") -> str:
    done = RUN.invoke(app, [str(word) for word in words], input=answer, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, dp_model="distributed", lifetime="3")


def test_a_new_site_shows_its_key_and_allows_nothing(tmp_path):
    root = tmp_path / "north"
    output = typed("site", "init", root, "--name", "north", "--anchor", tmp_path / "anchor")
    identity = StateFolder.open(root).identity()
    assert identity.fingerprint in output
    assert identity.public.hex() in output
    assert (root / "policy.toml").read_text() == TEMPLATE


def rows_of(world: World) -> list[str]:
    return ["--data", str(world.data_of(world.sites[0])), "--target", "target"]


def approving(world: World, *more: str) -> list[str]:
    state = str(world.sites[0].root)
    return ["site", "approve", str(world.study_file), *rows_of(world), "--state", state, *more]


def test_check_tells_what_does_not_fit_and_writes_nothing(world):
    done = RUN.invoke(app, ["site", "check", str(world.study_file), *rows_of(world)])
    assert done.exit_code == 1  # the rows of this world are out of range on purpose
    assert "clamped" in done.output
    assert "look at this: column 'age'" in done.output
    assert not world.sites[0].store_file.exists()


def test_rows_of_which_none_can_be_used_are_told_of(world, tmp_path):
    text = world.data_of(world.sites[0]).read_text().replace(",yes", ",ja").replace(",no", ",nein")
    (tmp_path / "rows.csv").write_text(text)
    words = ["site", "check", str(world.study_file), "--data", str(tmp_path / "rows.csv")]
    done = RUN.invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 1
    assert "no row can be used" in done.output


def test_a_person_is_asked_and_no_is_no(world):
    site = world.sites[0]
    words = approving(world)
    asked = RUN.invoke(app, words, input="n\n")
    assert asked.exit_code != 0
    assert "never leaves" in asked.output
    assert "of this site's lifetime" in asked.output
    assert "alone epsilon" in asked.output
    assert not list(site.study_folders())
    assert noted(site, "not approved").endswith("said no")
    assert "approved: study" in typed(*words, answer="y\n")
    assert "rho" in noted(site, "approved")
    said = typed("site", "status", site.root)
    assert "study" in said
    assert "open" in said
    assert "counted in" in said
    assert "mu squared" in said
    assert "approved study" in typed("ledger", "show", site.root)
    assert "all links, signatures and sums are ok" in typed("ledger", "verify", site.root)
    lines = [json.loads(line) for line in typed("ledger", "export", site.root).splitlines()]
    assert lines[0]["key"] == site.identity().public.hex()
    assert {"seq", "body", "head", "signature"} == set(lines[1])
    kept = RUN.invoke(app, ["site", "revoke", str(site.root), "study"], input="n\n")
    assert kept.exit_code != 0
    assert "cannot be approved again" in kept.output
    assert "open" in typed("site", "status", site.root)
    assert "revoked" in typed("site", "revoke", site.root, "study", answer="y\n")


def refused(*words: str | Path) -> str:
    """The error of a command that must fail."""
    done = RUN.invoke(app, [str(word) for word in words])
    assert done.exit_code != 0
    return f"{done.output}{done.exception}"


def noted(site: StateFolder, event: str) -> str:
    """What the last line of this event in the site's audit log says."""
    return str([line for line in lines_of(site.audit_file) if line["event"] == event][-1]["what"])


def test_a_policy_that_allows_nothing_says_how_to_open_it(world):
    site = world.sites[0]
    site.policy_file.write_text(TEMPLATE)
    words = approving(world, "--yes")
    for said in (refused(*words), noted(site, "not approved")):
        assert "its policy allows nothing yet" in said
        assert "under [lifetime] epsilon and delta" in said
    assert not list(site.study_folders())


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('epsilon = "3"', 'epsilon = "0.5"', "would commit"),
        ('delta = "1e-5"', 'delta = "0"', "counts in epsilon and the study in mu squared"),
    ],
)
def test_a_lifetime_budget_that_does_not_suffice_is_logged_and_leaves_nothing(world, old, new, why):
    site = world.sites[0]
    site.policy_file.write_text(site.policy_file.read_text().replace(old, new))
    words = approving(world, "--yes")
    assert why in refused(*words)
    assert why in noted(site, "not approved")
    assert not list(site.study_folders())
    assert not site.store_file.exists()


def test_a_study_that_was_ended_is_refused_with_a_line(world):
    site = world.sites[0]
    words = approving(world, "--yes")
    typed(*words)
    typed("site", "revoke", site.root, "study", "--yes")
    assert "was approved before" in refused(*words)
    assert "was approved before" in noted(site, "not approved")


def test_a_study_that_is_closed_has_a_signed_last_word_and_is_over(world):
    site = world.sites[0]
    words = approving(world, "--yes")
    typed(*words)
    kept = RUN.invoke(app, ["site", "close", str(site.root), "study"], input="n\n")
    assert kept.exit_code != 0
    with closing(site.site_store()) as store:
        account = next(site.study_folders()).approval()["study"]
        assert store.memory(account).last_word() is None
        assert "a service holds this site's store" in refused(
            "site", "close", site.root, "study", "--yes"
        )
    assert "closed: study" in typed("site", "close", site.root, "study", "--yes")
    with closing(site.site_store()) as store:
        assert not store.ledger.is_open(account)
        assert store.memory(account).last_word() is not None


def test_approving_twice_takes_nothing_more_and_says_so(world):
    site = world.sites[0]
    words = approving(world, "--yes")
    typed(*words)
    typed(*words)
    events = [line["event"] for line in lines_of(site.audit_file)]
    assert events.count("approved") == events.count("approved again") == 1
    assert noted(site, "approved again").endswith("nothing more is taken")


def test_an_empty_ledger_says_that_it_is_empty(world):
    assert "given nothing away" in typed("ledger", "show", world.sites[0].root)


def test_a_backup_is_made_and_brought_back_by_hand(world, tmp_path):
    site = world.sites[0]
    world.approve_at(site, world.study_file)
    typed("site", "backup", site.root, tmp_path / "copy")
    words = ["site", "restore", tmp_path / "copy", tmp_path / "back", "--anchor", site.anchor]
    assert "can never answer again" in refused(*words)
    assert not (tmp_path / "back").exists()
    assert "restored; nothing was lost." in typed(*words, "--yes")
    assert "study" in typed("site", "status", tmp_path / "back")


@pytest.mark.parametrize("words", [("backup", "{root}", "{copy}"), ("rotate-key", "{root}")])
def test_before_the_first_approval_there_is_no_ledger_to_keep(world, tmp_path, words):
    site, copy = world.sites[0], tmp_path / "copy"
    told = refused("site", *(word.format(root=site.root, copy=copy) for word in words))
    assert "has approved no study yet" in " ".join(told.split())
    assert not copy.exists()
    assert not site.store_file.exists()


def test_rows_are_selected_from_a_database(world, tmp_path):
    import duckdb

    database = tmp_path / "rows.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "CREATE TABLE rows AS SELECT * FROM "
            f"read_csv('{world.data_of(world.sites[0])}', all_varchar = true)"
        )
    words = ["site", "check", str(world.study_file), "--data", str(database)]
    done = RUN.invoke(app, [*words, "--sql", "SELECT * FROM rows"])
    assert "rows that can be used: 40" in done.output


# ----------------------------------------------------------------------------------------- Flower
def test_the_executor_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    words = ["site", "flower", "--site", "north", "--socket", "socket", "--secret"]
    with pytest.raises(ParameterError, match="is no file; write 32 random bytes"):
        RUN.invoke(app, [*words, str(tmp_path / "secret")], catch_exceptions=False)
    (tmp_path / "secret").write_bytes(bytes(32))
    with (
        patch.dict(os.environ),  # what flwr is told stands there
        pytest.raises(ParameterError, match=r"pip install 'hedgerow\[flower\]'"),
    ):
        RUN.invoke(app, [*words, str(tmp_path / "secret")], catch_exceptions=False)


# ----------------------------------------------------------------------------- lines of a policy
def test_approving_proposes_exactly_the_lines_that_lack_and_writes_them_with_name_and_date(world):
    site = world.sites[0]
    site.policy_file.write_text(TEMPLATE)
    study = StudyFile.read(world.study_file)
    lines = missing_lines(site, study)
    names = [line.name for line in lines]
    assert names == [
        "methods", "features", "dp_models", "epsilon_per_study", "delta_per_study", "delta",
        "epsilon", "site-2", "site-3",
    ]  # fmt: skip
    said = typed(*approving(world, "--by", "Dr. A. Weber"), answer="y\n" * (len(lines) + 1))
    assert said.count("Write this line?") == len(lines)
    assert "approved: study" in said
    text = site.policy_file.read_text()
    assert text.count("# Dr. A. Weber, 20") == len(lines)
    assert "# Ceilings that hold as they stand here" in text  # other lines and comments stay
    assert missing_lines(site, study) == []
    assert "approved" in [line["event"] for line in lines_of(site.audit_file)]
    for line in lines:  # exactly: without any one of them the study is refused
        without = re.sub(rf'(?m)^"?{line.name}"?\s*=.*# Dr\. A\. Weber.*\n', "", text)
        assert without != text
        fresh = world.sites[1] if line.table == "lifetime" else site  # that has paid nothing yet
        fresh.policy_file.write_text(without)
        left = missing_lines(fresh, study)
        pinned = line.table == "trusted_sites" and study.study.threshold <= 2
        assert pinned or line.name in [one.name for one in left]
    site.policy_file.write_text(text)


def test_a_no_to_any_line_or_at_the_end_leaves_the_policy_and_the_ledger_as_they_were(world):
    site = world.sites[0]
    site.policy_file.write_text(TEMPLATE)
    lines = missing_lines(site, StudyFile.read(world.study_file))
    for yeses in range(len(lines) + 1):
        done = RUN.invoke(app, approving(world), input="y\n" * yeses + "n\n")
        assert done.exit_code != 0
        assert site.policy_file.read_text() == TEMPLATE
        assert not list(site.study_folders())
        assert noted(site, "not approved").endswith("said no")


def test_the_study_that_was_shown_is_approved_whatever_becomes_of_its_file(world, monkeypatch):
    site, shown = world.sites[0], StudyFile.read(world.study_file)

    def answer(words: str, **how) -> bool:
        text = world.study_file.read_text(encoding="utf-8")
        world.study_file.write_text(text.replace("epsilon = 1", "epsilon = 2"), encoding="utf-8")
        return True

    site.policy_file.write_text(TEMPLATE)
    monkeypatch.setattr("typer.confirm", answer)
    typed(*approving(world))
    assert StudyFile.read(world.study_file).study.hash != shown.study.hash
    (kept,) = site.study_folders()
    assert StudyFile.read(kept.study_file).study.hash == shown.study.hash


def test_lines_keep_what_a_policy_allowed_before_also_over_several_lines(world):
    site = world.sites[0]
    site.policy_file.write_text(
        'features = [\n  "weight",  # ours\n  "age",\n]\nmethods = ["Other"]\n'
        '[lifetime]\nepsilon="9"\n'
    )
    typed(*approving(world, "--extend-policy", "--yes"))
    policy = site.policy().policy
    study = StudyFile.read(world.study_file).study
    assert policy.features == {"weight", "age", *study.schema.names}
    assert policy.methods == {"Other", study.method}
    assert "not confirmed, for the study" in site.policy_file.read_text()
    assert site.policy().lifetime_epsilon == 9  # enough as it was


def test_the_lifetime_that_is_proposed_is_the_smallest_that_pays(world):
    site = world.sites[0]
    site.policy_file.write_text(TEMPLATE)
    study = StudyFile.read(world.study_file)
    (line,) = [one for one in missing_lines(site, study) if one.name == "epsilon"]
    typed(*approving(world, "--extend-policy", "--yes"))
    text, least = site.policy_file.read_text(), Fraction(line.value)
    less = text.replace(f'epsilon = "{line.value}"', f'epsilon = "{least - Fraction(1, 100)}"')
    site.policy_file.write_text(less)
    another = world.sites[1]
    another.policy_file.write_text(less)
    assert "epsilon" in [one.name for one in missing_lines(another, study)]


def test_a_site_that_is_not_in_the_roster_or_has_no_rows_is_asked_for_nothing(world, tmp_path):
    stranger = StateFolder.create(tmp_path / "x", "x", tmp_path / "anchors/x")
    words = [*approving(world)[:-1], str(stranger.root), "--extend-policy", "--yes"]
    assert "does not hold this site's key" in refused(*words)
    assert stranger.policy_file.read_text() == TEMPLATE


def test_the_only_state_folder_here_is_taken(world, monkeypatch, tmp_path):
    monkeypatch.chdir(world.sites[0].root)
    words = approving(world, "--yes")
    del words[words.index("--state") : words.index("--state") + 2]
    typed(*words)
    monkeypatch.chdir(tmp_path)
    assert "3 state folders of sites here" in refused(*words)
