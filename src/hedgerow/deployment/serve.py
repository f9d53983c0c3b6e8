"""`hedgerow site serve`: serves everything that was approved here until it is stopped.

Messages come from coordinators that this process calls (HTTPS), and from network engines on the
same machine that connect to its Unix socket. Studies that are approved or revoked meanwhile are
opened or closed without a restart.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hedgerow.data.rows import Draws, public_draws
from hedgerow.deployment.site_state import DataPlace, StateFolder, StudyFolder, held_rows
from hedgerow.errors import HedgerowError
from hedgerow.federation.audit_log import LOG, Audit, AuditLine, ignore_line, reason_of
from hedgerow.federation.daemon import Daemon, note_quietly
from hedgerow.federation.transports.caller import Caller, client_context
from hedgerow.federation.transports.socket import SocketListener
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.study import Study

LOOK_SECONDS = 2.0
"""How often the folder of studies is polled."""
AGAIN_SECONDS = 60.0
"""How often a study that could not be served is retried."""


class Service:
    """A site's service and its connections, as long as the process lives."""

    def __init__(
        self,
        state: StateFolder,
        *,
        tell: Callable[[AuditLine], None] = ignore_line,
        socket: Path | None = None,
        group: str | None = None,
        stop_event: threading.Event | None = None,
    ) -> None:
        """`group` allows another user's network engine to connect to the socket.

        Once `stop_event` is set no other study is opened, and `run` returns.
        """
        self._state, self._stop_event = state, stop_event or threading.Event()
        self._resources = ExitStack()
        self._served_studies: dict[StudyFolder, Study] = {}
        self._finished_studies: set[StudyFolder] = set()
        """Their coordinators are called, too: they may not have heard this site's last word."""
        self._calls: dict[tuple[str, str], Caller] = {}
        self._failure_reasons: dict[StudyFolder, str] = {}
        self._not_before: dict[StudyFolder, float] = {}
        with ExitStack() as resources:
            self.site_store = state.site_store()
            resources.callback(self.site_store.close)
            self.audit = Audit(state.audit_file, tell)
            self.daemon = Daemon(state.identity(), self.site_store, state.policy(), self.audit)
            path = socket or state.socket
            listener = SocketListener(path, self.daemon.handle, mode=0o660 if group else 0o600)
            resources.callback(listener.close)
            if group is not None:
                shutil.chown(path, group=group)
            self._resources = resources.pop_all()
        self.audit.note("started", what=f"process {os.getpid()}")
        self.look()

    def run(self) -> None:
        """Serves until `stop_event` is set."""
        while not self._stop_event.wait(LOOK_SECONDS):
            try:
                self.look()
            except (HedgerowError, OSError) as error:  # a full disk must not end the service
                LOG.error("the folder of studies could not be looked at", exc_info=error)

    def look(self) -> None:
        """Opens newly approved studies and closes revoked ones."""
        approved_folders = {folder for folder in self._state.study_folders() if folder.is_approved}
        self._finished_studies &= approved_folders
        for folder in set(self._served_studies) - approved_folders:
            self.daemon.close(self._served_studies.pop(folder).hash)
            self.audit.note("let go", what=folder.path.name)
        for folder in sorted(
            approved_folders - set(self._served_studies), key=lambda folder: folder.path
        ):
            if self._stop_event.is_set():
                return
            if time.monotonic() >= self._not_before.get(folder, 0.0):
                self._take_up(folder)
        self._call_coordinators()

    def close(self) -> None:
        """Waits for a message that is being answered, but not for a silent coordinator."""
        for caller in self._calls.values():
            caller.stop()
        self.daemon.end()
        self._resources.close()
        self.audit.note("stopped", what=f"process {os.getpid()}")

    def _take_up(self, folder: StudyFolder) -> None:
        """Opens one study; a study that cannot be served does not stop the others.

        A failure is noted once, however often it is retried; reading rows again takes a while.
        """
        try:
            study, place = folder.approved_study(), DataPlace.read(folder.data_file)
            if self.site_store.memory(study.account).last_word() is not None:
                self._finished_studies.add(folder)
            self.daemon.require_open(study)
            rows = held_rows(study, place, self._draws(study))
            self.daemon.open(study, rows)
        except (HedgerowError, OSError) as error:
            reason = reason_of(error)
            self._not_before[folder] = time.monotonic() + AGAIN_SECONDS
            if self._failure_reasons.get(folder) != reason:
                self.audit.note("cannot serve", what=f"{folder.path.name}: {reason}")
            self._failure_reasons[folder] = reason
            return
        self._served_studies[folder] = study
        self._failure_reasons.pop(folder, None)
        self.audit.note("serves", study=study.account, name=study.name, what=f"{rows.n} rows")

    def _draws(self, study: Study) -> Draws:
        if study.dp_model is DPModel.NONE:
            place = study.sites.index(self._state.identity().public)
            return public_draws(study.public_seed, place)
        return Draws(self.site_store.secret(study.account), study.account)

    def _call_coordinators(self) -> None:
        """Keeps one connection per address, however many studies it has."""
        places = [
            DataPlace.read(folder.data_file)
            for folder in (*self._served_studies, *self._finished_studies)
        ]
        calls = {(p.coordinator, p.authority) for p in places if p.coordinator and p.authority}
        for address in set(self._calls) - calls:
            self._calls.pop(address).stop()
        for url, authority in calls - set(self._calls):
            folder = self._state.tls / authority
            tls = client_context(
                self._state.tls / "site.key", folder / "site.crt", folder / "authority.crt"
            )
            caller = Caller(url, tls, self.daemon.handle, self._note_call)
            threading.Thread(target=caller.run, name=url, daemon=True).start()
            self._calls[url, authority] = caller

    def _note_call(self, text: str) -> None:
        note_quietly(self.audit, "call", what=text)


def prepare(state: StateFolder) -> None:
    """Prepares a process before it serves: its log, and permissions of its files."""
    os.umask(0o077)
    handler = logging.FileHandler(state.log_file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    LOG.propagate = False
