"""A study over real sites, from its folder to its model; again after a stop, from where it was."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace

from hedgerow.deployment.progress import Listen, Watch, ignore
from hedgerow.deployment.run_folder import RunFolder, coordinator_of
from hedgerow.deployment.study_file import StudyFile
from hedgerow.deployment.verify import sign_model
from hedgerow.errors import HedgerowError, SpecError
from hedgerow.federation.exchange import Carrier, Patience, patient
from hedgerow.federation.journal import FileJournal
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.training import Circumstances, train
from hedgerow.privacy.ledger.charges import MemoryLedger


def run_study(
    folder: RunFolder,
    carrier: Carrier,
    *,
    resume: bool = False,
    listen: Listen = ignore,
    show_trees: bool = False,
) -> PrivateEstimator:
    """Trains over the sites that the carrier reaches; the folder then holds the model.

    `listen` hears of every round, with `show_trees` of the newest tree too.

    Whatever stops it, the folder holds all that is needed to go on: what was answered is read
    from the record, and the round that was under way is asked again in the same words.
    """
    agreed = folder.agreed()
    with folder.held():
        _check_begun(folder, resume)
        folder.take_schema_in(agreed)
        folder.stop_file.unlink(missing_ok=True)
        with (
            closing(FileJournal(folder.path)) as journal,
            closing(
                Watch(
                    folder.events_file,
                    folder.stop_file,
                    agreed.rounds,
                    journal.rounds,
                    listen,
                    show_trees=show_trees,
                )
            ) as watch,
        ):
            return _trained(folder, agreed, carrier, journal, watch)


def _check_begun(folder: RunFolder, resume: bool) -> None:
    if resume and not folder.is_begun:
        raise SpecError(f"no run was begun in {folder.path}; begin it with `hedgerow study run`.")
    if not resume and folder.is_begun:
        raise SpecError(
            f"a run was begun in {folder.path}; `hedgerow study resume` goes on with it. A new run "
            "would be charged anew: to begin one, copy study.toml and coordinator.key to another "
            "folder."
        )
    kept = [path.name for path in folder.results if path.exists()]
    if not resume and kept:
        raise SpecError(
            f"{folder.path} holds {kept} of another run or fit, which this run would replace; move "
            "them away, or begin the run in another folder."
        )


def _trained(
    folder: RunFolder, agreed: StudyFile, carrier: Carrier, journal: FileJournal, watch: Watch
) -> PrivateEstimator:
    study = agreed.study
    identity = folder.identity(agreed)
    coordinator = coordinator_of(agreed, identity, journal, first_attempt=int(time.time()))
    patience = Patience(agreed.names, agreed.timing, watch.hear)
    sites = SecureSites(study, coordinator, patient(carrier, patience), patience, journal)
    federation = Server(study, sites, MemoryLedger(study.limit), watch.hear)
    watch.follow(federation)
    watch.say("resumed" if journal.rounds or journal.under_way() else "begun", study=study.account)
    circumstances = Circumstances(simulated=False, persons_told=study.by_person)
    model = agreed.estimator()
    try:
        train(model, study, agreed.recipe, federation, circumstances)
    except HedgerowError as error:
        watch.say("ended", why=str(error))
        raise
    model.privacy_ = replace(model.privacy_, about=agreed.about)
    model._named()
    model.save(folder.model_file)
    sign_model(folder, agreed, identity)
    folder.statement_file.write_text(f"{model.privacy_}\n", encoding="utf-8")
    if agreed.study.asks_held_out:
        content = json.dumps(model.evaluation_.to_dict(), indent=1)
        folder.evaluation_file.write_text(f"{content}\n", encoding="utf-8")
    model.report(folder.report_file)
    watch.say("finished", model=folder.model_file.name)
    return model
