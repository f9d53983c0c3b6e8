"""A coordinator's folder: the study, its own key, and all of one run.

study.toml        what was agreed; a schema of its own is taken in when a run begins
coordinator.key   signs every message, 0600
run.json          run id and KEYS: see federation/journal.py
answers.jsonl     every round
transcript.bin    every message of a round and the sites' last words, for `hedgerow verify`
events.jsonl      what happened, for people and pages; sites.json, how every site is at the moment
metrics.socket    health and metrics while it runs, for its owner alone
model.json        the result; statement.txt and report.html, a page for people, beside it
evaluation.json   how good it is on records that were held out, where the study says so
authority/        signs sites' certificates for the HTTPS transport
enrollment.json   tokens of `hedgerow study invite`, and the keys that came with them, 0600
"""

from __future__ import annotations

import fcntl
import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from hedgerow.deployment.progress import SITES_FILE, event_in_words
from hedgerow.deployment.study_file import StudyFile, as_text
from hedgerow.errors import ParameterError
from hedgerow.federation.journal import FileJournal, Record
from hedgerow.privacy.ledger.store import make_private, write_private
from hedgerow.privacy.study import Study
from hedgerow.secagg.keys import Identity
from hedgerow.secagg.server import Coordinator


class RunFolder:
    """The paths of a run, and readers of their files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.study_file, self.key_file = path / "study.toml", path / "coordinator.key"
        self.model_file, self.statement_file = path / "model.json", path / "statement.txt"
        self.evaluation_file, self.report_file = path / "evaluation.json", path / "report.html"
        self.events_file, self.stop_file = path / "events.jsonl", path / "stop"
        self.run_file, self.authority = path / "run.json", path / "authority"
        self.sites_file, self.metrics = path / SITES_FILE, path / "metrics.socket"

    @classmethod
    def create(cls, path: Path) -> tuple[RunFolder, Identity]:
        """A new folder with a new key, for its owner alone."""
        folder = cls(path)
        if folder.study_file.exists() or folder.key_file.exists():
            raise ParameterError(f"{path} already holds a study; name a folder that is new.")
        make_private(path)
        return folder, folder.own_identity()

    def own_identity(self) -> Identity:
        """The coordinator's key in this folder; created the first time."""
        if not self.key_file.exists():
            write_private(self.key_file, Identity.generate().to_bytes().hex().encode())
        try:
            return Identity.from_bytes(bytes.fromhex(self.key_file.read_text("ascii")))
        except ValueError:
            raise ParameterError(f"{self.key_file} holds no key; bring the old one back.") from None

    def read_study(self) -> StudyFile:
        return StudyFile.read(self.study_file)

    def identity(self, study_file: StudyFile) -> Identity:
        """The coordinator's key, which must be the one that the study names."""
        if not self.key_file.exists():
            raise ParameterError(
                f"{self.key_file} is not there; a run needs the key that the study names for the "
                "coordinator."
            )
        identity = self.own_identity()
        if identity.public != study_file.roster.coordinator:
            raise ParameterError(
                f"{self.key_file} is not the key that the study names for the coordinator; bring "
                "the right one back, or correct the study and have it approved."
            )
        return identity

    @property
    def is_begun(self) -> bool:
        return self.run_file.exists()

    @property
    def results(self) -> tuple[Path, ...]:
        """The files a run writes at its end."""
        return self.model_file, self.statement_file, self.evaluation_file, self.report_file

    @property
    def is_finished(self) -> bool:
        return self.model_file.exists()

    def take_schema_in(self, study_file: StudyFile) -> None:
        """Includes a schema file in the study before a run, so that it cannot change later."""
        if "file" in tomllib.loads(self.study_file.read_text(encoding="utf-8"))["schema"]:
            new = self.study_file.with_name("study.toml.new")
            new.write_text(as_text(study_file), encoding="utf-8")
            new.replace(self.study_file)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the folder for one process; the lock ends with the process."""
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise ParameterError(
                f"another process runs the study in {self.path}; `hedgerow study status` shows "
                "what it does, `hedgerow study stop` ends it after its round."
            ) from None
        try:
            yield
        finally:
            os.close(lock)

    def is_held(self) -> bool:
        try:
            with self.lock():
                return False
        except ParameterError:
            return True


def coordinator_of(
    study_file: StudyFile, identity: Identity, journal: FileJournal, first_attempt: int
) -> Coordinator:
    """The coordinator by the journal; a new one has an attempt above all before.

    `first_attempt` must be above that of every earlier run of the study: sites refuse lower ones,
    so that an old message cannot end the present key session.
    """
    study = study_file.study
    role = identity, study_file.roster, study.parameters, study.hash
    if not journal.run:
        return Coordinator(*role, attempt=first_attempt)
    run_id, attempt = bytes.fromhex(journal.run["run_id"]), journal.run["attempt"]
    under_way, keys = journal.under_way(), journal.keys()
    if under_way is not None:
        coordinator = Coordinator.resume(
            *role, run_id=run_id, keys=keys, round=under_way.round, heads=journal.heads
        )
        if journal.attempt == under_way.attempt:
            coordinator.receipts = journal.receipts
        return coordinator
    last = attempt if keys else attempt - 1  # an invitation that nobody answered is sent again
    return Coordinator(*role, journal.heads, last, entropy=lambda _: run_id)


# The state of a run, from its folder alone.

LAST_EVENTS = 5


def progress_of(folder: RunFolder) -> Iterator[tuple[str, str]]:
    """Titles and words of the run's state, from the folder alone."""
    study_file = folder.read_study()
    study = study_file.study
    yield "study", f"{study.name}, {study.account}"
    if not folder.is_begun:
        yield "run", "not begun"
        return
    if folder.is_finished:
        yield "run", f"finished: {folder.model_file}"
    else:
        stopped = "stopped; `hedgerow study resume` goes on with it"
        yield "run", "under way" if folder.is_held() else stopped
    record = Record(folder.path)
    yield "rounds", f"{record.rounds} answered, {study_file.rounds} at most"
    under_way = record.under_way()
    if under_way is not None:
        yield "under way", f"round {under_way.round}"
    for place, head in sorted(record.heads.items()):
        yield f"site {study_file.names[place]}", receipt_words(head.spent, study)
    if folder.events_file.exists():
        for line in folder.events_file.read_text(encoding="utf-8").splitlines()[-LAST_EVENTS:]:
            yield "", event_in_words(json.loads(line))


def receipt_words(spent: str, study: Study) -> str:
    """The spending that a site has signed, `spent` as its ledger writes it."""
    if spent == "inf":
        return "without noise, by its own receipt"
    return f"{float(Fraction(spent) / study.total):.1%} of the budget, by its own receipt"
