"""Runs a study over real sites, from its folder to its model; resumes it after a stop."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace

from hedgerow.deployment.progress import Listen, Watch, ignore
from hedgerow.deployment.run_folder import RunFolder, coordinator_of
from hedgerow.deployment.study_file import StudyFile
from hedgerow.deployment.verify import closing_words, sign_model
from hedgerow.errors import HedgerowError, ParameterError
from hedgerow.federation.exchange import Exchange, RetryPolicy, pace_of, patient
from hedgerow.federation.journal import FileJournal
from hedgerow.federation.plausibility import Plausibility
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.training import Circumstances, train
from hedgerow.privacy.ledger.charges import MemoryLedger


def run_study(
    folder: RunFolder,
    exchange: Exchange,
    *,
    resume: bool = False,
    listen: Listen = ignore,
    show_trees: bool = False,
    anyway: bool = False,
) -> PrivateEstimator:
    """Trains over the sites that the exchange reaches; the folder then has the model.

    `listen` gets every round, with `show_trees` also the newest tree. `anyway` continues if sums
    are beyond what honest sites send; the statement says so.

    Whatever stops it, the folder has everything needed to resume: answers are read from the record,
    and the round under way is asked again unchanged.
    """
    study_file = folder.read_study()
    with folder.lock():
        _check_begun(folder, resume)
        folder.take_schema_in(study_file)
        folder.stop_file.unlink(missing_ok=True)
        with (
            closing(FileJournal(folder.path)) as journal,
            closing(
                Watch(
                    folder.events_file,
                    folder.stop_file,
                    study_file.rounds,
                    journal.rounds,
                    listen,
                    show_trees=show_trees,
                )
            ) as watch,
        ):
            plausibility = Plausibility(study_file.study, study_file.rows_at_most, anyway)
            return _train(folder, study_file, exchange, journal, watch, plausibility)


def _check_begun(folder: RunFolder, resume: bool) -> None:
    if resume and not folder.is_begun:
        raise ParameterError(
            f"no run was begun in {folder.path}; begin it with `hedgerow study run`."
        )
    if not resume and folder.is_begun:
        raise ParameterError(
            f"a run was begun in {folder.path}; `hedgerow study resume` goes on with it. A new run "
            "would be charged anew: to begin one, copy study.toml and coordinator.key to another "
            "folder."
        )
    result_names = [path.name for path in folder.results if path.exists()]
    if not resume and result_names:
        raise ParameterError(
            f"{folder.path} holds {result_names} of another run or fit, which this run would "
            "replace; move them away, or begin the run in another folder."
        )


def _train(
    folder: RunFolder,
    study_file: StudyFile,
    exchange: Exchange,
    journal: FileJournal,
    watch: Watch,
    plausibility: Plausibility,
) -> PrivateEstimator:
    study = study_file.study
    identity = folder.identity(study_file)
    coordinator = coordinator_of(study_file, identity, journal, first_attempt=int(time.time()))
    names, timing = study_file.names, study_file.timing
    retry_policy = RetryPolicy(names, timing, watch.hear, pace=pace_of(exchange))
    asking = patient(watch.over(exchange, names), retry_policy)
    sites = SecureSites(study, coordinator, asking, retry_policy, journal)
    checks = watch.hear, plausibility, study_file.influence
    federation = Server(study, sites, MemoryLedger(study.limit), *checks)
    watch.follow(federation)
    watch.say("resumed" if journal.rounds or journal.under_way() else "begun", study=study.account)
    circumstances = Circumstances(simulated=False, persons_declared=study.by_person)
    model = study_file.estimator()
    try:
        train(model, study, study_file.method, federation, circumstances)
    except HedgerowError as error:
        watch.say("ended", why=str(error))
        raise
    model.privacy_ = replace(model.privacy_, about=study_file.about)
    model._name_classes()
    transcript = journal.transcript
    if len(transcript.last_words) < study.n_sites:  # each site's last message, the same if repeated
        last_words = sites.close(transcript.root, len(transcript.leaves))
        if len(last_words) > len(transcript.last_words):
            transcript.add_closed(last_words[site] for site in sorted(last_words))
    model.save(folder.model_file)
    model.signed_ = sign_model(folder, study_file, identity, transcript)
    lines = [str(model.privacy_), *(f"  verified: {w}" for w in closing_words(folder, study_file))]
    folder.statement_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if study.asks_held_out:
        content = json.dumps(model.evaluation_.to_dict(), indent=1)
        folder.evaluation_file.write_text(f"{content}\n", encoding="utf-8")
    model.report(folder.report_file)
    watch.say("finished", model=folder.model_file.name)
    return model
