"""`hedgerow site join`: everything that was approved here is served until somebody stops it.

Letters come from coordinators that this process calls (HTTPS), and from network engines on the
same machine that knock at its Unix socket. Studies that are approved or revoked meanwhile are
taken up or let go without a restart.
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

import hedgerow
from hedgerow.data.rows import Draws, public_draws
from hedgerow.deployment.approve import held_rows
from hedgerow.deployment.site_state import DataPlace, StateFolder, StudyFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import HedgerowError, SpecError
from hedgerow.federation.audit_log import LOG, Audit, AuditLine, reason_of, untold
from hedgerow.federation.daemon import Daemon, note_quietly
from hedgerow.federation.transports.certificates import client_context
from hedgerow.federation.transports.https import Caller
from hedgerow.federation.transports.socket import SocketDoor
from hedgerow.kernels.warming import warm
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.study import Study

LOOK_SECONDS = 2.0
"""How often the folder of studies is looked at."""
AGAIN_SECONDS = 60.0
"""How often a study that could not be served is tried again."""


class Serving:
    """A site's service and its ways to the outside, as long as the process lives."""

    def __init__(
        self,
        state: StateFolder,
        *,
        tell: Callable[[AuditLine], None] = untold,
        socket: Path | None = None,
        group: str | None = None,
        stopped: threading.Event | None = None,
    ) -> None:
        """`group` lets another user's network engine knock at the socket.

        Once `stopped` is set no other study is taken up, and `run` returns.
        """
        self._state, self._stopped = state, stopped or threading.Event()
        self._opened = ExitStack()
        self._served: dict[StudyFolder, Study] = {}
        self._calls: dict[tuple[str, str], Caller] = {}
        self._failed: dict[StudyFolder, str] = {}
        self._not_before: dict[StudyFolder, float] = {}
        with ExitStack() as opened:
            self.vault = state.vault()
            opened.callback(self.vault.close)
            self.audit = Audit(state.audit_file, tell)
            self.daemon = Daemon(state.identity(), self.vault, state.policy(), self.audit)
            path = socket or state.socket
            door = SocketDoor(path, self.daemon.handle, mode=0o660 if group else 0o600)
            opened.callback(door.close)
            if group is not None:
                shutil.chown(path, group=group)
            self._opened = opened.pop_all()
        self.audit.note("started", what=f"process {os.getpid()}")
        self.look()

    def run(self) -> None:
        """Until `stopped` is set."""
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self.look()
            except (HedgerowError, OSError) as error:  # a full disk must not end the service
                LOG.error("the folder of studies could not be looked at", exc_info=error)

    def look(self) -> None:
        """Takes up what was approved, lets go what was revoked."""
        approved = {folder for folder in self._state.study_folders() if folder.is_approved}
        for folder in set(self._served) - approved:
            self.daemon.close(self._served.pop(folder).hash)
            self.audit.note("let go", what=folder.path.name)
        for folder in sorted(approved - set(self._served), key=lambda folder: folder.path):
            if self._stopped.is_set():
                return
            if time.monotonic() >= self._not_before.get(folder, 0.0):
                self._take_up(folder)
        self._call_coordinators()

    def close(self) -> None:
        """Waits for a letter that is being answered, and not for a coordinator that is silent."""
        for caller in self._calls.values():
            caller.stop()
        self.daemon.end()
        self._opened.close()
        self.audit.note("stopped", what=f"process {os.getpid()}")

    # ------------------------------------------------------------------------------------ studies
    def _take_up(self, folder: StudyFolder) -> None:
        """One study that cannot be served does not keep the others from being served."""
        try:
            study, place = _approved(folder), DataPlace.read(folder.data_file)
            self.daemon.require_open(study)
            rows = held_rows(study, place, self._draws(study))
            self.daemon.open(study, rows)
        except (HedgerowError, OSError) as error:
            self._note_failure(folder, reason_of(error))
            return
        self._served[folder] = study
        self._failed.pop(folder, None)
        self.audit.note("serves", study=study.account, name=study.name, what=f"{rows.n} rows")

    def _note_failure(self, folder: StudyFolder, reason: str) -> None:
        """Once, however often it is tried; reading rows again takes a while."""
        self._not_before[folder] = time.monotonic() + AGAIN_SECONDS
        if self._failed.get(folder) != reason:
            self.audit.note("cannot serve", what=f"{folder.path.name}: {reason}")
        self._failed[folder] = reason

    def _draws(self, study: Study) -> Draws:
        if study.placement is Placement.NOWHERE:
            place = study.sites.index(self._state.identity().public)
            return public_draws(study.public_seed, place)
        return Draws(self.vault.secret(study.account), study.account)

    # --------------------------------------------------------------------------------------- calls
    def _call_coordinators(self) -> None:
        """One call for each address, however many studies it has."""
        wanted = {}
        for folder in self._served:
            place = DataPlace.read(folder.data_file)
            if place.coordinator is not None and place.authority is not None:
                wanted[place.coordinator, place.authority] = folder
        for address in set(self._calls) - set(wanted):
            self._calls.pop(address).stop()
        for address in set(wanted) - set(self._calls):
            self._calls[address] = self._calling(*address)

    def _calling(self, url: str, authority: str) -> Caller:
        folder = self._state.tls / authority
        tls = client_context(
            self._state.tls / "site.key", folder / "site.crt", folder / "authority.crt"
        )
        caller = Caller(
            url, tls, self.daemon.handle, lambda text: note_quietly(self.audit, "call", what=text)
        )
        threading.Thread(target=caller.run, name=url, daemon=True).start()
        return caller


def prepare(state: StateFolder) -> None:
    """What a process does once, before it serves: its log, its cache, its compiled loops."""
    if not os.access(Path(hedgerow.__file__).parent, os.W_OK):
        os.environ.setdefault("NUMBA_CACHE_DIR", str(state.numba))
    os.umask(0o077)
    handler = logging.FileHandler(state.log_file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    LOG.propagate = False
    audit = Audit(state.audit_file)
    audit.note("starts", what="loops are compiled, the first time for a while")
    try:
        warm()
    except KeyboardInterrupt:
        audit.note("stopped", what="before loops were compiled; nothing was served")
        raise


def _approved(folder: StudyFolder) -> Study:
    """The study in the folder, if it is the one that somebody approved."""
    study = StudyFile.read(folder.study_file).study
    if study.account != folder.approval().get("study"):
        raise SpecError(
            f"{folder.study_file} was changed after it was approved; bring the approved file "
            "back, or revoke and approve anew."
        )
    return study
