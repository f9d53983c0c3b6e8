"""A model that proves itself: what `hedgerow verify --transcript` refuses, and by what name.

The coordinator is the liar here: it signs whatever it likes, with its own keys.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.deployment import replay
from hedgerow.deployment import run as runs
from hedgerow.deployment import verify as verifying
from hedgerow.deployment.run import run_study
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.site_state import StateFolder
from hedgerow.deployment.verify import Outcome, add_vouch, sign_model, verdict, verify_model
from hedgerow.errors import HedgerowError, ParameterError, RoundFailed
from hedgerow.federation import exchange as posts
from hedgerow.federation import journal
from hedgerow.federation.transcript import FileTranscript, Transcript, TranscriptRound
from hedgerow.federation.wire import Bundle, Receiver
from hedgerow.methods import model_file
from hedgerow.privacy.ledger.store import make_private
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.statement import statement as statements
from hedgerow.privacy.study import Study
from hedgerow.secagg import client as secagg_client
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.membership import MaskedVector
from hedgerow.version import __version__
from spec import make_vectors, verify_transcript
from support.network import PROCESSORS, processors
from support.worlds import World

BOOSTED = 'estimator = "BoostedTreesClassifier"\n[model.parameters]\nn_estimators = 4'
FOREST = 'estimator = "ExtraTreesClassifier"\n[model.parameters]\nn_estimators = 3'


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    now = [0.0]

    def clock():
        now[0] += 0.2
        return now[0]

    patched = partial(posts.RetryPolicy, clock=clock, wait=lambda seconds: clock())
    monkeypatch.setattr(runs, "RetryPolicy", patched)


def trained(folder, **terms):
    world = World(folder, **{"dp_model": "distributed", "epsilon": "80"} | terms)
    run_study(world.folder, world)
    world.close()
    return world


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def world(kept, tmp_path):
    """A copy of the run's folder that a test may change."""
    shutil.copytree(kept.folder.path, tmp_path / "run")
    return Copied(RunFolder(tmp_path / "run"), kept.agreed)


class Copied:
    def __init__(self, folder, agreed):
        self.folder, self.agreed = folder, agreed
        self.transcript = folder.path / "transcript.bin"

    def outcomes(self):
        checks = verify_model(self.folder.model_file, self.folder.study_file, self.transcript)
        return {check.name: check for check in checks}

    def failed(self):
        return {what for what, check in self.outcomes().items() if check.has_failed}

    def resign(self):
        """As the coordinator that lies can do it."""
        shown = Transcript.read(self.transcript)
        sign_model(self.folder, self.agreed, self.folder.identity(self.agreed), shown)

    def rewrite(self, change, *, closed=True):
        """The transcript anew, with other rounds."""
        old = Transcript.read(self.transcript)
        self.transcript.unlink()
        new = FileTranscript(self.transcript)
        for attempt, (session_id, keys) in old.key_sessions.items():
            new.add_session(attempt, _Epoch(session_id, keys))
        for one in change([old.rounds[number] for number in sorted(old.rounds)]):
            new.add_round(one)
        if closed:
            new._add(b"C", b"".join(len(m).to_bytes(4, "big") + m for m in old.last_words))
        new.close()
        self.resign()


class _Epoch:
    def __init__(self, id, ephemerals):
        self.id, self.ephemerals = id, ephemerals


def test_an_honest_model_is_computed_anew_from_what_the_sites_signed(world):
    found = world.outcomes()
    assert not world.failed()
    wanted = {"transcript", "replay", "model", "messages", "charges", "final"}
    assert wanted <= set(found)
    assert all(found[what].outcome is Outcome.PASSED for what in wanted)
    assert verdict(list(found.values())) == (
        "valid, computed anew from what the sites signed, receipts of 3 of 3 sites"
    )


TERMS = {
    "boosted": {"model": BOOSTED},
    "in two, one lost": {"n_sites": 4, "threshold": 3, "at_once": False},
    "held out": {"hold_out": 3},
    "without noise": {"dp_model": "none", "epsilon": "1"},
}


@pytest.mark.parametrize("name", TERMS)
def test_every_kind_of_run_is_replayed(tmp_path, name):
    world = World(tmp_path, **{"dp_model": "distributed", "epsilon": "80"} | TERMS[name])

    def leave(event):
        if name.endswith("lost") and event["event"] == "round":
            world.away = {"site-4"} if event["round"] == 1 else set()

    run_study(world.folder, world, listen=leave)
    assert not Copied(world.folder, world.agreed).failed()
    world.close()


@pytest.mark.parametrize("restarted", [0, 2, 4])
def test_a_void_round_is_in_the_transcript_and_in_the_charges(tmp_path, restarted):
    """One site lost after all but it were charged; or sites restarted, which charge nothing."""
    world = World(
        tmp_path, n_sites=4, threshold=3, dp_model="distributed", epsilon="80", reserve="0.6"
    )

    def leave(event):
        if event["event"] == "round":
            world.away = {"site-4"} if event["round"] == 1 and not restarted else set()
            for k in range(restarted if event["round"] == 1 else 0):
                world.start_anew(k)

    model = run_study(world.folder, world, listen=leave)
    rounds = Transcript.read(world.folder.path / "transcript.bin").rounds
    assert [one.is_void for one in rounds.values()].count(True) == 1
    assert sum(record.void for record in model.run_.rounds) == 1
    copied = Copied(world.folder, world.agreed)
    assert not copied.failed()
    counts_more = "counts failed rounds in full" in copied.outcomes()["receipts"].words
    assert counts_more == (restarted == 4)
    world.close()


def test_another_release_is_named_and_must_compute_the_same_model(world, monkeypatch):
    """A patch that changes no number verifies; one that asks something else says who made it."""
    monkeypatch.setattr(verifying, "source_digest", lambda: "cd" * 32)
    monkeypatch.setattr(statements, "source_digest", lambda: "cd" * 32)
    assert not world.failed()
    made = model_file.read(world.folder.model_file)["privacy"]["source"][:12]
    words = (
        f"made by hedgerow {__version__} ({made}), computed anew by {__version__} (cdcdcdcdcdcd)"
    )
    assert words in world.outcomes()["model"].words
    monkeypatch.setattr(replay.Sender, "encode", lambda sender, queries: Bundle(b"[]", b""))
    assert world.failed() == {"replay"}
    assert world.outcomes()["replay"].words.endswith(words)


# ------------------------------------------------------------------------------ models that lie
def rewritten(folder, change):
    """Another content under a digest of its own."""
    document = model_file.open_document(folder.model_file)
    content = json.loads(json.dumps(document["content"]))
    change(content)
    folder.model_file.unlink()
    model_file.write(folder.model_file, content)


def numbers_negated(value, key=""):
    if isinstance(value, dict):
        return {k: numbers_negated(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [numbers_negated(one, key) for one in value]
    return -value if isinstance(value, float) and value else value


def test_a_model_whose_leaves_were_turned_round_is_refused_by_name(world):
    def change(content):
        content["model"] = numbers_negated(content["model"])

    rewritten(world.folder, change)
    world.resign()
    assert world.failed() == {"model"}
    assert "model" in world.outcomes()["model"].words
    without = verify_model(world.folder.model_file, world.folder.study_file)
    assert not any(check.has_failed for check in without)  # what signatures alone can tell


CONTENT_CHANGES = {
    "classes": lambda before: turned(before),
    "parameters": lambda before: before | {"max_depth": 3},
    "columns": lambda before: ["dose", "age", "ward"],
}


@pytest.mark.parametrize("entry", CONTENT_CHANGES)
def test_names_that_turn_a_model_round_are_refused_by_name(world, entry):
    """Not a leaf is touched: what the classes are called decides what a prediction says."""

    def change(content):
        before = content[entry]
        content[entry] = CONTENT_CHANGES[entry](before)
        assert content[entry] != before

    rewritten(world.folder, change)
    world.resign()
    assert world.failed() == {"model"}
    assert entry in world.outcomes()["model"].words


def turned(value):
    """The same with its first list reversed."""
    if isinstance(value, list):
        return value[::-1]
    return {name: turned(part) if isinstance(part, list) else part for name, part in value.items()}


def test_an_evaluation_that_was_made_better_is_refused_by_name(tmp_path):
    world = trained(tmp_path, hold_out=3)
    copied = Copied(world.folder, world.agreed)
    assert not copied.failed()
    document = model_file.open_document(world.folder.model_file)
    better = json.loads(json.dumps(document["evaluation"]))
    better["privacy"]["caveats"] = []
    model_file.add(world.folder.model_file, "evaluation", better)
    assert copied.failed() == {"model"}
    assert "evaluation" in copied.outcomes()["model"].words


def test_the_list_of_sites_that_closed_is_under_the_coordinator_s_signature(world):
    document = model_file.open_document(world.folder.model_file)
    signed = document["signed"]
    assert sorted(signed["closed"]) == ["site-1", "site-2", "site-3"]
    shorter = {name: one for name, one in signed["closed"].items() if name != "site-2"}
    model_file.add(world.folder.model_file, "signed", signed | {"closed": shorter})
    assert "coordinator" in world.failed()


# ------------------------------------------------------------------------------- sites that vouch
def vouched(kept, world, site=0):
    return add_vouch(
        world.folder.model_file, world.folder.study_file, world.transcript, kept.identities[site]
    )


def test_a_site_that_computed_the_model_anew_vouches_for_it(kept, world):
    assert "vouch" not in verdict(list(world.outcomes().values()))
    vouched(kept, world)
    assert world.outcomes()["vouches"].words == "1 site vouches"
    last = vouched(kept, world, 2)
    assert verdict(last).endswith("receipts of 3 of 3 sites; 2 sites vouch")
    assert not world.failed()


def test_nobody_vouches_for_a_model_that_fails_a_check(kept, world):
    def change(content):
        content["model"] = numbers_negated(content["model"])

    rewritten(world.folder, change)
    world.resign()
    assert any(check.has_failed for check in vouched(kept, world))
    assert "vouches" not in model_file.open_document(world.folder.model_file)["signed"]


def test_a_vouch_is_of_one_model_and_one_site(kept, world, tmp_path):
    vouched(kept, world)
    signed = model_file.open_document(world.folder.model_file)["signed"]
    of_another = signed | {"vouches": {"site-2": signed["vouches"]["site-1"]}}
    model_file.add(world.folder.model_file, "signed", of_another)
    assert world.failed() == {"vouches"}
    assert "site-2" in world.outcomes()["vouches"].words
    model_file.add(world.folder.model_file, "signed", signed)

    def change(content):
        content["model"] = numbers_negated(content["model"])

    rewritten(world.folder, change)
    world.resign()
    fresh = model_file.open_document(world.folder.model_file)["signed"]
    model_file.add(world.folder.model_file, "signed", fresh | {"vouches": signed["vouches"]})
    assert world.failed() == {"vouches", "model"}


def test_a_stranger_does_not_vouch(world):
    place = world.folder.model_file, world.folder.study_file, world.transcript
    with pytest.raises(ParameterError, match="not one of"):
        add_vouch(*place, Identity.generate())


def test_the_statement_and_the_page_say_what_was_verified(world):
    said = world.folder.statement_file.read_text("utf-8")
    assert "verified: valid, computed anew from what the sites signed" in said
    assert "all sites have closed the study" in said
    page = world.folder.report_file.read_text("utf-8")
    assert "All sites have closed the study" in page
    assert "a site that lies can turn a model" in page


def test_the_command_of_a_site_verifies_and_signs_with_the_site_s_own_key(kept, world, tmp_path):
    state = StateFolder.create(tmp_path / "state", "site-1", tmp_path / "anchor")
    state.identity_file.write_bytes(kept.identities[0].to_bytes())
    words = ["site", "verify", state.root, world.folder.model_file, "--transcript"]
    typed = [*words, world.transcript, "--study", world.folder.study_file]
    done = CliRunner().invoke(app, list(map(str, typed)))
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].endswith("1 site vouches")
    assert world.outcomes()["vouches"].outcome is Outcome.PASSED
    done = CliRunner().invoke(app, list(map(str, typed[:-2])))
    assert "no study that was approved here" in str(done.exception)
    make_private(state.studies / "wards-1")
    shutil.copy(world.folder.study_file, state.studies / "wards-1" / "study.toml")
    done = CliRunner().invoke(app, list(map(str, typed[:-2])))
    assert done.exit_code == 0, done.output

    def change(content):
        content["model"] = numbers_negated(content["model"])

    rewritten(world.folder, change)
    world.resign()
    done = CliRunner().invoke(app, list(map(str, typed)))
    assert done.exit_code == 1
    assert done.output.splitlines()[-1] == "FAILED: model"


# ------------------------------------------------------------------------ a site closes by itself
def test_a_site_that_closed_unasked_is_counted_by_its_own_last_word(tmp_path):
    """After its last round and before CLOSE: its people end the study, and say what it cost."""
    world = World(tmp_path, dp_model="distributed", epsilon="80")

    def leave(event):
        if event["event"] == "round" and event["round"] == 3:
            world.clients[2].site.close_unasked()

    run_study(world.folder, world, listen=leave)
    copied = Copied(world.folder, world.agreed)
    assert not copied.failed()
    assert copied.outcomes()["final"].words.endswith("site-3 before the run had ended")
    word = world.clients[2].site.close_unasked()
    assert word == world.site_stores[2].memory(world.study.account).last_word()
    world.close()


def test_a_statement_cut_short_is_refused_by_name(world):
    """It says a quarter of what was spent, and its own arithmetic is right."""

    def change(content):
        said = content["privacy"]
        said["spending"] = said["spending"][:1]
        part = said["spending"][0]["part"]
        said["unspent"] = [{**said["unspent"][0], "part": 1.0 - part}]
        said["spent_fraction"] = part

    rewritten(world.folder, change)
    world.resign()
    assert {"model"} <= world.failed()
    assert "privacy" in world.outcomes()["model"].words


def test_a_second_run_that_is_not_shown_is_refused_by_name(tmp_path, monkeypatch):
    world = World(tmp_path, dp_model="distributed", epsilon="80", reserve="0.6")
    first = RunFolder(tmp_path / "first")
    shutil.copytree(world.folder.path, first.path)

    class Stopped(BaseException):
        pass

    def stop(event):
        if event["event"] == "round":
            raise Stopped

    with pytest.raises(Stopped):
        run_study(first, world, listen=stop)
    later = runs.time.time() + 100
    monkeypatch.setattr(runs.time, "time", lambda: later)
    run_study(world.folder, world)
    copied = Copied(world.folder, world.agreed)
    assert copied.failed() >= {"charges"}
    assert "another run of this study" in copied.outcomes()["charges"].words
    assert "not shown" in copied.outcomes()["charges"].words
    world.close()


# -------------------------------------------------------------------------- transcripts that lie
def flipped(one, which, place):
    message = bytearray(one.messages[which])
    message[place] ^= 1
    messages = list(one.messages)
    messages[which] = bytes(message)
    return replaced(one, messages=tuple(messages))


def replaced(one, **changed):
    named = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return TranscriptRound(**named | changed)


CHANGES = {
    "a flipped bit of a vector": lambda rounds: [flipped(rounds[0], 0, 200), *rounds[1:]],
    "a flipped bit of a signature": lambda rounds: [flipped(rounds[0], 1, -1), *rounds[1:]],
    "a vector of another round": lambda rounds: [
        replaced(rounds[0], messages=(rounds[1].messages[0], *rounds[0].messages[1:])),
        *rounds[1:],
    ],
    "a vector left out": lambda rounds: [
        replaced(rounds[0], messages=rounds[0].messages[1:]),
        *rounds[1:],
    ],
    "a round left out": lambda rounds: [rounds[0], *rounds[2:]],
    "the last round left out": lambda rounds: rounds[:-1],
    "a round said to be void": lambda rounds: [replaced(rounds[0], is_void=True), *rounds[1:]],
    "other questions": lambda rounds: [replaced(rounds[0], questions=b"[]"), *rounds[1:]],
    "another mode": lambda rounds: [replaced(rounds[0], mode=type(rounds[0].mode)(0)), *rounds[1:]],
    "a round more": lambda rounds: [*rounds, replaced(rounds[-1], number=len(rounds) + 1)],
    "a message twice": lambda rounds: [
        replaced(rounds[0], messages=(*rounds[0].messages, rounds[0].messages[0])),
        *rounds[1:],
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_transcript_that_was_changed_is_refused(world, name):
    """Although the coordinator has signed it anew: the sites have closed another one."""
    world.rewrite(CHANGES[name])
    assert "replay" in world.failed()


@pytest.mark.parametrize("name", sorted(set(CHANGES) - {"a message twice", "a round more"}))
def test_without_the_sites_last_words_too(world, name):
    """Then signatures, contexts and the method itself have to notice."""
    world.rewrite(CHANGES[name], closed=False)
    assert "replay" in world.failed()


def test_sites_that_did_not_close_are_named_and_the_statement_is_not_final(world):
    world.rewrite(lambda rounds: rounds, closed=False)
    assert not world.failed()
    final = world.outcomes()["final"]
    assert final.outcome is Outcome.SKIPPED
    assert "site-1, site-2, site-3 did not close" in final.words
    assert "final" in verdict(list(world.outcomes().values()))


def test_another_seed_asks_other_questions(tmp_path):
    boosted = trained(tmp_path, model=FOREST)
    copied = Copied(boosted.folder, boosted.agreed)
    assert not copied.failed()
    text = boosted.folder.study_file.read_text()
    boosted.folder.study_file.write_text(text.replace("public_seed = 7", "public_seed = 8"))
    assert copied.failed() >= {"study", "replay"}


def test_a_transcript_alone_is_held_to_nothing(world):
    with pytest.raises(ParameterError, match="--roster"):
        verify_model(world.folder.model_file, None, world.transcript)
    world.transcript.write_bytes(world.transcript.read_bytes()[:-1])
    with pytest.raises(ParameterError, match="in the middle of a record"):
        world.outcomes()


# ---------------------------------------------------------------- killed before and after CLOSE
class Died(BaseException):
    pass


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_coordinator_killed_around_close_ends_with_the_same_last_words(tmp_path, after):
    world = World(tmp_path, dp_model="distributed", epsilon="80")
    ask, died = world.ask, []

    def dying(messages, timeout):
        (kind,) = {Envelope.parse(message).header.kind for message in messages.values()}
        if kind is not MessageKind.CLOSE or died:
            return ask(messages, timeout)
        died.append(kind)
        if after:
            ask(messages, timeout)
        raise Died

    world.ask = dying
    with pytest.raises(Died):
        run_study(world.folder, world)
    run_study(world.folder, world, resume=True)
    assert not Copied(world.folder, world.agreed).failed()
    assert [len(rounds) for rounds in world.charged()] == [3, 3, 3]
    again = run_study(world.folder, world, resume=True)
    assert again.model_ is not None
    assert not Copied(world.folder, world.agreed).failed()
    world.close()


def test_a_site_that_is_away_at_the_end_closes_when_the_run_is_taken_up_again(tmp_path):
    world = World(tmp_path, dp_model="distributed", epsilon="80")

    def leave(event):
        if event["event"] == "round" and event["round"] == 3:
            world.away = {"site-2"}

    run_study(world.folder, world, listen=leave)
    copied = Copied(world.folder, world.agreed)
    assert "site-2 did not close" in copied.outcomes()["final"].words
    world.away = set()
    world.start_anew(1)
    run_study(world.folder, world, resume=True)
    assert copied.outcomes()["final"].outcome is Outcome.PASSED
    world.close()


# ------------------------------------------------------------------------------ other processors
@pytest.mark.slow
@pytest.mark.parametrize("name", processors())
def test_every_processor_computes_the_same_model(tmp_path, name):
    """By the libraries' own switches: the loops of another processor round otherwise."""
    world = trained(tmp_path, model=BOOSTED)
    words = ["verify", str(world.folder.model_file)]
    words += ["--roster", str(world.folder.study_file)]
    words += ["--transcript", str(world.folder.path / "transcript.bin")]
    known = os.environ | PROCESSORS[name]
    code = "from hedgerow.cli.main import entry; entry()"
    words = [sys.executable, "-W", "always::ImportWarning", "-c", code, *words]
    told = subprocess.run(words, capture_output=True, text=True, env=known, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "the one that the sums lead to" in told.stdout
    assert "NPY_DISABLE_CPU_FEATURES" not in told.stderr  # it warns of those that it does not know


# ------------------------------------------------------------------- an independent reader agrees
def read_independently(folder, agreed, data=None):
    study = agreed.study
    public = verify_transcript.Study(study.hash, study.threshold, study.sites)
    path = folder.path / "transcript.bin"
    return verify_transcript.verify(path.read_bytes() if data is None else data, public)


@pytest.mark.parametrize("name", ["boosted", "in two, one lost"])
def test_the_spec_s_reader_opens_the_same_sums(tmp_path, name):
    world = World(tmp_path, **{"dp_model": "distributed", "epsilon": "80"} | TERMS[name])

    def leave(event):
        if name.endswith("lost") and event["event"] == "round":
            world.away = {"site-4"} if event["round"] == 1 else set()

    run_study(world.folder, world, listen=leave)
    whole = read_independently(world.folder, world.agreed)
    assert whole.root == Transcript.read(world.folder.path / "transcript.bin").root
    lines = (world.folder.path / "answers.jsonl").read_text().splitlines()
    answered = [json.loads(line) for line in lines if json.loads(line)["what"] == "answered"]
    assert len(answered) == len(whole.sums) > 2
    for line in answered:
        total, members = whole.sums[line["round"]]
        assert (total, list(members)) == (_total(line), line["members"])
    assert set(whole.charged) == set(range(world.study.n_sites))
    world.close()


def _total(line):
    return journal._read_outcome(line).result.total.tolist()


LIAR = 1


@pytest.mark.parametrize(("receivers", "voids"), [((3,), 0), ((2, 3), 1)], ids=str)
def test_a_site_that_seals_bad_shares_is_named_and_the_run_goes_on_without_it(
    tmp_path, monkeypatch, receivers, voids
):
    """One site of five; nobody else is left out, and both readers open what was opened."""
    hide = secagg_client.hide

    def seal_badly(vector, joined, *rest):
        hidden = hide(vector, joined, *rest)
        table = dict(hidden.body.sealed_shares)
        bad = {site: bytes(48) + table[site][48:] for site in receivers if joined.me == LIAR}
        body = replace(hidden.body, sealed_shares=table | bad)
        return MaskedVector(body, hidden.own_share, hidden.seeds, hidden.share_keys)

    monkeypatch.setattr(secagg_client, "hide", seal_badly)
    terms = {"dp_model": "distributed", "epsilon": "80", "reserve": "0.6", "at_once": False}
    world, events = World(tmp_path, n_sites=5, threshold=4, **terms), []
    model = run_study(world.folder, world, listen=events.append)
    rounds = model.run_.rounds
    assert [record.void for record in rounds].count(True) == voids
    assert [record.sites for record in rounds[1:]] == [4] * len(rounds[1:])
    notes = [event for event in events if "share" in event.get("what", "")]
    assert voids or {name for note in notes for name in note["sites"]} == {"site-2"}
    assert not Copied(world.folder, world.agreed).failed()
    whole = read_independently(world.folder, world.agreed)
    assert len(whole.sums) == len(rounds) - voids
    world.close()


def test_the_spec_s_reader_refuses_what_was_changed(world):
    data = world.transcript.read_bytes()
    read_independently(world.folder, world.agreed)
    for place in range(60, len(data), 731):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises((ValueError, KeyError)):
            read_independently(world.folder, world.agreed, bytes(damaged))


@pytest.mark.parametrize("name", CHANGES)
def test_the_spec_s_reader_refuses_changed_transcripts(world, name):
    world.rewrite(CHANGES[name])
    with pytest.raises((ValueError, KeyError)):
        read_independently(world.folder, world.agreed)


# ------------------------------------------------------------------------------- the spec's vector
def problems_by_product(folder, data):
    """What the product finds in a transcript of the stored vector: a refusal, or its sums."""
    stored = make_vectors.read("closing")
    study = Study.from_dict(stored["study"])
    keys = tuple(bytes.fromhex(key) for key in stored["study"]["sites"])
    roster = Roster(keys, bytes.fromhex(stored["study"]["coordinator"]))
    agreed = SimpleNamespace(study=study, roster=roster, names=("a", "b", "c"))
    path = folder / "transcript.bin"
    path.write_bytes(data)
    transcript, receiver, sums = Transcript.read(path), Receiver(), []
    sites = replay.TranscriptSites(agreed, transcript)
    for number in range(1, 5):
        entry = transcript.rounds[number]
        queries, additions = receiver.decode(Bundle(entry.questions, entry.definitions))
        receiver.keep(additions)
        try:
            result = sites.round(number, [priced(study, query) for query in queries])
        except RoundFailed:
            continue
        sums.append([number, list(result.members), result.total.tolist()])
    words = replay.last_words(agreed, transcript)
    flaws = replay.problems_of_releases(agreed, transcript, words)
    flaws += replay.problems_of_charges(agreed, sites, words)
    assert transcript.root.hex() == stored["root"]
    assert (sums, flaws) == (stored["sums"], [])


def test_the_stored_transcript_is_opened_by_both_readers(tmp_path):
    """Four rounds: at once, in two with a complaint, in two with one lost, void; and CLOSED."""
    stored = make_vectors.read("closing")
    data = bytes.fromhex(stored["transcript"])
    problems_by_product(tmp_path, data)
    keys = tuple(bytes.fromhex(key) for key in stored["study"]["sites"])
    public = verify_transcript.Study(bytes.fromhex(stored["study_hash"]), 2, keys)
    whole = verify_transcript.verify(data, public)
    assert whole.root.hex() == stored["root"]
    assert whole.charged == {0: 4}
    assert [[k, list(who), total] for k, (total, who) in whole.sums.items()] == stored["sums"]
    assert {row[-1] for row in stored["changes"]} >= {"BadSignature", "BadMessage", "NotShown"}


def test_every_change_of_the_stored_transcript_is_refused_by_both_readers(tmp_path):
    stored = make_vectors.read("closing")
    data, changes = bytes.fromhex(stored["transcript"]), stored["changes"]
    keys = tuple(bytes.fromhex(key) for key in stored["study"]["sites"])
    public = verify_transcript.Study(bytes.fromhex(stored["study_hash"]), 2, keys)
    assert len(changes) > 150
    for _, start, cut, put, code in changes:
        changed = data[:start] + bytes.fromhex(put) + data[start + cut :]
        with pytest.raises(ValueError, match=code):
            verify_transcript.verify(changed, public)
        with pytest.raises((HedgerowError, AssertionError, KeyError)):
            problems_by_product(tmp_path, changed)
