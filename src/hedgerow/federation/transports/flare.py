"""NVIDIA FLARE 2.9.0 as a pipe: it carries bytes between our own processes and knows no more.

    coordinator's process    FlareCarrier
        | Unix socket
    FLARE server's job       PipeController
        | mutual TLS, by FLARE
    FLARE site's job         PipeExecutor
        | Unix socket
    site's process           its service

A job is only a length of pipe. If any part of it dies the carrier submits another job and the
same letters are asked again, which costs nothing. What FLARE says about a job's state is not
believed: a result is what came back. This is the one file that imports nvflare.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReservedTopic, ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.fuel.flare_api.flare_api import new_secure_session

from hedgerow.errors import EngineLost
from hedgerow.federation.audit_log import LOG
from hedgerow.federation.exchange import LONGEST_ANSWER, LONGEST_LETTER
from hedgerow.federation.transports.flare_locks import CONTROLLER, EXECUTOR, SOCKET_FILE
from hedgerow.federation.transports.socket import (
    SocketSite,
    listen_at,
    receive_message,
    send_message,
)

LETTER_KEY = "m"
HELLO = "hedgerow.hello"
TASK = "hedgerow"
LONGEST_NOTE = 1 << 20
HELLO_SECONDS = 60.0
"""For job processes to start at the sites."""
ABORT_SECONDS = 2.5
"""Within which FLARE tells a controller that a job process died: was it the engine, or a site?"""
ACCEPT_SECONDS = 90.0
SESSION_SECONDS = 20.0
SUBMIT_PAUSE = 2.0
SUBMITS = 30


# --------------------------------------------------------------------- in the coordinator's process
class FlareCarrier:
    """A `Carrier` that submits a job, waits until its controller calls, and asks through it."""

    def __init__(
        self, kit: Path, user: str, names: Sequence[str], fewest: int, socket_path: Path
    ) -> None:
        """`kit` is the admin's start-up kit; `fewest` sites suffice for a job to start."""
        self._kit, self._user, self._names = kit.resolve(), user, tuple(names)
        self._fewest, self._path = fewest, socket_path.resolve()
        self._server = listen_at(self._path)
        self._server.settimeout(ACCEPT_SECONDS)
        self._pipe: socket.socket | None = None
        self.jobs = 0
        """How many were submitted."""

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        """Through the present job, or through another if that one is gone."""
        for _ in range(3):
            try:
                return self._through(self._pipe or self._submitted(), letters, timeout)
            except OSError as error:
                LOG.warning("the FLARE job is gone (%s); another one is submitted", error)
                self._hang_up()
        raise EngineLost("FLARE lost three jobs in a row; look at the server's log, then resume.")

    def close(self) -> None:
        if self._pipe is not None:
            with suppress(OSError):
                send_message(self._pipe, b"")
        self._hang_up()
        self._server.close()
        self._path.unlink(missing_ok=True)

    def _through(
        self, pipe: socket.socket, letters: Mapping[str, bytes], timeout: float
    ) -> dict[str, bytes]:
        pipe.settimeout(timeout + HELLO_SECONDS)
        send_message(pipe, json.dumps({"sites": list(letters), "timeout": timeout}).encode())
        for letter in letters.values():
            send_message(pipe, letter)
        answered = json.loads(receive_message(pipe, LONGEST_NOTE))["sites"]
        return {name: receive_message(pipe, LONGEST_ANSWER) for name in answered}

    def _submitted(self) -> socket.socket:
        """A job is submitted, and its controller has called."""
        with tempfile.TemporaryDirectory() as folder:
            write_job(Path(folder), self._path, self._names, self._fewest)
            job = self._submit(Path(folder))
        self.jobs += 1
        try:
            pipe, _ = self._server.accept()
        except TimeoutError:
            raise OSError(f"the controller of job {job} did not call") from None
        self._pipe = pipe
        pipe.settimeout(HELLO_SECONDS + ACCEPT_SECONDS)
        said = json.loads(receive_message(pipe, LONGEST_NOTE))
        LOG.info("FLARE job %s runs; not there: %s", job, said["missing"])
        return pipe

    def _submit(self, folder: Path) -> str:
        trouble: Exception | None = None
        for _ in range(SUBMITS):
            try:
                session = new_secure_session(self._user, str(self._kit), timeout=SESSION_SECONDS)
                try:
                    return str(session.submit_job(str(folder)))
                finally:
                    session.close()
            except Exception as error:  # whatever it raises while the server is away
                trouble = error
                time.sleep(SUBMIT_PAUSE)
        raise EngineLost(
            f"FLARE's server takes no job ({trouble}); check that it runs, then resume."
        ) from trouble

    def _hang_up(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def write_job(folder: Path, pipe: Path, names: Sequence[str], fewest: int) -> None:
    """A job of JSON alone: it names two classes that are installed, and ships nothing."""
    config = folder / "app/config"
    config.mkdir(parents=True)
    workflow = {"id": TASK, "path": CONTROLLER, "args": {"pipe": str(pipe), "sites": list(names)}}
    executor = {"tasks": ["*"], "executor": {"path": EXECUTOR, "args": {}}}
    files = {
        folder / "meta.json": {
            "name": TASK,
            "resource_spec": {},
            "min_clients": fewest,
            "deploy_map": {"app": ["@ALL"]},
        },
        config / "config_fed_server.json": {
            "format_version": 2,
            "workflows": [workflow],
            "components": [],
        },
        config / "config_fed_client.json": {
            "format_version": 2,
            "executors": [executor],
            "components": [],
        },
    }
    for path, content in files.items():
        path.write_text(json.dumps(content), encoding="utf-8")


# ----------------------------------------------------------------------- in the FLARE server's job
class PipeController(Controller):  # type: ignore[misc]
    """Passes letters from the coordinator's socket to sites, and their answers back."""

    def __init__(self, pipe: str, sites: list[str]) -> None:
        super().__init__()
        self._path, self._sites = pipe, sites

    def start_controller(self, fl_ctx: Any) -> None:
        pass

    def stop_controller(self, fl_ctx: Any) -> None:
        pass

    def process_result_of_unknown_task(self, *unused: Any, **named: Any) -> None:
        pass

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        self._engine = fl_ctx.get_engine()
        with ThreadPoolExecutor(max(1, len(self._sites))) as pool:
            self._pool = pool
            missing = self._greet(abort_signal)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as pipe:
                pipe.connect(self._path)
                said = {"missing": sorted(missing), "pid": os.getpid()}
                send_message(pipe, json.dumps(said).encode())
                with suppress(OSError):  # the coordinator is gone, and this job with it
                    while self._pass_on(pipe, abort_signal):
                        pass

    def _greet(self, abort_signal: Any) -> set[str]:
        """Tasks are refused until a site's job process runs: asks until each has answered."""
        missing, end = set(self._sites), time.monotonic() + HELLO_SECONDS
        while missing and time.monotonic() < end and not abort_signal.triggered:
            found = self._each({name: Shareable() for name in missing}, HELLO, 1.0, optional=True)
            missing -= {n for n, reply in found.items() if reply.get_return_code() == ReturnCode.OK}
            time.sleep(0.05)
        return missing

    def _pass_on(self, pipe: socket.socket, abort_signal: Any) -> bool:
        """One exchange. False once there is nothing more to pass on."""
        if not _waits(pipe, abort_signal):
            return False
        note = receive_message(pipe, LONGEST_NOTE)
        if not note:
            return False
        head = json.loads(note)
        letters = {name: receive_message(pipe, LONGEST_LETTER) for name in head["sites"]}
        tag = uuid.uuid4().hex
        asked = {name: _task(letter, tag) for name, letter in letters.items()}
        replies = self._each(asked, ReservedTopic.DO_TASK, head["timeout"])
        answers = {
            name: reply[LETTER_KEY]
            for name, reply in replies.items()
            if reply.get_return_code() == ReturnCode.OK and isinstance(reply.get(LETTER_KEY), bytes)
        }
        if len(answers) < len(asked):
            time.sleep(ABORT_SECONDS)
        if abort_signal.triggered:
            return False  # unanswered: the coordinator asks again, through the next job
        send_message(pipe, json.dumps({"sites": list(answers)}).encode())
        for answer in answers.values():
            send_message(pipe, answer)
        return True

    def _each(
        self, asked: Mapping[str, Any], topic: str, timeout: float, optional: bool = False
    ) -> dict[str, Any]:
        """A thread for each site: in 2.9.0 `multicast_aux_requests` returns nothing."""

        def one(name: str) -> tuple[str, Any]:
            with self._engine.new_context() as context:
                found = self._engine.send_aux_request(
                    [name], topic, asked[name], timeout, context, optional
                )
            return name, (found or {}).get(name)

        return {name: reply for name, reply in self._pool.map(one, asked) if reply is not None}


def _waits(pipe: socket.socket, abort_signal: Any) -> bool:
    """Until there is something to read; False once the job is told to end."""
    pipe.settimeout(0.2)
    while not abort_signal.triggered:
        with suppress(TimeoutError):
            pipe.recv(1, socket.MSG_PEEK)
            pipe.settimeout(None)
            return True
    return False


def _task(letter: bytes, tag: str) -> Any:
    task = Shareable()
    task[LETTER_KEY] = letter
    task.set_header(ReservedHeaderKey.TASK_NAME, TASK)
    task.set_header(ReservedHeaderKey.TASK_ID, tag)
    return task


# --------------------------------------------------------------------------- in a FLARE site's job
class PipeExecutor(Executor):  # type: ignore[misc]
    """Knocks at the site's own service. Where that is stands in the kit, never in the job."""

    def __init__(self) -> None:
        super().__init__()
        self._site: SocketSite | None = None

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type != EventType.START_RUN:
            return
        engine = fl_ctx.get_engine()
        local = Path(engine.get_workspace().get_site_config_dir())
        said = json.loads((local / SOCKET_FILE).read_text(encoding="utf-8"))
        self._site = SocketSite(Path(said["socket"]))
        engine.register_aux_message_handler(HELLO, _hello)

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
        """The service's answer; without one the coordinator hears nothing, as of any lost site."""
        try:
            if self._site is None:
                raise OSError("the job has not begun")
            answer = self._site.handle(shareable[LETTER_KEY])
        except (OSError, KeyError, TypeError):
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        reply = make_reply(ReturnCode.OK)
        reply[LETTER_KEY] = answer
        return reply


def _hello(topic: str, request: Any, fl_ctx: Any) -> Any:
    return make_reply(ReturnCode.OK)
