"""NVIDIA FLARE 2.9 as a pipe: it carries bytes between hedgerow's own processes.

The server's job runs `PipeController`, a site's job `PipeExecutor`; FLARE provides mutual TLS
between them. Only this file imports nvflare.
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

from hedgerow.federation.exchange import LONGEST_ANSWER, MAX_MESSAGE_BYTES
from hedgerow.federation.transports.flare_locks import CONTROLLER, EXECUTOR, SOCKET_FILE
from hedgerow.federation.transports.frames import (
    ask_service,
    connect_unix,
    receive_named,
    send_named,
    send_note,
)
from hedgerow.federation.transports.pipe import HELLO_SECONDS, PipeExchange

MESSAGE_KEY = "m"
HELLO = "hedgerow.hello"
TASK = "hedgerow"
ABORT_SECONDS = 2.5
"""Time in which FLARE reports to a controller that a job process died: the engine, or a site."""
SESSION_SECONDS = 20.0


# In the coordinator's process.
class FlareExchange(PipeExchange):
    """A pipe whose job runs in FLARE."""

    engine = "FLARE"

    def __init__(
        self, kit: Path, user: str, names: Sequence[str], fewest: int, socket_path: Path
    ) -> None:
        """`kit` is the admin's start-up kit; a job starts once `fewest` sites are present."""
        super().__init__(names, socket_path)
        self._kit, self._user, self._fewest = kit.resolve(), user, fewest

    def submit(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            write_job(Path(folder), self._path, self._names, self._fewest)
            session = new_secure_session(self._user, str(self._kit), timeout=SESSION_SECONDS)
            try:
                return str(session.submit_job(folder))
            finally:
                session.close()


def write_job(folder: Path, pipe: Path, names: Sequence[str], fewest: int) -> None:
    """Writes a job of JSON alone: it names two installed classes, and ships no code."""
    config = folder / "app/config"
    config.mkdir(parents=True)
    workflow = {"id": TASK, "path": CONTROLLER, "args": {"pipe": str(pipe), "sites": list(names)}}
    executor = {"tasks": ["*"], "executor": {"path": EXECUTOR, "args": {}}}
    meta = {"name": TASK, "resource_spec": {}, "min_clients": fewest}
    common: dict[str, Any] = {"format_version": 2, "components": []}
    files = {
        folder / "meta.json": meta | {"deploy_map": {"app": ["@ALL"]}},
        config / "config_fed_server.json": common | {"workflows": [workflow]},
        config / "config_fed_client.json": common | {"executors": [executor]},
    }
    for path, content in files.items():
        path.write_text(json.dumps(content), encoding="utf-8")


# In the FLARE server's job.
class PipeController(Controller):  # type: ignore[misc]
    """Passes messages from the coordinator's socket to sites, and their answers back."""

    def __init__(self, pipe: str, sites: list[str]) -> None:
        super().__init__()
        self._path, self._sites = pipe, sites

    def start_controller(self, fl_ctx: Any) -> None:
        pass

    def stop_controller(self, fl_ctx: Any) -> None:
        pass

    def process_result_of_unknown_task(self, *args: Any, **kwargs: Any) -> None:
        pass

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        self._engine = fl_ctx.get_engine()
        with ThreadPoolExecutor(max(1, len(self._sites))) as pool:
            self._pool = pool
            missing = self._greet(abort_signal)
            with connect_unix(self._path) as pipe:
                send_note(pipe, {"missing": sorted(missing), "pid": os.getpid()})
                with suppress(OSError):  # the coordinator is gone, and this job with it
                    while self._pass_on(pipe, abort_signal):
                        pass

    def _greet(self, abort_signal: Any) -> set[str]:
        """Asks until each site has answered: tasks are refused until its job process runs."""
        missing, end = set(self._sites), time.monotonic() + HELLO_SECONDS
        while missing and time.monotonic() < end and not abort_signal.triggered:
            result = self._ask({name: Shareable() for name in missing}, HELLO, 1.0, optional=True)
            missing -= {n for n, item in result.items() if item.get_return_code() == ReturnCode.OK}
            time.sleep(0.05)
        return missing

    def _pass_on(self, pipe: socket.socket, abort_signal: Any) -> bool:
        """One exchange; False once there is nothing more to pass on."""
        if not _waits(pipe, abort_signal):
            return False
        note, messages = receive_named(pipe, MAX_MESSAGE_BYTES)
        if not note:
            return False
        tag = uuid.uuid4().hex
        tasks = {name: _task(message, tag) for name, message in messages.items()}
        replies = self._ask(tasks, ReservedTopic.DO_TASK, note["timeout"])
        answers = {
            name: reply[MESSAGE_KEY]
            for name, reply in replies.items()
            if reply.get_return_code() == ReturnCode.OK
            and isinstance(reply.get(MESSAGE_KEY), bytes)
        }
        if len(answers) < len(tasks):
            time.sleep(ABORT_SECONDS)
        if abort_signal.triggered:
            return False  # unanswered: the coordinator asks again, through the next job
        send_named(pipe, answers)
        return True

    def _ask(
        self, tasks: Mapping[str, Any], topic: str, timeout: float, optional: bool = False
    ) -> dict[str, Any]:
        """Asks each site on a thread: in 2.9.0 `multicast_aux_requests` returns nothing."""

        def one(name: str) -> tuple[str, Any]:
            with self._engine.new_context() as context:
                result = self._engine.send_aux_request(
                    [name], topic, tasks[name], timeout, context, optional
                )
            return name, (result or {}).get(name)

        return {name: reply for name, reply in self._pool.map(one, tasks) if reply is not None}


def _waits(pipe: socket.socket, abort_signal: Any) -> bool:
    """Waits until there is something to read; False once the job has to end."""
    pipe.settimeout(0.2)
    while not abort_signal.triggered:
        with suppress(TimeoutError):
            pipe.recv(1, socket.MSG_PEEK)
            pipe.settimeout(None)
            return True
    return False


def _task(message: bytes, tag: str) -> Any:
    task = Shareable()
    task[MESSAGE_KEY] = message
    task.set_header(ReservedHeaderKey.TASK_NAME, TASK)
    task.set_header(ReservedHeaderKey.TASK_ID, tag)
    return task


# In a FLARE site's job.
class PipeExecutor(Executor):  # type: ignore[misc]
    """Connects to the site's own service, whose address is in the kit, never in the job."""

    def __init__(self) -> None:
        super().__init__()
        self._socket = ""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type != EventType.START_RUN:
            return
        engine = fl_ctx.get_engine()
        local = Path(engine.get_workspace().get_site_config_dir())
        config = json.loads((local / SOCKET_FILE).read_text(encoding="utf-8"))
        self._socket = config["socket"]
        engine.register_aux_message_handler(HELLO, _hello)

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
        """The service's answer; without one the coordinator treats the site as lost."""
        try:
            answer = ask_service(self._socket, shareable[MESSAGE_KEY], LONGEST_ANSWER)
        except (OSError, KeyError, TypeError):
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        reply = make_reply(ReturnCode.OK)
        reply[MESSAGE_KEY] = answer
        return reply


def _hello(topic: str, request: Any, fl_ctx: Any) -> Any:
    return make_reply(ReturnCode.OK)
