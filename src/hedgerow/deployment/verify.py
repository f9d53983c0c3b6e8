"""Whether a model file is what it says: hashes, arithmetic, and the signatures of a study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

from hedgerow.deployment.file_forms import INSTALL, can_validate, problems_of
from hedgerow.deployment.run_folder import RunFolder, receipt_words
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import HedgerowError
from hedgerow.federation.journal import receipts_of
from hedgerow.methods import model_file
from hedgerow.methods.saving import load
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import Evaluation
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.envelope import SignedHeader
from hedgerow.secagg.keys import Identity, is_signed

# --------------------------------------------------------------------------------------------------
# A networked model's own proof: every site's last receipt, and the coordinator's signature.
#
# A receipt is the signed header of a site's last message in the run: what this study had cost it,
# and where its ledger stood. The coordinator signs the model's digest, the study's hash and all
# receipts together. Whoever has the study file can check all of it; nobody is asked.


def sign_model(folder: RunFolder, agreed: StudyFile, identity: Identity) -> None:
    """Adds `signed` to the model file; its content and digest stay as they are."""
    last = {
        name: held[-1]
        for place, name in enumerate(agreed.names)
        if (held := receipts_of(folder.path, place))
    }
    study = agreed.study.hash.hex()
    content = model_file.read(folder.model_file)
    message = signed_message(model_file.digest_of(content), study, last)
    signed = {"study": study, "receipts": last, "signature": identity.sign(message).hex()}
    model_file.add(folder.model_file, "signed", signed)


def signed_message(model_digest: str, study: str, receipts: dict[str, str]) -> bytes:
    """What the coordinator signs; receipts by name, so that none can be left out or exchanged."""
    parts = [text.encode() for pair in sorted(receipts.items()) for text in pair]
    return digest("signed model", model_digest.encode(), study.encode(), *parts)


SUM_TOLERANCE = 1e-9
"""Parts of a budget are told as floats; their sums are right to this."""
MOST_PROBLEMS = 10
"""Of a file's form, in one answer."""
SITES = "sites"
"""The check that enough of them signed."""


class Outcome(Enum):
    """What became of a check. One that was not made is never one that passed."""

    PASSED = "ok"
    FAILED = "FAILED"
    SKIPPED = "skipped"
    UNSIGNED = "unsigned"


@dataclass(frozen=True)
class CheckResult:
    """One thing that was looked at, or would have been."""

    what: str
    outcome: Outcome
    words: str

    @property
    def has_failed(self) -> bool:
        return self.outcome is Outcome.FAILED

    @staticmethod
    def of(what: str, passed: bool, words: str) -> CheckResult:
        """Of a check that was made."""
        return CheckResult(what, Outcome.PASSED if passed else Outcome.FAILED, words)


def verdict(checks: Sequence[CheckResult]) -> str:
    """All of them in one sentence: what failed, who signed, what was not looked at."""
    failed = [check.what for check in checks if check.has_failed]
    if failed:
        return f"FAILED: {', '.join(failed)}"
    skipped = [check.what for check in checks if check.outcome is Outcome.SKIPPED]
    rest = f"; not checked: {', '.join(skipped)}" if skipped else ""
    if any(check.outcome is Outcome.UNSIGNED for check in checks):
        return f"intact, unsigned{rest}"
    vouching = next((check.words for check in checks if check.what == SITES), None)
    return f"valid, {vouching}{rest}" if vouching else f"intact{rest}"


def verified(path: Path, roster: Path | None) -> list[CheckResult]:
    """All checks; a file that is torn or changed raises at once."""
    document = model_file.opened(path)
    content, signed = document["content"], document.get("signed")
    first = [CheckResult.of("digest", True, model_file.digest_of(content)), _form(document)]
    if first[-1].has_failed:
        return first
    model = load(path)
    said: PrivacyStatement = model.privacy_
    checks = [*first, *_arithmetic(said)]
    if document.get("evaluation") is not None:
        checks.append(_evaluation(model, document["evaluation"]))
    if roster is None:
        return [*checks, _without_roster(signed)]
    if signed is None:
        words = "the file carries none, so it is not a model of this study's sites"
        return [*checks, CheckResult.of("signatures", False, words)]
    return [*checks, *_signatures(content, said, signed, StudyFile.read(roster))]


def _without_roster(signed: dict[str, Any] | None) -> CheckResult:
    if signed is None:
        words = "made in one process; nobody vouches for it"
        return CheckResult("signatures", Outcome.UNSIGNED, words)
    return CheckResult("signatures", Outcome.SKIPPED, "give --roster study.toml to check them")


def _form(document: dict[str, Any]) -> CheckResult:
    if not can_validate():
        words = f"not held against the published JSON Schema; {INSTALL}"
        return CheckResult("form", Outcome.SKIPPED, words)
    found = problems_of("model", document)
    more = f"; {len(found) - MOST_PROBLEMS} more" if len(found) > MOST_PROBLEMS else ""
    words = "; ".join(found[:MOST_PROBLEMS]) + more or "that of the published JSON Schema"
    return CheckResult.of("form", not found, words)


def _evaluation(model: Any, told: dict[str, Any]) -> CheckResult:
    """Nobody signs it: what is looked at is that it measures this model."""
    found = Evaluation.from_dict(told)
    words = f"of this model, {found.privacy_.promise} for its own records; signed by nobody"
    return CheckResult.of("evaluation", model.model_.score.digest in found.digests, words)


# -------------------------------------------------------------------------------------- arithmetic
def _arithmetic(said: PrivacyStatement) -> Iterator[CheckResult]:
    if said.spent_fraction is None:
        yield CheckResult.of(
            "promise", math.isinf(said.epsilon), "no noise was added; nothing is promised"
        )
        return
    parts = max(math.fsum(line.part for line in one) for one in (said.spending, said.held_out))
    left = math.fsum(part.part for part in said.unspent)
    yield CheckResult.of(
        "rounds",
        abs(parts - said.spent_fraction) < SUM_TOLERANCE,
        f"rounds add up to {parts:.1%} of the budget; {said.spent_fraction:.1%} were spent",
    )
    yield CheckResult.of(
        "rest",
        abs(said.spent_fraction + left - 1.0) < SUM_TOLERANCE,
        f"{left:.1%} of the budget were left",
    )
    yield CheckResult.of(
        "promise",
        said.spent_epsilon <= said.epsilon * (1.0 + SUM_TOLERANCE),
        f"what was asked has epsilon {said.spent_epsilon:.4g}; {said.epsilon:.4g} is promised",
    )


# -------------------------------------------------------------------------------------- signatures
def _signatures(
    content: Any, said: PrivacyStatement, signed: dict[str, Any], agreed: StudyFile
) -> Iterator[CheckResult]:
    study = agreed.study
    yield CheckResult.of(
        "study", signed["study"] == study.hash.hex(), f"{study.name}, {study.account}"
    )
    message = signed_message(model_file.digest_of(content), signed["study"], signed["receipts"])
    signature = bytes.fromhex(signed["signature"])
    right = is_signed(agreed.roster.coordinator, signature, message)
    words = "model, study and receipts are signed by the coordinator of the study"
    yield CheckResult.of("coordinator", right, words)
    receipts = dict(_receipts(signed["receipts"], agreed))
    for name, receipt in receipts.items():
        spent = None if receipt is None else receipt.header.ledger.spent
        words = "no valid receipt" if spent is None else receipt_words(spent, study)
        yield CheckResult.of(f"site {name}", receipt is not None, words)
    yield _enough(receipts, study)
    yield _largest(receipts, said, study)


def _receipts(told: dict[str, str], agreed: StudyFile) -> Iterator[tuple[str, SignedHeader | None]]:
    keys = dict(zip(agreed.names, agreed.roster.sites, strict=True))
    for name, text in sorted(told.items()):
        yield name, _receipt(text, keys.get(name, b""), agreed.names, name, agreed.study)


def _receipt(
    text: str, key: bytes, names: tuple[str, ...] | list[str], name: str, study: Study
) -> SignedHeader | None:
    """The receipt if it is this site's own word on this study, else None."""
    try:
        found = SignedHeader.read(bytes.fromhex(text))
        found.verify(key)
    except (HedgerowError, ValueError):
        return None
    is_own = name in names and found.header.sender == list(names).index(name)
    return found if is_own and found.header.study_hash == study.hash else None


def _enough(receipts: dict[str, SignedHeader | None], study: Study) -> CheckResult:
    valid = sum(receipt is not None for receipt in receipts.values())
    words, enough = f"signed by {valid} of {study.parties} sites", valid >= study.threshold
    more = "" if enough else f"; sums are opened with {study.threshold} or more"
    return CheckResult.of(SITES, enough, words + more)


def _largest(
    receipts: dict[str, SignedHeader | None], said: PrivacyStatement, study: Study
) -> CheckResult:
    """The statement's spending is the largest of the sites' own receipts."""
    told = [r.header.ledger.spent for r in receipts.values() if r is not None]
    if said.spent_fraction is None or "inf" in told:
        return CheckResult.of("receipts", said.spent_fraction is None, "nothing is bounded")
    largest = max((Fraction(one) for one in told), default=Fraction(0))
    part = float(largest / study.total)
    words = f"the largest receipt is {part:.1%} of the budget, as the statement says"
    return CheckResult.of("receipts", abs(part - said.spent_fraction) < SUM_TOLERANCE, words)
