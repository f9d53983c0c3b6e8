"""Study, price, noise, choice and ledger against `spec/`: the same numbers for the same bytes."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from hedgerow.errors import BudgetExceeded
from hedgerow.federation.wire import Bundle, Receiver
from hedgerow.kernels import noise
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.admission import reason_against
from hedgerow.privacy.ledger.chain import START, seal_entry
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.ledger.events import from_json
from hedgerow.privacy.mechanisms import sampling, selection
from hedgerow.privacy.mechanisms.mechanisms import DiscreteLaplace, PolyaDifference
from hedgerow.privacy.mechanisms.sampling import LAW_BITS, Polya, table_of
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.study import Study
from hedgerow.secagg.keys import Identity
from spec import make_vectors, one_choice
from spec import one_round as spec
from support.spec_replay import GOOD, load

Q = Fraction
LAWS = [(Q(19, 400), 1), (Q(1), 1), (Q(19, 400), 2), (Q(1, 3), 5), (Q(1, 128), 1), (Q(1, 300), 3)]


def usual(**changed):
    """The study of the vectors, with some of its numbers changed."""
    return make_vectors.begin("any", [[], [], []]).world.study._replace(**changed)


def asked(study, make=spec.histogram_question):
    (query,), _ = Receiver().decode(Bundle(*make(study)[:2]))
    return query


class Bytes:
    """The product's source of randomness, on a tape of the spec's."""

    def __init__(self, read):
        self.bytes = read

    def words(self, count):
        return np.frombuffer(self.bytes(8 * count), "<u8").astype(np.uint64)


def scripted(data):
    """A tape of the spec's that ends."""
    pieces = iter(data)
    return lambda n: bytes(next(pieces) for _ in range(n))


# ------------------------------------------------------------------------------------ the study
NUMBERS = {
    "epsilon": Q(2), "n_sites": 4, "colluders": 2, "threshold": 2, "records_per_person": 3,
    "retry_budget": Q(1, 7), "max_depth": 4, "n_bins": 9, "leaf_fraction": Q(1, 3),
    "min_samples_split": 11, "public_seed": 8,
}  # fmt: skip


@pytest.mark.parametrize("name", [*GOOD, "bad"])
def test_a_study_has_the_hash_of_the_spec(name):
    stored = load(name)
    study = Study.from_dict(stored["study"])
    assert study.to_dict() == stored["study"]
    assert study.hash.hex() == stored["study_hash"]


def test_every_number_of_a_study_is_in_its_hash():
    """A control: with any of them changed neither content nor hash are the same."""
    hashes = {spec.study_hash(usual(**{name: value})) for name, value in NUMBERS.items()}
    hashes |= {spec.study_hash(usual()), spec.study_hash(usual(delta=Q(1, 10**6)))}
    assert len(hashes) == len(NUMBERS) + 2


# ------------------------------------------------------------------------------ price and noise
@pytest.mark.parametrize(
    "changed",
    [{}, {"records_per_person": 3}, {"threshold": 2}, {"retry_budget": Q(0), "max_depth": 1}],
    ids=str,
)
@pytest.mark.parametrize("columns", [1, 2, 7])
def test_sensitivity_price_and_law_are_the_spec_s(changed, columns):
    features = tuple((f"column {j}", 0.0, 1.0) for j in range(columns))
    theirs = usual(features=features, **changed)
    ours, query = Study.from_dict(spec.content(theirs)), asked(theirs)
    assert reason_against(ours, [query]) is None
    assert query.sensitivity(1).of_person(ours.records_per_person) == Sensitivity(
        spec.l1_sensitivity(theirs),
        columns * theirs.records_per_person**2,
        theirs.records_per_person,
    )
    assert ours.cost(query) == spec.cost(theirs)
    assert ours.sum_law(query) == DiscreteLaplace(spec.noise_rate(theirs))
    assert ours.honest == theirs.threshold - theirs.colluders
    shares = DiscreteLaplace(spec.noise_rate(theirs)).share(ours.honest)
    assert ours.site_law(query) == shares
    assert ours.refinement(query) == ours.unit(query) == 1


@pytest.mark.parametrize(("rate", "h"), LAWS, ids=str)
def test_thresholds_are_the_spec_s(rate, h):
    """Two ways to compute a law, decimals there and integers here: all 192 bits agree."""
    theirs, ours = spec.polya_thresholds(rate, h), table_of(Polya(rate, h))
    lowest, probabilities = Polya(rate, h).probabilities()
    exact = [total >> (LAW_BITS - spec.BITS) for total in accumulate(probabilities)]
    assert (lowest, ours.lowest) == (0, 0)
    assert exact[: len(theirs)] == theirs
    heads = [threshold >> (spec.BITS - 64) for threshold in theirs]
    assert heads[: len(ours.thresholds)] == ours.thresholds.tolist()
    assert set(heads[len(ours.thresholds) :]) <= {2**64 - 1}


@pytest.mark.parametrize(("rate", "h"), LAWS, ids=str)
def test_the_same_bytes_give_the_same_noise(rate, h, monkeypatch):
    law = PolyaDifference(rate, h) if h > 1 else DiscreteLaplace(rate)
    for size in (1, 64, 301):
        rand = spec.hashlib.sha256(f"{rate} {h} {size}".encode()).digest()
        theirs = spec.noise_share(rate, h, size, spec.tape(rand))
        for look_up in (noise.search, noise.invert):  # in NumPy, and compiled
            monkeypatch.setattr(sampling, "invert", look_up)
            ours = sampling.draw(law, size, Bytes(spec.tape(rand)))
            assert ours.tolist() == theirs
    other = sampling.draw(law, size, Bytes(spec.tape(bytes(32))))
    assert other.tolist() != theirs  # a control: other bytes, other noise


@pytest.mark.parametrize(("rate", "h"), LAWS, ids=str)
def test_undecided_words_are_settled_alike(rate, h):
    """Words that equal a threshold, and the last word, get 128 bits more; in order, afterwards."""
    thresholds = spec.polya_thresholds(rate, h)
    words = [thresholds[k] >> 128 for k in (0, 1, 2, 5)] + [2**64 - 1, 12345]
    rest = [thresholds[k] % 2**128 for k in (0, 1, 2, 5)]
    more = [n + 2**90 * (-1) ** i for i, n in enumerate(rest)]
    tail = [n % 2**128 for n in (*more, 0)]
    data = b"".join(
        [w.to_bytes(8, "little") for w in words] + [n.to_bytes(16, "little") for n in tail]
    )
    theirs = spec.invert(thresholds, len(words), scripted(data))
    table, secret = table_of(Polya(rate, h)), Bytes(scripted(data))
    ours = sampling.draw_entries(table, len(words), secret)
    assert ours.tolist() == theirs
    assert theirs[:2] == [1, 1]  # just above the first threshold, just below the second


# --------------------------------------------------------------------------------------- choice
def test_the_same_bytes_give_the_same_choice():
    scores, coefficient = [-300, -20, 0, -50, -1000], Q(1, 100)
    found = set()
    for i in range(200):
        rand = spec.hashlib.sha256(f"choice {i}".encode()).digest()
        theirs = one_choice.permute_and_flip(scores, coefficient, spec.tape(rand))
        ours = selection.permute_and_flip(scores, coefficient, Bytes(spec.tape(rand)))
        assert ours == theirs
        found.add(theirs)
    assert len(found) > 2


def test_a_choice_costs_what_the_spec_says():
    theirs = usual(asks=(one_choice.ASKS, *spec.Study._field_defaults["asks"]))
    ours, query = Study.from_dict(spec.content(theirs)), asked(theirs, one_choice.choice_question)
    assert reason_against(ours, [query]) is None
    assert ours.cost(query) == ours.selection_epsilon(query) == spec.cost(theirs)
    assert query.scoring.reach == 2 * one_choice.LATTICE
    assert {one_choice.grid_name(theirs, j) for j in range(2)} == {
        grid.digest for grid in ours.schema.grids
    }
    refused = Study.from_dict(spec.content(usual()))  # a control: Algorithm 5 never asks it
    assert "never asks" in (reason_against(refused, [query]) or "")


# --------------------------------------------------------------------------------------- ledger
@pytest.mark.parametrize("name", [*GOOD, "bad"])
def test_the_chain_of_a_ledger_is_the_spec_s(name):
    stored = load(name)
    assert stored["ledgers"]
    for secret, entries in zip(stored["identities"], stored["ledgers"], strict=False):
        identity, link = Identity.from_bytes(bytes.fromhex(secret)), START
        for seq, (event, head, signature) in enumerate(entries, start=1):
            read = from_json(spec.json.dumps(event))
            entry = seal_entry(seq, link, read, identity.sign)
            assert (entry.head.hex(), entry.signature.hex()) == (head, signature)
            link = link.after(entry)
        assert link.seq == len(entries) >= 3


def test_lines_of_the_ledger_are_the_spec_s_and_so_is_the_last_that_fits():
    """Charges of two fifths: the third is refused by both, with nothing written."""
    theirs = usual(max_depth=1, leaf_fraction=Q(3, 5), retry_budget=Q(0))
    ours = Study.from_dict(spec.content(theirs))
    charges = [priced(ours, asked(theirs)).charge]
    words = spec.histogram_question(theirs)[2]
    assert [(c.what, c.cost, c.region) for c in charges] == [(words, spec.cost(theirs), ())]
    ledger, kept = MemoryLedger(ours.limit), make_vectors.approved(theirs, bytes([1]) * 32)
    for number in (1, 2):
        kept = spec.charge(theirs, kept, bytes([1]) * 32, str(number), words)
        assert ledger.reserve(charges, str(number)).spent == spec.spent(kept)
    with pytest.raises(ValueError, match="BudgetRefused"):
        spec.charge(theirs, kept, bytes([1]) * 32, "3", words)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charges, "3")
    assert ledger.total == spec.spent(kept) == Q(4, 5)


def test_one_set_a_round_in_the_spec_too():
    theirs, secret = usual(), bytes([1]) * 32
    ledger = spec.charge(theirs, make_vectors.approved(theirs, secret), secret, "1", "words")
    opened = spec.open_set(ledger, secret, "1", (0, 1))
    assert spec.open_set(opened, secret, "1", (0, 1)) == opened
    with pytest.raises(ValueError, match="SecondSet"):
        spec.open_set(opened, secret, "1", (0, 2))
