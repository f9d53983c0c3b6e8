"""The machine-checked proofs: frozen, whole, bound to the registries, and red for a wrong constant.

`make proofs` runs all of them; here are the gates that need no Coq, and, slow, negative controls.
"""

from __future__ import annotations

import math
import re
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from hedgerow.models.losses import Norms, SoftmaxLoss
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.accounting.conversions import whole_budget
from hedgerow.privacy.queries import GROUPINGS, STATISTICS, Count
from proofs import check, replay

ROOT = Path(__file__).parents[2]
FILES = sorted(check.FOLDER.glob("*.v"))
PATHS = re.compile(r"\b(?:docs|[a-z_]+)/[\w/]+\.(?:py|md)\b")
WRONG = {
    "the L1 norm of the log-loss is a trace too small": ("Bounds.v", "187489", "187488"),
    "softmax has squared norm 1": (
        "Bounds.v",
        "(2, 1), (1, 1))\n  | Squared",
        "(1, 1), (1, 1))\n  | Squared",
    ),
    "a person's square is forgotten": ("Sensitivity.v", "* (m * m)", "* m"),
    "groups are parallel": ("Sensitivity.v", "(l1 s * Z.of_nat groups)", "(l1 s)"),
    "the Hessian scale is a trace too large": ("Losses.v", "333 / 100", "334 / 100"),
    "one signature less": ("Protocol.v", "<= length signers", "<= S (length signers)"),
    "half the variance": ("Rho.v", "/ (2 * (unit * IZR (cost", "/ (4 * (unit * IZR (cost"),
    "a witness less": ("Protocol.v", "length colluders + 1 <=", "length colluders <="),
    "a selection among sums is a trace too sharp": (
        "Gaussian.v",
        "apart * apart / 4 <= c * s / (c + s)",
        "apart * apart / 4 <= 101 / 100 * (c * s / (c + s))",
    ),
    "Gini's reach is halved": ("Splits.v", "Gini => 2 * unit", "Gini => unit"),
    "a share has a trace too much": (
        "Laplace.v",
        "rising r j * (r + INR j) / INR (S j)",
        "rising r j * (r + INR (S j)) / INR (S j)",
    ),
    "no zero of a table stays": ("Tables.v", "pred (zeros", "(zeros"),
    "thresholds may be further off": ("Tables.v", "IZR N * Q k) <= 2)", "IZR N * Q k) <= 3)"),
    "a rounded product loses less": ("Tables.v", "e + 4 * INR k", "e + 3 * INR k"),
    "a chance falls too fast": ("Tables.v", "* num k / den k)%Z", "* num k / (den k + 1))%Z"),
}
"""File, text, and what is planted for it."""


@pytest.fixture
def copy(tmp_path):
    return check.copied(tmp_path)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """All proofs, compiled once."""
    if shutil.which("coqc") is None:
        pytest.skip(check.MISSING)
    folder = check.copied(tmp_path_factory.mktemp("compiled"))
    check.compile_all(folder)
    return folder


def test_statements_are_the_frozen_ones():
    assert check.changed() == []


def test_a_changed_statement_is_seen_and_a_changed_proof_is_not(copy):
    path = copy / "Laplace.v"
    path.write_text(path.read_text().replace("0 < rate -> 0 < laplace", "0 < rate -> 0 <= laplace"))
    assert check.changed(copy) == []  # a lemma: nobody has to read it
    path.write_text(path.read_text().replace("exp (- rate * IZR", "exp (- IZR"))
    assert check.changed(copy) == ["Laplace.v"]


def test_a_file_more_or_less_is_seen(copy):
    (copy / "Sums.v").rename(copy / "Other.v")
    assert check.changed(copy) == ["Other.v", "Sums.v"]


def test_every_file_has_statements_to_read():
    assert all(check.theorems(path) for path in FILES if path.stem != "Sums")
    assert check.without_comments("a (* b (* c *) d *) simpl in *) e") == "a  simpl in *) e"


def test_no_proof_is_left_out():
    assert check.loopholes() == []


@pytest.mark.parametrize("word", ["Admitted.", "Axiom easy : 0 = 1.", "Unset Guard Checking."])
def test_a_proof_that_is_left_out_is_seen(copy, word):
    path = copy / "Claims.v"
    path.write_text(f"{path.read_text()}\n{word}\n")
    assert len(check.loopholes(copy)) == 1


def test_there_are_few_files_and_claims_are_short():
    assert len(FILES) <= 17
    assert len((check.FOLDER / "Claims.v").read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_that_comments_name_exist(path):
    named = set(PATHS.findall(path.read_text(encoding="utf-8")))
    places = (ROOT, ROOT / "src" / "hedgerow")
    assert {name for name in named if not any((p / name).exists() for p in places)} == set()


# -------------------------------------------------------------------------------- bound to the code
def test_every_statistic_and_grouping_is_bound_to_a_theorem_or_a_page():
    assert replay.without_example() == set()
    pages = {*replay.ON_PAPER.values(), *replay.SCORES_ON_PAPER.values()}
    assert all((ROOT / "docs" / "proofs" / f"{page}.md").exists() for page in pages)
    assert set(replay.ON_PAPER) <= set(STATISTICS)


@pytest.mark.parametrize("registry", [STATISTICS, GROUPINGS])
def test_a_new_one_without_theorem_or_page_is_seen(registry, monkeypatch):
    monkeypatch.setitem(registry, "Forgotten", object)
    with pytest.raises(replay.NoTheorem, match="Forgotten"):
        replay.script()


def test_a_statistic_without_a_term_is_seen():
    with pytest.raises(replay.NoTheorem, match="has no theorem"):
        replay.statistic_term(object())
    assert replay.statistic_term(Count()) == "Count"


def test_the_replay_is_the_same_every_time():
    assert replay.script() == replay.script()


def largest_rho(epsilon: float, delta: float) -> float:
    """That some integer order certifies: `delta_of_rho` of Rho.v, solved for rho."""

    def log_delta_of_moment(k: int) -> float:
        return -k * epsilon - math.log(k + 1) + k * math.log(k / (k + 1))

    return max((math.log(delta) - log_delta_of_moment(k)) / (k * (k + 1)) for k in range(1, 2000))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(2), Fraction(8)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 10**8)])
def test_what_rho_costs_against_mu_is_what_the_page_says(epsilon, delta):
    rho = largest_rho(float(epsilon), float(delta))
    ratio = math.sqrt(float(whole_budget(Measure.GDP, epsilon, delta)) / (2 * rho))
    assert 1.05 < ratio < 1.09
    page = (ROOT / "docs" / "proofs" / "evidence.md").read_text(encoding="utf-8")
    assert "5 to 9 percent more noise" in page


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(2), Fraction(8)])
def test_the_code_s_rho_is_what_the_proved_conversion_allows(epsilon):
    """Real orders, which the code takes, allow at most 2 percent more than integer ones."""
    delta = Fraction(1, 10**6)
    rho, proved = (
        float(whole_budget(Measure.ZCDP, epsilon, delta)),
        largest_rho(float(epsilon), 1e-6),
    )
    assert 0.98 < proved / rho <= 1 + 1e-9


# ------------------------------------------------------------------------------ with Coq: minutes
def refused(folder: Path, text: str) -> bool:
    try:
        check.replayed(folder, text)
    except check.ProofError:
        return True
    return False


@pytest.mark.slow
def test_all_proofs_hold_and_claims_rest_on_the_real_numbers_alone(compiled):
    found = check.assumptions(compiled)
    assert sorted(found) == sorted(check.theorems(check.FOLDER / "Claims.v"))
    assert check.unexpected(found) == {}
    assert not refused(compiled, replay.script().text)


@pytest.mark.slow
def test_a_claim_on_an_axiom_of_our_own_is_seen(compiled, tmp_path):
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    text = "Axiom easy : 0 = 1.\nTheorem claim_all : 0 = 1.\nProof. exact easy. Qed.\n"
    (tmp_path / "Eager.v").write_text(text)
    check.compile_file(tmp_path, "Eager")
    assert check.unexpected(check.assumptions(tmp_path, "Eager")) == {"claim_all": {"easy"}}


@pytest.mark.slow
@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_constant_turns_the_proofs_red(compiled, tmp_path, words):
    """Planted into a copy, alone: a proof fails, or the code's numbers are no longer equal."""
    name, text, wrong = WRONG[words]
    folder = check.copied(tmp_path)
    whole = (folder / name).read_text(encoding="utf-8")
    assert whole.count(text) >= 1, "the text is gone: plant another"
    (folder / name).write_text(whole.replace(text, wrong), encoding="utf-8")
    try:
        check.compile_all(folder)
    except check.ProofError:
        return
    assert refused(folder, replay.script().text)


@pytest.mark.slow
@pytest.mark.parametrize("early", ["Store.Commit; Store.Send", "Store.Compute 0%nat; Store.Send"])
def test_a_store_that_sends_too_early_turns_the_replay_red(compiled, early):
    """Before its anchor is written, or before its charge is."""
    plain = "Store.Compute 0%nat; Store.Commit; Store.WriteAnchor; Store.Send"
    text = replay.script().text
    assert plain in text
    hasty = text.replace(plain, early if "Compute" in early else f"Store.Compute 0%nat; {early}", 1)
    assert refused(compiled, hasty)


@pytest.mark.slow
def test_a_wrong_constant_of_the_code_turns_the_replay_red(compiled, monkeypatch):
    one = SoftmaxLoss(3).norms
    smaller = Norms(one.l1, one.l2_squared / 2, one.linf)
    monkeypatch.setattr(SoftmaxLoss, "norms", property(lambda self: smaller))
    assert refused(compiled, replay.script().text)
