"""Sites and coordinator against `spec/`: the same bytes in good runs, the same codes in bad."""

import hashlib
import json
from contextlib import closing

import pytest

from hedgerow.data.prepared import answering
from hedgerow.errors import RoundFailed
from hedgerow.federation.wire import Bundle, Receiver, Sender
from hedgerow.privacy.queries import Cells, SumQuery
from hedgerow.privacy.study import Study
from spec import make_vectors, one_choice, one_round
from support.examples import scores
from support.spec_replay import GOOD, Replay, load, noise_keys, rows_of


def queries(told):
    bundle = Bundle(bytes.fromhex(told["questions"]), bytes.fromhex(told["definitions"]))
    return Receiver().decode(bundle)[0]


@pytest.mark.parametrize("name", GOOD)
def test_a_whole_run_is_the_spec_s_byte_for_byte(name, tmp_path, monkeypatch):
    """Every message of the coordinator, every answer of a site, every sum, every ledger."""
    stored = load(name)
    with closing(Replay(tmp_path, stored, noise_keys(monkeypatch))) as replay:
        assert list(replay.play()) == list(range(len(stored["messages"]) + 1))
        for summed, told in zip(replay.sums, stored["rounds"], strict=True):
            if summed.members is None:
                summed.close()
            opened = summed.opened()
            assert (opened.values.tolist(), list(opened.members)) == (told["sum"], told["members"])
            assert [list(opened.selections[k]) for k in opened.members] == told["selections"]
        for site_store, ledger in zip(replay.site_stores, stored["ledgers"], strict=True):
            site_store.ledger.verify()
            found = [
                (e.body, e.head.hex(), e.signature.hex()) for e, _ in site_store.ledger.entries()
            ]
            assert found == [(_spelled(event), *signed) for event, *signed in ledger]
            assert (
                f"{site_store.ledger.spent(replay.study.account)} is spent" in stored["statement"]
            )
        _ask_again(replay, stored)


def _spelled(event):
    return json.dumps(event, separators=(",", ":"))


def _ask_again(replay, stored):
    """A round that was answered gets the same bytes again, at no charge and with no noise."""
    messages = {(kind, site): bytes.fromhex(text) for kind, site, text in stored["messages"]}
    before = replay.site_stores[0].ledger.head()
    assert replay.clients[0].handle(messages["ROUND", 0]) == messages["MASKED", 0]
    assert replay.site_stores[0].ledger.head() == before


def test_every_bad_letter_is_refused_with_its_code_and_leaves_no_trace(tmp_path, monkeypatch):
    """The run goes on between the bad messages as if none had come, byte for byte."""
    stored = load("bad")
    found, expected = {}, {}
    with closing(Replay(tmp_path, stored, noise_keys(monkeypatch))) as replay:
        for number in replay.play():
            for bad in (bad for bad in stored["bad_messages"] if bad["at"] == number):
                message = bytes.fromhex(bad["message"])
                found[bad["name"]] = replay.refusal(bad["site"], bad["kind"], message)
                expected[bad["name"]] = bad["code"]
        heads = [site_store.ledger.head() for site_store in replay.site_stores]
    assert found == expected
    assert len(found) == len(stored["bad_messages"]) > 100
    assert heads == [(len(entries), bytes.fromhex(entries[-1][1])) for entries in stored["ledgers"]]


def test_a_round_of_4096_queries_is_read_and_a_longer_one_is_not(tmp_path, monkeypatch):
    """By the messages that the spec makes of its stored run; no ledger gets an entry."""
    messages = make_vectors.Messages(make_vectors.bad()[0])
    made = list(make_vectors.long_rounds(messages))
    rows = [[name, hashlib.sha256(text).hexdigest(), code] for name, text, code in made]
    assert rows == make_vectors.read("bundles")["rounds"]
    with closing(Replay(tmp_path, load("bad"), noise_keys(monkeypatch))) as replay:
        next(number for number in replay.play() if number == messages.place("ROUND", 0))
        before = replay.site_stores[0].ledger.head()
        for name, text, code in made:
            assert replay.refusal(0, "ROUND", text) == code, name
        assert replay.site_stores[0].ledger.head() == before


def test_other_noise_is_seen(tmp_path, monkeypatch):
    """A control: the comparison of runs fails when one site draws from another key."""
    stored = load("three_sites")
    first = stored["rounds"][0]["rand"][1]
    stored["rounds"][0]["rand"][1] = f"{int(first[:2], 16) ^ 1:02x}{first[2:]}"
    replay = Replay(tmp_path, stored, noise_keys(monkeypatch))
    with closing(replay), pytest.raises(AssertionError, match="MASKED"):
        list(replay.play())


def test_a_wrong_share_that_is_well_signed_opens_nothing(tmp_path, monkeypatch):
    """Site 0 changes one bit of its share of site 1's self-mask: 0 is named, nothing is opened."""
    stored, messages = load("one_lost"), make_vectors.Messages(make_vectors.good()["one_lost"])
    _, body = make_vectors.parts(messages.sent("SHARES", 0))
    spot = 2 + 2 * (2 + 32) - 1  # the last byte of the second share
    wrong = messages.with_body("SHARES", 0, make_vectors.flipped(body, spot))
    with closing(Replay(tmp_path, stored, noise_keys(monkeypatch))) as replay:
        list(replay.play())
        replay.accept("SHARES", wrong)
        with pytest.raises(RoundFailed, match="fewer than 2 sites gave their share for site 1"):
            replay.sums[0].opened()
        assert replay.sums[0].liars == {0}


@pytest.mark.parametrize("name", GOOD)
def test_questions_are_spelled_as_the_spec_spells_them(name):
    told = load(name)["rounds"][0]
    asked = Sender().encode(queries(told))
    assert (asked.questions.hex(), asked.definitions.hex()) == (
        told["questions"],
        told["definitions"],
    )


@pytest.mark.parametrize("name", GOOD)
def test_rows_become_the_spec_s_counts(name):
    stored = load(name)
    study = Study.from_dict(stored["study"])
    query = queries(load("three_sites")["rounds"][0])[0]
    assert isinstance(query, SumQuery)
    assert isinstance(query.by, Cells)
    for rows, counts in zip(stored["rows"], stored["rounds"][0]["counts"], strict=True):
        found = answering(rows_of(rows, study), study.schema).integers(query, 1)
        assert found.reshape(query.shape).tolist() == counts
    assert any(any(map(any, cells)) for site in stored["rounds"][0]["counts"] for cells in site)


def test_scores_of_cuts_are_the_spec_s():
    stored = load("private_choice")
    study, (query,) = Study.from_dict(stored["study"]), queries(stored["rounds"][0])
    for rows, counts in zip(stored["rows"], stored["rounds"][0]["counts"], strict=True):
        found = scores(query, rows_of(rows, study), study.schema)
        assert found.tolist() == one_choice.gini_scores(counts)
        assert len(set(found.tolist())) > 5


def test_a_row_moves_a_count_of_the_spec_by_one_in_each_column():
    """A control of the vectors' own counts: without a row they are not the product's any more."""
    stored = load("three_sites")
    rows = [(tuple(values), label) for values, label in stored["rows"][0]]
    study = one_round.Study._make([None] * 18)._replace(
        features=(("age", 0.0, 110.0), ("bmi", 10.0, 60.0)), classes=("no", "yes"), n_bins=10
    )
    whole, less = (one_round.histograms(study, some) for some in (rows, rows[1:]))
    moved = [
        abs(n - m)
        for a, b in zip(whole, less, strict=True)
        for c, d in zip(a, b, strict=True)
        for n, m in zip(c, d, strict=True)
    ]
    assert whole == stored["rounds"][0]["counts"][0]
    assert sum(moved) == (2 if rows[0][1] in study.classes else 0)
