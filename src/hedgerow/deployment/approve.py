"""How a site comes to serve a study: a person looks at the rows, the promise and the price.

check     reads the rows against the study; spends nothing and writes nothing
approve   takes the whole cap out of the site's lifetime budget, and says who agreed
revoke    ends the study here; what it did not spend is free again
"""

from __future__ import annotations

import datetime as dt
import getpass
import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction

from hedgerow.data.engines.database import InDatabase
from hedgerow.data.prepared import Held
from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.reading.report import DataReport, report_of
from hedgerow.data.reading.sources import give_room_back
from hedgerow.data.rows import Draws, Rows
from hedgerow.deployment.site_state import DataPlace, StateFolder, StudyFolder
from hedgerow.deployment.study_file import StudyFile, as_text
from hedgerow.errors import HedgerowError, LedgerUnavailable, PartyRefused, SpecError
from hedgerow.federation.audit_log import Audit
from hedgerow.federation.policy import HOW_TO_OPEN
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, Measure, Placement
from hedgerow.privacy.accounting.rounding import float_above, printed
from hedgerow.privacy.declaration import approval
from hedgerow.privacy.ledger.events import Approved, LifetimeSet, cost_text
from hedgerow.privacy.ledger.file import open_ledger
from hedgerow.privacy.ledger.rules import Books
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.privacy.ledger.store import make_private, write_private
from hedgerow.privacy.queries.kinds import QueryKind
from hedgerow.privacy.study import Study
from hedgerow.secagg.keys import check_pins, fingerprint


# ------------------------------------------------------------------------------------------ check
def check(agreed: StudyFile, place: DataPlace) -> tuple[int, DataReport]:
    """How many rows can be used, and what became of their values. None of it leaves."""
    if place.push_down:
        held = in_database(agreed.study, place)
        return held.n, held.report
    encoded = read_rows(agreed.study, place)
    return encoded.n, report_of([encoded], agreed.study.schema, place.target)


def held_rows(study: Study, place: DataPlace, draws: Draws) -> Held:
    """What a run answers from: rows in memory, or in the database that has them."""
    if place.push_down:
        return in_database(study, place, draws)
    rows = Rows(read_rows(study, place), study.schema, draws)
    give_room_back()
    return rows


def read_rows(study: Study, place: DataPlace) -> Encoded:
    """As a run reads them: no single row is an error."""
    if (study.by_person or study.records_per_person > 1) and place.person is None:
        raise SpecError(
            f"the study keeps {study.records_per_person} records of each person; name the column "
            "that says whose record it is (--person)."
        )
    return encode(place.source, study.schema, target=place.target, person=place.person)


def in_database(study: Study, place: DataPlace, draws: Draws | None = None) -> InDatabase:
    """Refused, before anything is approved, if the database cannot answer the study."""
    if not isinstance(place.source, Selected):
        raise SpecError("a database that makes the sums must be asked for something; give --sql.")
    if place.person is not None:
        raise SpecError(
            "a database that makes the sums knows no persons; leave --person or --push-down out."
        )
    held = InDatabase(place.source, study.schema, place.target, draws)
    held.answering(study)
    return held


# ------------------------------------------------------------------------------------- what leaves
def what_leaves(agreed: StudyFile) -> list[tuple[str, str]]:
    """For the person who says yes or no: one line for each thing, in plain words."""
    study = agreed.study
    held_out = {_words(kind) for kind in study.asks_held_out}
    return [
        ("study", f"{study.name}, {study.account}"),
        ("coordinator", fingerprint(study.coordinator)),
        *((f"site {name}", fingerprint(key)) for name, key in _sites(agreed)),
        ("method", f"{agreed.model.estimator}: {study.recipe}"),
        ("columns", ", ".join(study.schema.names)),
        ("promise", promise_words(study)),
        *approval(study),
        *(("leaves", words) for words in sorted({_words(kind) for kind in study.admitted})),
        *(("leaves", f"{words}, of held-out records") for words in sorted(held_out)),
        ("never leaves", "a row, a label, a value, this site's own part of a sum"),
    ]


def promise_words(study: Study) -> str:
    if study.placement is Placement.NOWHERE:
        return "none: no noise is added, epsilon is infinite"
    per = "record" if study.records_per_person == 1 else f"{study.records_per_person} records"
    epsilon, delta = (printed(float_above(x)) for x in (study.epsilon, study.delta))
    return f"epsilon {epsilon}, delta {delta} for each {per}; noise: {study.placement.value}"


def _sites(agreed: StudyFile) -> Iterator[tuple[str, bytes]]:
    return zip(agreed.names, agreed.roster.sites, strict=True)


def _words(kind: QueryKind) -> str:
    what, by = _spaced(kind.what), _spaced(kind.by)
    match kind.query:
        case "SumQuery":
            return f"masked sums with noise: {what}, by {by}"
        case "BoundQuery":
            return "masked sums with noise: best impurity that this site could reach"
        case _:
            return f"the index of a private choice, scored by {what}"


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower()


# ---------------------------------------------------------------------------------------- approve
def why_not_approve(state: StateFolder, agreed: StudyFile) -> list[str]:
    """Every reason for which this site cannot approve the study, before anything is written."""
    rules, study = state.policy(), agreed.study
    closed = f"its policy allows nothing yet; {HOW_TO_OPEN}"
    reasons = [closed] if rules.allows_nothing else list(rules.policy.reasons(study, agreed.rounds))
    own = state.identity().public
    if own not in study.sites:
        return [*reasons, "the roster does not hold this site's key; send it to the coordinator"]
    if dict(zip(study.sites, agreed.names, strict=True))[own] != state.name:
        reasons.append(f"the roster calls this site by another name than {state.name!r}")
    try:
        check_pins(agreed.roster, study.sites.index(own), set(rules.pins.values()), study.threshold)
    except PartyRefused:
        reasons.append(
            f"fewer than {study.threshold - 1} of the other sites are known here; compare "
            "fingerprints by telephone and write them under [trusted_sites] of policy.toml"
        )
    return reasons


def _require_budget(state: StateFolder, study: Study) -> None:
    """Raises what the ledger would say to the approval, by its own rules and without an entry."""
    with _books_of(state) as books:
        if study.account in books.accounts and books.accounts[study.account].open:
            return
        trial = books.for_trial()
    trial.apply(LifetimeSet(*state.policy().lifetime))
    trial.apply(Approved(study.account, study.measure, study.limit, study.name))


@contextmanager
def _books_of(state: StateFolder) -> Iterator[Books]:
    """What the ledger adds up to; a site that never approved anything has none, and gets none."""
    if not state.vault_file.exists():
        yield Books()
        return
    with ledger_of(state) as ledger, ledger.current() as books:
        yield books


def require_allowed(state: StateFolder, agreed: StudyFile, audit: Audit) -> None:
    """Refuses, and writes down why, what this site's policy or its ledger does not allow."""
    with _refusals_noted(agreed.study, audit):
        reasons = why_not_approve(state, agreed)
        if reasons:
            name = agreed.study.name
            raise SpecError(f"this site does not allow {name!r}: {'; '.join(reasons)}.")
        _require_budget(state, agreed.study)


@contextmanager
def _refusals_noted(study: Study, audit: Audit) -> Iterator[None]:
    try:
        yield
    except HedgerowError as error:
        audit.note("not approved", study=study.account, name=study.name, what=str(error))
        raise


def decline(agreed: StudyFile, audit: Audit) -> None:
    """Somebody looked at the study and said no."""
    study, by = agreed.study, getpass.getuser()
    audit.note("not approved", study=study.account, name=study.name, by=by, what=f"{by} said no")


def approve(state: StateFolder, agreed: StudyFile, place: DataPlace, audit: Audit) -> StudyFolder:
    """Durable on return. Raises with nothing reserved; done twice it takes nothing more.

    It takes the study that was shown and no path: a file may change while a person reads.
    """
    study = agreed.study
    require_allowed(state, agreed, audit)
    folder = state.study_folder(study.name, study.account)
    with _refusals_noted(study, audit), ledger_of(state) as ledger, ledger.current() as books:
        # One transaction: if another study took the budget meanwhile, no file of this one stays;
        # and the entry becomes durable after the files.
        _set_lifetime(state, ledger)
        is_new = not ledger.is_open(study.account)
        if is_new:
            ledger.approve(study.account, study.measure, study.limit, study.name)
        make_private(folder.path)
        _keep_study(folder, agreed)
        write_private(folder.data_file, place.to_toml().encode())
        committed = books.committed
    by, now = getpass.getuser(), dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    said = {"study": study.account, "by": by, "time": now, "cap": cost_text(study.limit)}
    write_private(folder.approval_file, json.dumps(said, indent=2).encode())
    taken = _taken_words(state, committed) if is_new else "nothing more is taken"
    audit.note(
        "approved" if is_new else "approved again",
        study=study.account,
        name=study.name,
        by=by,
        what=f"{promise_words(study)}; {taken}",
    )
    return folder


def _taken_words(state: StateFolder, committed: Cost) -> str:
    measure, _ = state.policy().lifetime
    return f"{measure.value} {printed_cost(committed)} of the lifetime budget is taken"


def _keep_study(folder: StudyFolder, agreed: StudyFile) -> None:
    """Written anew from what was shown, with a schema that had a file of its own taken in."""
    write_private(folder.study_file, as_text(agreed).encode())
    if StudyFile.read(folder.study_file).study.hash != agreed.study.hash:
        raise SpecError(f"{agreed.name!r} is another study once it is kept; nothing was approved.")


def _set_lifetime(state: StateFolder, ledger: SqliteLedger) -> None:
    """The policy file's limit is written into the ledger when it has changed."""
    measure, limit = state.policy().lifetime
    with ledger.current() as books:
        known = books.lifetime
        if known is None or (known.measure, known.limit) != (measure, limit):
            ledger.set_lifetime(measure, limit)


# ----------------------------------------------------------------------------------------- revoke
def revoke(state: StateFolder, wanted: str, audit: Audit) -> str:
    """Ends a study by its name or the beginning of its hash; a running service sees it at once."""
    folder = find_study(state, wanted)
    account = str(folder.approval()["study"])
    try:
        vault = state.vault()
    except LedgerUnavailable:  # a service holds it, and clears up when it sees the account closed
        with ledger_of(state) as ledger:
            if ledger.is_open(account):
                ledger.close(account)
    else:
        with closing(vault):
            vault.close_study(account)
    folder.revoke()
    audit.note("revoked", study=account, what=folder.path.name, by=getpass.getuser())
    return folder.path.name


def find_study(state: StateFolder, wanted: str) -> StudyFolder:
    """The one approved study of that name, or whose hash begins so."""
    found = []
    for folder in state.study_folders():
        if folder.is_approved:
            name, _, start = folder.path.name.rpartition("-")
            account = str(folder.approval()["study"])
            if wanted in (name, folder.path.name, start) or account.startswith(wanted):
                found.append(folder)
    if len(found) != 1:
        known = [folder.path.name for folder in state.study_folders() if folder.is_approved]
        raise SpecError(f"{wanted!r} names {len(found)} approved studies; approved are {known}.")
    return found[0]


@contextmanager
def ledger_of(state: StateFolder) -> Iterator[SqliteLedger]:
    """To read it or to write a decision, also while a service holds the vault."""
    if not state.vault_file.exists():
        state.vault().close()  # makes its tables
    with open_ledger(state.vault_file, state.identity(), state.anchor) as ledger:
        yield ledger


def printed_cost(cost: Cost) -> str:
    return printed(float_above(cost) if isinstance(cost, Fraction) else cost)


def lifetime_words(state: StateFolder, study: Study) -> str:
    """What approving would take of the lifetime budget, by itself."""
    rules = state.policy()
    measure, limit = rules.lifetime
    cost = conversions.lifetime_cost(study.measure, study.limit, measure)
    words = f"{measure.value} {printed_cost(cost)} of {printed_cost(limit)}"
    if measure is Measure.PURE or not isinstance(limit, Fraction):
        return words
    epsilon = printed(conversions.epsilon_of(measure, cost, rules.lifetime_delta))
    delta = printed(float_above(rules.lifetime_delta))
    whole = printed_cost(rules.lifetime_epsilon)
    return f"{words}, alone epsilon {epsilon} of {whole} at delta {delta},"
