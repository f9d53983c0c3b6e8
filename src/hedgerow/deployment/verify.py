"""Verification of a model file: hashes, arithmetic, and the signatures of a study."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hedgerow.deployment.replay import (
    ReplayedRun,
    last_words,
    problems_of_charges,
    problems_of_releases,
    replay_transcript,
)
from hedgerow.deployment.run_folder import RunFolder, receipt_words
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import HedgerowError, ParameterError
from hedgerow.federation.journal import TRANSCRIPT, receipts_of
from hedgerow.federation.transcript import FileTranscript, Transcript
from hedgerow.methods import model_file
from hedgerow.methods.saving import load, model_content
from hedgerow.privacy.ledger.store import write_private
from hedgerow.privacy.statement.spending import FAILED
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import Evaluation, kept_evaluation
from hedgerow.secagg.closing import UNASKED
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.envelope import SignedHeader, shown_header
from hedgerow.secagg.keys import Identity, fingerprint, is_signed, is_signed_lasting, spoken_words
from hedgerow.version import __version__, source_digest

# Checks of files against the JSON Schemas that ship with hedgerow. They are made by command, never
# when a model is loaded: the readers check what they restore, and a schema says less than they do
# (docs/design/report_and_files.md). It adds every problem at once, with its place.
INSTALL = "pip install 'hedgerow[check]'"
MOST_PROBLEMS, MOST_CHARACTERS = 10, 300
"""Of a file's form in one answer, and characters of each."""


def problems_of(kind: str, content: Any) -> list[str]:
    """Problems of a "schema", "study" or "model" file, each after its place."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    schema_file = files("hedgerow.deployment").joinpath(f"json_schemas/{kind}.schema.json")
    validator = Draft202012Validator(json.loads(schema_file.read_text(encoding="utf-8")))
    errors = filter(None, (best_match([error]) for error in validator.iter_errors(content)))
    return [f"{e.json_path[2:] or 'the file'}: {e.message[:MOST_CHARACTERS]}" for e in errors]


# The proof in a networked model's file: every site's last receipt, and the coordinator's
# signatures.
#
# A receipt is the signed header of a site's last message in the run: the cost of this study for it,
# and the end of its ledger. The coordinator signs the model's digest, the study's hash, the root of
# the transcript, all receipts and the sites' CLOSED together, with Ed25519 and, for the long term,
# with ML-DSA-65. Whoever has the study file can verify that, and with the transcript also that the
# model follows from what the sites have signed (replay.py). A site that has done so may vouch for
# the model with its own keys (`hedgerow site verify`).


def sign_model(
    folder: RunFolder,
    study_file: StudyFile,
    identity: Identity,
    transcript: Transcript | FileTranscript,
) -> dict[str, Any]:
    """Adds `signed` to the model file and returns it; content and digest stay."""
    closings = {
        study_file.names[shown_header(message).sender]: digest("message", message).hex()
        for message in transcript.last_words
    }
    receipts = {name: receipts_of(folder.path, k) for k, name in enumerate(study_file.names)}
    signature: dict[str, Any] = {
        "study": study_file.study.hash.hex(),
        "receipts": {name: texts[-1] for name, texts in receipts.items() if texts},
        "transcript": transcript.root.hex(),
        "closed": closings,
    }
    model_digest = model_file.digest_of(model_file.read(folder.model_file))
    signature |= _sign_twice(identity, signed_message(model_digest, signature))
    model_file.add(folder.model_file, "signed", signature)
    return signature


def signed_message(model_digest: str, signatures: dict[str, Any]) -> bytes:
    """The message a coordinator signs; receipts by name, so that none can be dropped or swapped."""
    receipts, closings = signatures["receipts"], signatures.get("closed", {})
    parts = [model_digest, signatures["study"], signatures.get("transcript", "")]
    parts += [str(len(receipts))]
    parts += [
        text for table in (receipts, closings) for pair in sorted(table.items()) for text in pair
    ]
    return digest("signed model", *(text.encode() for text in parts))


def _sign_twice(identity: Identity, message: bytes) -> dict[str, str]:
    """Signs with Ed25519 and with ML-DSA-65."""
    return {
        "signature": identity.sign(message).hex(),
        "lasting_key": identity.lasting.hex(),
        "lasting_signature": identity.sign_lasting(message).hex(),
    }


def vouch_message(model_digest: str, signatures: dict[str, Any]) -> bytes:
    """What a site signs that has recomputed the model from the transcript."""
    parts = model_digest, signatures["study"], signatures.get("transcript", "")
    return digest("vouch", *(text.encode() for text in parts))


def add_vouch(path: Path, roster: Path, transcript: Path, identity: Identity) -> list[CheckResult]:
    """All checks and, if none failed, the vouch of one site in the model file."""
    study_file = StudyFile.read(roster)
    checks = verify_model(path, roster, transcript)
    if any(check.has_failed for check in checks):
        return checks
    if identity.public not in study_file.roster.sites:
        raise ParameterError(
            f"this site is not one of {study_file.study.name!r}; only its sites vouch for a model."
        )
    name = study_file.names[study_file.roster.sites.index(identity.public)]
    document = model_file.open_document(path)
    signatures = document["signed"]
    message = vouch_message(model_file.digest_of(document["content"]), signatures)
    vouches = signatures.get("vouches", {}) | {name: _sign_twice(identity, message)}
    model_file.add(path, "signed", signatures | {"vouches": vouches})
    return verify_model(path, roster, transcript)


# A model that was trained in one process has no study whose keys could sign it. Whoever trained it
# signs model and evaluation with their own key; others compare that key by its six words.


def signing_key(path: Path, create: bool) -> Identity:
    """The key in a file that only its owner can read; a new one if `create`."""
    if create:
        if path.exists():
            raise ParameterError(f"{path} holds a key already; sign with it, or name another file.")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, Identity.generate().to_bytes())
    try:
        return Identity.from_bytes(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"{path} holds no signing key ({error}); make one with --new-key, or name its file "
            "with --key."
        ) from error


def sign_fit(path: Path, identity: Identity) -> None:
    """Adds `signer` to the file of a model that was trained in one process."""
    document = model_file.open_document(path)
    if document.get("signed") is not None:
        raise ParameterError(
            f"{path} is signed by the coordinator of its study; a site adds its own signature with "
            "`hedgerow site verify`."
        )
    signature = _sign_twice(identity, _fit_message(document))
    model_file.add(path, "signer", {"key": identity.public.hex(), **signature})


def _fit_message(document: dict[str, Any]) -> bytes:
    """The message of a signer: the model, and the evaluation that stands beside it."""
    evaluation = json.dumps(document.get("evaluation"), sort_keys=True)
    return digest("fit", model_file.digest_of(document["content"]).encode(), evaluation.encode())


def _signer(document: dict[str, Any], expected: str | None) -> Iterator[CheckResult]:
    """Whether one key signed the whole file, and whether it is the expected one."""
    try:
        key = bytes.fromhex(document["signer"]["key"])
        right = _is_signed_twice(key, document["signer"], _fit_message(document))
    except (LookupError, TypeError, ValueError):
        key, right = b"", False
    names = (fingerprint(key), spoken_words(key))
    words = f"signed with the key {names[0]}"
    yield CheckResult.of(SIGNER, right, words if right else f"not {words}: it was changed later")
    if expected is None:
        words = f"whose key? Its owner reads you: {names[1]}; or give --signer"
        yield CheckResult("signer", Outcome.SKIPPED, words)
    else:
        same = " ".join(expected.lower().split()) in names
        words = "the key that was expected" if same else f"expected {expected}"
        yield CheckResult.of("signer", same, words)


SIGNER = "signature"
SUM_TOLERANCE = 1e-9
"""Tolerance for sums of budget fractions, which are floats in the file."""
PLAUSIBLE, INFLUENCE = "plausible", "influence"
"""The checks that sums are such as honest sites send, and that no site's part is negative."""
FORMAT = "file format"
SITES, VOUCHES, MODEL = "sites", "vouches", "model"
"""The checks that enough sites signed, that some vouch for the model, that it follows from sums."""


class Outcome(Enum):
    """The outcome of a check. A skipped check never counts as passed."""

    PASSED = "ok"
    FAILED = "FAILED"
    SKIPPED = "skipped"
    UNSIGNED = "unsigned"


@dataclass(frozen=True)
class CheckResult:
    """One check, made or skipped."""

    name: str
    outcome: Outcome
    words: str

    @property
    def has_failed(self) -> bool:
        return self.outcome is Outcome.FAILED

    @staticmethod
    def of(name: str, is_ok: bool, words: str) -> CheckResult:
        return CheckResult(name, Outcome.PASSED if is_ok else Outcome.FAILED, words)


def verdict(checks: Sequence[CheckResult]) -> str:
    """All checks in one sentence: which failed, who signed, which were skipped."""
    failed_names = [check.name for check in checks if check.has_failed]
    if failed_names:
        return f"FAILED: {', '.join(failed_names)}"
    skipped_names = [check.name for check in checks if check.outcome is Outcome.SKIPPED]
    rest = f"; not checked: {', '.join(skipped_names)}" if skipped_names else ""
    if any(check.outcome is Outcome.UNSIGNED for check in checks):
        return f"intact, unsigned{rest}"
    words = {check.name: check.words for check in checks}
    if SITES not in words:
        by_one = f", {words[SIGNER]}" if SIGNER in words else ""
        return f"intact{by_one}{rest}"
    vouches = f"; {words[VOUCHES]}" if VOUCHES in words else ""
    if MODEL in words:
        return f"valid, computed anew from what the sites signed, {words[SITES]}{vouches}{rest}"
    return f"signed by the coordinator, {words[SITES]}{vouches}{rest}"


def verify_model(
    path: Path, roster: Path | None, transcript: Path | None = None, signer: str | None = None
) -> list[CheckResult]:
    """All checks; raises at once if the file is damaged or changed.

    `signer` is the fingerprint, or the six words, of the key that should have signed.
    """
    if transcript is not None and roster is None:
        raise ParameterError(
            "a transcript is held to a study's keys: give --roster study.toml too."
        )
    document = model_file.open_document(path)
    content, signatures = document["content"], document.get("signed")
    first = [CheckResult.of("digest", True, model_file.digest_of(content)), _form(document)]
    if first[-1].has_failed:
        return first
    model = load(path)
    statement: PrivacyStatement = model.privacy_
    checks = [*first, *_arithmetic(statement)]
    if document.get("evaluation") is not None:
        checks.append(_evaluation(model, document))
    if document.get("signer") is not None:
        checks += _signer(document, signer)
    elif signer is not None:
        checks.append(CheckResult.of("signer", False, "nobody signed this file alone"))
    if roster is None and document.get("signer") is not None:
        return checks
    if roster is None:
        words = "give --roster study.toml to check them"
        skipped_check = CheckResult("signatures", Outcome.SKIPPED, words)
        words = "trained in one process, nobody signed"
        unsigned_file = CheckResult("signatures", Outcome.UNSIGNED, words)
        return [*checks, unsigned_file if signatures is None else skipped_check]
    if signatures is None:
        words = "none in the file, so it is not a model of this study's sites"
        return [*checks, CheckResult.of("signatures", False, words)]
    study_file = StudyFile.read(roster)
    checks += _signatures(content, statement, signatures, study_file)
    if transcript is None:
        words = "give --transcript transcript.bin to compute the model anew"
        return [*checks, CheckResult("transcript", Outcome.SKIPPED, words)]
    shown = Transcript.read(transcript)
    return [*checks, *_transcript(model, document, study_file, shown)]


def _transcript(
    model: Any, document: dict[str, Any], study_file: StudyFile, transcript: Transcript
) -> Iterator[CheckResult]:
    """From signed bytes to the same model; stops at the first failure."""
    signatures = document["signed"]
    same = signatures.get("transcript") == transcript.root.hex()
    words = f"{len(transcript.rounds)} rounds, the root that the coordinator signed"
    yield CheckResult.of("transcript", same, words if same else "not the one that was signed")
    try:
        words_of_sites = last_words(study_file, transcript)
        run = replay_transcript(study_file, transcript)
    except HedgerowError as error:
        yield CheckResult.of("replay", False, f"{error}{_releases(model.privacy_)}")
        return
    rounds = f"{len(transcript.rounds)} rounds opened and asked as the method asks them"
    yield CheckResult.of("replay", True, rounds)
    differences = _differences(model, document, study_file, run.model)
    wrong = f"not what the sums lead to: {', '.join(differences)}"
    words = wrong if differences else "the one that the sums lead to"
    yield CheckResult.of(MODEL, not differences, f"{words}{_releases(model.privacy_)}")
    problems = problems_of_releases(study_file, transcript, words_of_sites)
    words = "; ".join(problems) or "every message is one that its site says that it sent"
    yield CheckResult.of("messages", not problems, words)
    problems = problems_of_charges(study_file, run.sites, words_of_sites)
    words = "; ".join(problems) or "every site was charged what was asked, and no more"
    yield CheckResult.of("charges", not problems, words)
    yield CheckResult.of(PLAUSIBLE, not run.plausibility.findings, run.plausibility.words)
    if run.influence is not None:
        yield CheckResult.of(INFLUENCE, not run.influence.findings, run.influence.words)
    open_sites = [name for k, name in enumerate(study_file.names) if k not in words_of_sites]
    if open_sites:
        words = f"{', '.join(open_sites)} did not close: count them at the study's whole budget"
        yield CheckResult("final", Outcome.SKIPPED, words)
    else:
        alone = [study_file.names[k] for k, w in words_of_sites.items() if w.body.root == UNASKED]
        rest = f"; {', '.join(alone)} before the run had ended" if alone else ""
        yield CheckResult.of("final", True, f"all sites have closed the study{rest}")


def _differences(
    model: Any, document: dict[str, Any], study_file: StudyFile, again: Any
) -> list[str]:
    """Entries of the model file that differ from what the sums lead to, names included.

    Another release must compute the same numbers; that it is another is no difference.
    """
    own_content = _plain(model_content(again))
    content = {**document["content"], "privacy": dict(document["content"]["privacy"])}
    for statement in (content["privacy"], own_content["privacy"]):
        del statement["release"], statement["source"]
    names = [name for name in own_content if name != "run" and content[name] != own_content[name]]
    own_rounds, rounds = (  # without their bytes, which depend on the transport
        [replace(record, bytes_out=0, bytes_in=0) for record in one.run_.rounds]
        for one in (again, model)
    )
    names += ["run"] if rounds != own_rounds else []
    if study_file.study.asks_held_out:
        evaluation = kept_evaluation(again)
        own_evaluation = None if evaluation is None else _plain(evaluation.to_dict())
        names += ["evaluation"] if document.get("evaluation") != own_evaluation else []
    return names


def _releases(statement: PrivacyStatement) -> str:
    """Names both releases if another one made the model."""
    if statement.source == source_digest():
        return ""
    made, own = f"{statement.release} ({statement.source[:12]})", source_digest()[:12]
    return f"; made by hedgerow {made}, computed anew by {__version__} ({own})"


def _plain(content: Any) -> Any:
    """The content as it is read from a file."""
    return json.loads(json.dumps(content))


def closing_words(folder: RunFolder, study_file: StudyFile) -> list[str]:
    """The results of verifying a finished run, for the statement in its folder."""
    transcript = folder.path / TRANSCRIPT
    checks = verify_model(folder.model_file, folder.study_file, transcript)
    names = [check.words for check in checks if check.name in ("final", PLAUSIBLE, INFLUENCE)]
    how = "hedgerow verify model.json --roster study.toml --transcript transcript.bin"
    return [verdict(checks), *names, f"whoever has these files can do it again: {how}"]


def _form(document: dict[str, Any]) -> CheckResult:
    if find_spec("jsonschema") is None:
        return CheckResult(FORMAT, Outcome.SKIPPED, f"not checked; {INSTALL}")
    problems = problems_of("model", document)
    more = f"; {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
    words = "; ".join(problems[:MOST_PROBLEMS]) + more or "as in the published JSON Schema"
    return CheckResult.of(FORMAT, not problems, words)


def _evaluation(model: Any, document: dict[str, Any]) -> CheckResult:
    """Checks that an evaluation is of this model; a study's evaluation is unsigned."""
    evaluation = Evaluation.from_dict(document["evaluation"])
    by = "signed by nobody" if document.get("signer") is None else "signed with the model"
    words = f"of this model, {evaluation.privacy_.summary} for its own records; {by}"
    return CheckResult.of("evaluation", model.model_.score.digest in evaluation.digests, words)


def _arithmetic(statement: PrivacyStatement) -> Iterator[CheckResult]:
    """Whether rounds, rest and guarantee add up."""
    spent = statement.spent_fraction
    if spent is None:
        words = "no noise was added; there is no guarantee"
        yield CheckResult.of("guarantee", math.isinf(statement.epsilon), words)
        return
    parts = max(
        math.fsum(line.part for line in lines) for lines in (statement.spending, statement.held_out)
    )
    left = math.fsum(part.part for part in statement.unspent)
    words = f"rounds add up to {parts:.1%} of the budget; {spent:.1%} were spent"
    yield CheckResult.of("rounds", abs(parts - spent) < SUM_TOLERANCE, words)
    words = f"{left:.1%} of the budget were left"
    yield CheckResult.of("rest", abs(spent + left - 1.0) < SUM_TOLERANCE, words)
    is_right = statement.spent_epsilon <= statement.epsilon * (1.0 + SUM_TOLERANCE)
    words = f"what was asked has epsilon {statement.spent_epsilon:.4g}"
    yield CheckResult.of("guarantee", is_right, f"{words}; {statement.epsilon:.4g} is guaranteed")


def _signatures(
    content: Any, statement: PrivacyStatement, signatures: dict[str, Any], study_file: StudyFile
) -> Iterator[CheckResult]:
    study = study_file.study
    is_same = signatures["study"] == study.hash.hex()
    yield CheckResult.of("study", is_same, f"{study.name}, {study.account}")
    message = signed_message(model_file.digest_of(content), signatures)
    is_right = _is_signed_twice(study_file.roster.coordinator, signatures, message)
    words = "model, study and receipts are signed by the coordinator of the study"
    yield CheckResult.of("coordinator", is_right, words)
    receipts = _receipts(signatures["receipts"], study_file)
    for name, receipt in receipts.items():
        spent = None if receipt is None else receipt.header.ledger.spent
        words = "no valid receipt" if spent is None else receipt_words(spent, study)
        yield CheckResult.of(f"site {name}", receipt is not None, words)
    valid = [receipt for receipt in receipts.values() if receipt is not None]
    is_enough = len(valid) >= study.threshold
    more = "" if is_enough else f"; sums are opened with {study.threshold} or more"
    words = f"receipts of {len(valid)} of {study.n_sites} sites{more}"
    yield CheckResult.of(SITES, is_enough, words)
    yield _largest(valid, statement, study)
    if signatures.get("vouches"):
        yield _vouches(content, signatures, study_file)


def _vouches(content: Any, signatures: dict[str, Any], study_file: StudyFile) -> CheckResult:
    """Sites that have recomputed the model and vouch for it; an invalid signature fails."""
    keys = dict(zip(study_file.names, study_file.roster.sites, strict=True))
    message = vouch_message(model_file.digest_of(content), signatures)
    false_names = [
        name
        for name, vouch in sorted(signatures["vouches"].items())
        if name not in keys or not _is_signed_twice(keys[name], vouch, message)
    ]
    if false_names:
        return CheckResult.of(VOUCHES, False, f"not signed by {', '.join(false_names)}")
    count = len(signatures["vouches"])
    return CheckResult.of(VOUCHES, True, "1 site vouches" if count == 1 else f"{count} sites vouch")


def _is_signed_twice(key: bytes, signatures: dict[str, str], message: bytes) -> bool:
    """Whether both the Ed25519 and the ML-DSA-65 signatures are valid."""
    signature, lasting_key, lasting = (
        bytes.fromhex(signatures.get(name, ""))
        for name in ("signature", "lasting_key", "lasting_signature")
    )
    is_lasting = is_signed_lasting(key, lasting_key, lasting, message)
    return is_signed(key, signature, message) and is_lasting


def _receipts(texts: dict[str, str], study_file: StudyFile) -> dict[str, SignedHeader | None]:
    """By site; None for a receipt that this site did not sign for this study."""
    receipts: dict[str, SignedHeader | None] = {}
    for name, text in sorted(texts.items()):
        receipts[name] = None
        with suppress(HedgerowError, ValueError):
            receipt, place = SignedHeader.read(bytes.fromhex(text)), study_file.names.index(name)
            receipt.verify(study_file.roster.sites[place])
            if (receipt.header.sender, receipt.header.study_hash) == (place, study_file.study.hash):
                receipts[name] = receipt
    return receipts


def _largest(
    receipts: Sequence[SignedHeader], statement: PrivacyStatement, study: Study
) -> CheckResult:
    """Checks that the statement's spending is the largest of the sites' own receipts.

    It may be larger by failed rounds, which count in full although a site that missed them was
    not charged.
    """
    costs = [receipt.header.ledger.spent for receipt in receipts]
    if statement.spent_fraction is None or "inf" in costs:
        return CheckResult.of("receipts", statement.spent_fraction is None, "there is no guarantee")
    part = float(max(map(Fraction, costs), default=Fraction(0)) / study.total)
    more = statement.spent_fraction - part
    failed_part = math.fsum(line.part for line in statement.spending if line.what.endswith(FAILED))
    words = f"the largest receipt is {part:.1%} of the budget, as the statement says"
    if more >= SUM_TOLERANCE:
        words = f"the largest receipt is {part:.1%} of the budget; the statement counts failed "
        words += f"rounds in full and says {statement.spent_fraction:.1%}"
    is_right = -SUM_TOLERANCE < more < failed_part + SUM_TOLERANCE
    return CheckResult.of("receipts", is_right, words)


def replay_run(path: Path) -> ReplayedRun:
    """The run in a model file's folder, made again."""
    folder, transcript = RunFolder(path.parent), path.parent / TRANSCRIPT
    if not (folder.study_file.exists() and transcript.exists()):
        raise ParameterError(
            f"{folder.path} holds no record of a run; ask the coordinator for study.toml and "
            f"{TRANSCRIPT}, which hold no secret, and put them beside the model. A fit in one "
            "process keeps no such record."
        )
    return replay_transcript(folder.read_study(), Transcript.read(transcript))
