"""Approval of a study at a site: a person reviews the rows, the guarantee and the price.

check     reads the rows against the study; spends nothing and writes nothing
approve   takes the whole cap out of the site's lifetime budget, and records who agreed
revoke    ends the study here; its unspent budget is free again
close     the same with the site's last message, which lists its charges and releases
"""

from __future__ import annotations

import bisect
import datetime as dt
import getpass
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from hedgerow.data.reading.report import DataReport, report_of
from hedgerow.deployment.site_state import (
    DataPlace,
    StateFolder,
    StudyFolder,
    in_database,
    read_rows,
)
from hedgerow.deployment.study_file import StudyFile, as_text
from hedgerow.errors import HedgerowError, LedgerUnavailable, ParameterError, SiteRefused
from hedgerow.federation.audit_log import Audit
from hedgerow.federation.client import site_of
from hedgerow.federation.policy import HOW_TO_OPEN, PolicyLine, SitePolicy, number_text
from hedgerow.methods import model_file
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, DPModel, Measure
from hedgerow.privacy.accounting.rounding import float_above, format_above
from hedgerow.privacy.declaration import approval
from hedgerow.privacy.ledger.events import Approved, LifetimeSet, cost_text
from hedgerow.privacy.ledger.file import open_ledger
from hedgerow.privacy.ledger.rules import Books
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.privacy.ledger.store import make_private, write_private
from hedgerow.privacy.queries.kinds import QueryKind
from hedgerow.privacy.statement.wording import dp_model_words
from hedgerow.privacy.study import Study
from hedgerow.schema.visible import visible
from hedgerow.secagg.keys import check_pins, fingerprint, spoken_words


# Check.
def check(study_file: StudyFile, place: DataPlace) -> tuple[int, DataReport]:
    """The number of usable rows, and how their values were read. None of it leaves the site."""
    if place.push_down:
        database_rows = in_database(study_file.study, place)
        return database_rows.n, database_rows.report
    encoded_rows, schema = read_rows(study_file.study, place), study_file.study.schema
    return encoded_rows.n, report_of([encoded_rows], schema, place.label(schema))


# What leaves.
def what_leaves(study_file: StudyFile) -> list[tuple[str, str]]:
    """Lines for the person who approves, one for each fact, in plain words."""
    study = study_file.study
    held_out = {_words(kind) for kind in study.asks_held_out}
    return [
        ("study", f"{study.name}, {study.account}"),
        ("coordinator", fingerprint(study.coordinator)),
        *((f"site {name}", fingerprint(key)) for name, key in _sites(study_file)),
        ("method", study.method),
        ("columns", ", ".join(study.schema.names)),
        ("guarantee", guarantee_words(study)),
        *approval(study),
        *(("leaves", words) for words in sorted({_words(kind) for kind in study.admitted})),
        *(("leaves", f"{words}, of held-out records") for words in sorted(held_out)),
        ("never leaves", "a row, a label, a value, this site's own part of a sum"),
    ]


def guarantee_words(study: Study) -> str:
    if study.dp_model is DPModel.NONE:
        return "no guarantee: no noise is added, epsilon is infinite"
    per = "record" if study.records_per_person == 1 else f"{study.records_per_person} records"
    epsilon, delta = printed_cost(study.epsilon), printed_cost(study.delta)
    return (
        f"epsilon {epsilon}, delta {delta} for each {per}; {dp_model_words(study.dp_model.value)}"
    )


def _sites(study_file: StudyFile) -> Iterator[tuple[str, bytes]]:
    return zip(study_file.names, study_file.roster.sites, strict=True)


STATISTIC_WORDS = {
    "Count": "record counts",
    "ClassCounts": "class counts",
    "LabelReports": "randomized label bits",
    "TargetClassCounts": "record counts per interval of the target",
    "Fractions": "target sums",
    "Gradients": "prediction-error sums (gradients)",
    "Hessians": "prediction-uncertainty sums (Hessians)",
    "EventCounts": "events and censored records per interval of time",
    "CurveNewton": "one Newton step on the weights of the curves",
    "SurfaceGradients": "one gradient step on curves and on surfaces of two columns",
}
GROUP_WORDS = {
    "Whole": "in total",
    "Cells": "per column and bin",
    "Leaves": "per leaf",
    "Sides": "per side of candidate splits",
    "TargetCells": "per interval of the target",
    "ResidualCells": "per interval of the prediction error",
    "PredictionCells": "per interval of the prediction",
    "ScoreCells": "per interval of the predicted probability",
}


def _words(kind: QueryKind) -> str:
    match kind.query:
        case "SumQuery":
            return f"masked noisy sums: {STATISTIC_WORDS[kind.what]}, {GROUP_WORDS[kind.by]}"
        case "BoundQuery":
            return "masked noisy sums: best impurity that this site could reach"
        case _:
            quantity = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", kind.what).lower()
            return f"the index of a private selection, scored by {quantity}"


# Approve.
def reason_not_to_approve(state: StateFolder, study_file: StudyFile) -> list[str]:
    """Every reason why this site cannot approve the study, before anything is written."""
    rules, study = state.policy(), study_file.study
    closed_reason = f"its policy allows nothing yet; {HOW_TO_OPEN}"
    by_policy = rules.policy.reasons(study, study_file.rounds, study_file.longest_message)
    reasons = [closed_reason] if rules.allows_nothing else by_policy
    own = state.identity().public
    if own not in study.sites:
        return [*reasons, "the roster does not hold this site's key; send it to the coordinator"]
    if dict(zip(study.sites, study_file.names, strict=True))[own] != state.name:
        reasons.append(f"the roster calls this site by another name than {state.name!r}")
    try:
        check_pins(
            study_file.roster, study.sites.index(own), set(rules.pins.values()), study.threshold
        )
    except SiteRefused:
        reasons.append(
            f"fewer than {study.threshold - 1} of the other sites are known here; confirm "
            "fingerprints out of band (telephone) and write them under [trusted_sites] of "
            "policy.toml"
        )
    return reasons


def _require_budget(state: StateFolder, study: Study, rules: SitePolicy) -> None:
    """Raises the ledger's refusal of the approval, by its own rules and without an entry."""
    with _books_of(state) as books:
        if study.account in books.accounts and books.accounts[study.account].open:
            return
        trial = books.for_trial()
    trial.apply(LifetimeSet(*rules.lifetime))
    trial.apply(Approved(study.account, study.measure, study.limit, study.name))


# Policy lines that lack.
def missing_lines(state: StateFolder, study_file: StudyFile) -> list[PolicyLine]:
    """Exactly the lines of policy.toml without which this site does not allow the study."""
    rules, study = state.policy(), study_file.study
    return [
        *rules.policy.missing(study, study_file.rounds, study_file.longest_message),
        *_missing_lifetime(state, study, rules),
        *_missing_pins(state, study_file, rules),
    ]


def _missing_lifetime(state: StateFolder, study: Study, rules: SitePolicy) -> Iterator[PolicyLine]:
    """The smallest lifetime budget that also covers the study, to a thousandth."""
    if _pays(state, study, rules) or not isinstance(rules.lifetime_epsilon, Fraction):
        return
    delta = rules.lifetime_delta or study.delta
    step = (rules.lifetime_epsilon + study.epsilon) / 1000

    def with_steps(count: int) -> SitePolicy:
        more = rules.lifetime_epsilon + count * step
        return replace(rules, lifetime_epsilon=more, lifetime_delta=delta)

    most = next((2**k for k in range(16) if _pays(state, study, with_steps(2**k))), None)
    if most is None:
        return  # another reason than the budget, which the ledger reports
    steps = bisect.bisect_left(
        range(most), True, key=lambda count: _pays(state, study, with_steps(count))
    )
    if delta != rules.lifetime_delta:
        words = "how often the guarantee of all studies together may fail"
        yield PolicyLine("lifetime", "delta", number_text(delta), words)
    epsilon = with_steps(steps).lifetime_epsilon
    if epsilon != rules.lifetime_epsilon:
        words = f"all studies of this site together; {printed_cost(rules.lifetime_epsilon)} so far"
        yield PolicyLine("lifetime", "epsilon", number_text(Fraction(epsilon)), words)


def _pays(state: StateFolder, study: Study, rules: SitePolicy) -> bool:
    with suppress(HedgerowError):
        _require_budget(state, study, rules)
        return True
    return False


def _missing_pins(
    state: StateFolder, study_file: StudyFile, rules: SitePolicy
) -> Iterator[PolicyLine]:
    own, pins = state.identity().public, set(rules.pins.values())
    peers = [(name, key) for name, key in _sites(study_file) if key != own]
    if sum(fingerprint(key) in pins for _, key in peers) >= study_file.study.threshold - 1:
        return
    for name, key in peers:
        if fingerprint(key) not in pins:
            words = f"call {name}; its people must read you: {spoken_words(key)}"
            yield PolicyLine("trusted_sites", name, fingerprint(key), words)


def write_lines(state: StateFolder, lines: Sequence[PolicyLine], by: str, about: str) -> bytes:
    """Writes lines into policy.toml with a name and a date; returns its previous content."""
    before = state.policy_file.read_bytes()
    note = visible(f"{by}, {dt.date.today().isoformat()}: {about}")
    text = before.decode("utf-8")
    for line in lines:
        text = _with_line(text, line, note)
    fresh = state.policy_file.with_name("policy.toml.new")
    write_private(fresh, text.encode())
    SitePolicy.read(fresh)
    fresh.replace(state.policy_file)
    return before


def _with_line(text: str, line: PolicyLine, note: str) -> str:
    """A policy with one value set, wherever it stands; all other lines and comments stay."""
    rows, table = text.rstrip("\n").split("\n"), re.compile(rf"\s*\[\s*{line.table}\s*\]")
    if line.table and not any(map(table.match, rows)):
        rows += ["", f"[{line.table}]"]
    start = next(k for k, row in enumerate(rows) if table.match(row)) + 1 if line.table else 0
    heads = (k for k, row in enumerate(rows) if k >= start and re.match(r"\s*\[", row))
    end = next(heads, len(rows))
    key = line.name if not line.table or line.table == "lifetime" else json.dumps(line.name)
    fresh = f"{key} = {line.text}  # {note}"
    pattern = re.compile(rf"""\s*["']?{re.escape(line.name)}["']?\s*=""")
    place = next((k for k in range(start, end) if pattern.match(rows[k])), None)
    if place is not None:
        rows[place : _end_of_value(rows, place)] = [fresh]
    else:
        while end > start and not rows[end - 1].strip():
            end -= 1
        rows.insert(end, fresh)
    return "\n".join(rows) + "\n"


def _end_of_value(rows: Sequence[str], start: int) -> int:
    """The end of a value; a list may span several lines."""
    for end in range(start + 1, len(rows) + 1):
        with suppress(tomllib.TOMLDecodeError):
            tomllib.loads("\n".join(rows[start:end]))
            return end
    return start + 1


@contextmanager
def _books_of(state: StateFolder) -> Iterator[Books]:
    """The state of the ledger; a site that never approved anything has none, and gets none."""
    if not state.store_file.exists():
        yield Books()
        return
    with ledger_of(state) as ledger, ledger.current() as books:
        yield books


def require_allowed(state: StateFolder, study_file: StudyFile, audit: Audit) -> None:
    """Raises, and notes why, if this site's policy or its ledger does not allow the study."""
    with _refusals_noted(study_file.study, audit):
        reasons = reason_not_to_approve(state, study_file)
        if reasons:
            name = study_file.study.name
            raise ParameterError(f"this site does not allow {name!r}: {'; '.join(reasons)}.")
        _require_budget(state, study_file.study, state.policy())


@contextmanager
def _refusals_noted(study: Study, audit: Audit) -> Iterator[None]:
    try:
        yield
    except HedgerowError as error:
        audit.note("not approved", study=study.account, name=study.name, what=str(error))
        raise


def decline(study_file: StudyFile, audit: Audit) -> None:
    """Records that a person reviewed the study and declined it."""
    study, by = study_file.study, getpass.getuser()
    audit.note("not approved", study=study.account, name=study.name, by=by, what=f"{by} said no")


def approve(
    state: StateFolder, study_file: StudyFile, place: DataPlace, audit: Audit
) -> StudyFolder:
    """Approves a study; durable on return. Raises with nothing reserved; repeating it is free.

    It takes the study that was shown, not a path: a file may change while a person reads.
    """
    study = study_file.study
    require_allowed(state, study_file, audit)
    folder = state.study_folder(study.name, study.account)
    with _refusals_noted(study, audit), ledger_of(state) as ledger, ledger.current() as books:
        # One transaction: if another study took the budget meanwhile, no file of this one stays;
        # and the entry becomes durable after the files.
        _set_lifetime(state, ledger)
        is_new = not ledger.is_open(study.account)
        if is_new:
            ledger.approve(study.account, study.measure, study.limit, study.name)
        make_private(folder.path)
        _keep_study(folder, study_file)
        write_private(folder.data_file, place.to_toml().encode())
        total = books.committed
    by, now = getpass.getuser(), dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    content = {"study": study.account, "file": folder.file_digest, "by": by, "time": now}
    content["cap"] = cost_text(study.limit)
    write_private(folder.approval_file, json.dumps(content, indent=2).encode())
    measure = state.policy().lifetime[0].value
    budget = f"{measure} {printed_cost(total)} of the lifetime budget is taken"
    event, words = ("approved", budget) if is_new else ("approved again", "nothing more is taken")
    what = f"{guarantee_words(study)}; {words}"
    audit.note(event, study=study.account, name=study.name, by=by, what=what)
    return folder


def _keep_study(folder: StudyFolder, study_file: StudyFile) -> None:
    """Writes the study as it was shown, including a schema from a separate file."""
    write_private(folder.study_file, as_text(study_file).encode())
    write_private(folder.content_file, json.dumps(study_file.study.to_dict()).encode())
    if StudyFile.read(folder.study_file).study.hash != study_file.study.hash:
        raise ParameterError(
            f"{study_file.name!r} is another study once it is kept; nothing was approved."
        )


def _set_lifetime(state: StateFolder, ledger: SqliteLedger) -> None:
    """Writes the policy file's limit into the ledger if it has changed."""
    measure, limit = state.policy().lifetime
    with ledger.current() as books:
        lifetime = books.lifetime
        if lifetime is None or (lifetime.measure, lifetime.limit) != (measure, limit):
            ledger.set_lifetime(measure, limit)


# Revoke.
def revoke(state: StateFolder, name: str, audit: Audit) -> str:
    """Ends a study by its name or hash prefix; a running service notices at once."""
    folder = find_study(state, name)
    account = str(folder.approval()["study"])
    try:
        site_store = state.site_store()
    except LedgerUnavailable:  # a service holds it, and cleans up once the account is closed
        with ledger_of(state) as ledger:
            if ledger.is_open(account):
                ledger.close(account)
    else:
        with closing(site_store):
            site_store.close_study(account)
    folder.revoke()
    audit.note("revoked", study=account, what=folder.path.name, by=getpass.getuser())
    return folder.path.name


def close(state: StateFolder, name: str, audit: Audit) -> str:
    """Ends a study with the site's last message, unrequested; no service may hold the store."""
    folder = find_study(state, name)
    study = StudyFile.read(folder.study_file).study
    try:
        site_store = state.site_store()
    except LedgerUnavailable:
        raise ParameterError(
            "a service holds this site's store; stop it, close the study, then start it again."
        ) from None
    with closing(site_store):
        memory = site_store.memory(study.account)
        site_of(study, state.identity(), memory, state.policy().pins.values()).close_unasked()
    audit.note("finished", study=study.account, name=study.name, by=getpass.getuser())
    return folder.path.name


def study_of_model(state: StateFolder, model: Path) -> Path:
    """The approved study that a model file names."""
    name = (model_file.open_document(model).get("signed") or {}).get("study")
    for folder in state.study_folders():
        file = folder.study_file
        if file.exists() and StudyFile.read(file).study.hash.hex() == name:
            return file
    raise ParameterError(
        f"{model} is of no study that was approved here; give the study file with --study."
    )


def find_study(state: StateFolder, study_name: str) -> StudyFolder:
    """The one approved study of that name or hash prefix."""
    folders = [folder for folder in state.study_folders() if folder.is_approved]
    matches = [folder for folder in folders if _is_named(folder, study_name)]
    if len(matches) != 1:
        raise ParameterError(
            f"{study_name!r} names {len(matches)} approved studies; approved are "
            f"{[folder.path.name for folder in folders]}."
        )
    return matches[0]


def _is_named(folder: StudyFolder, text: str) -> bool:
    name, _, start = folder.path.name.rpartition("-")
    account = str(folder.approval()["study"])
    return text in (name, folder.path.name, start) or account.startswith(text)


@contextmanager
def ledger_of(state: StateFolder) -> Iterator[SqliteLedger]:
    """Opens the ledger to read it or to write a decision, also while a service holds the store."""
    if not state.store_file.exists():
        state.site_store().close()  # makes its tables
    with open_ledger(state.store_file, state.identity(), state.anchor) as ledger:
        yield ledger


def printed_cost(cost: Cost) -> str:
    return format_above(float_above(cost) if isinstance(cost, Fraction) else cost)


def lifetime_words(state: StateFolder, study: Study) -> str:
    """The part of the lifetime budget that an approval would take."""
    rules = state.policy()
    measure, limit = rules.lifetime
    cost = conversions.lifetime_cost(study.measure, study.limit, measure)
    words = f"{measure.value} {printed_cost(cost)} of {printed_cost(limit)}"
    if measure is Measure.PURE or not isinstance(limit, Fraction):
        return words
    epsilon = format_above(conversions.epsilon_of(measure, cost, rules.lifetime_delta))
    delta = printed_cost(rules.lifetime_delta)
    whole = printed_cost(rules.lifetime_epsilon)
    return f"{words}, alone epsilon {epsilon} of {whole} at delta {delta},"
