"""Flower as a pipe: it carries bytes between hedgerow's own processes.

At the coordinator the command `flwr` submits a run, whose ServerApp then calls. At a site a
SuperNode with `--isolation process` leaves all tasks to `serve_tasks`, which asks the site's own
service and never unpacks what came with a task: no submitted code runs there. Only this file and
`flower_app.py`, the submitted app, use flwr.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from hedgerow.errors import EngineLost, ParameterError
from hedgerow.federation.audit_log import LOG
from hedgerow.federation.transports.pipe import PipeExchange
from hedgerow.version import __version__

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Without these Flower reports its use, looks for updates and installs packages."""
PACKAGE = "hedgerow_pipe"
PROJECT = f"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "hedgerow-pipe"
version = "{__version__}"
description = "Passes messages of a hedgerow study between its coordinator and its sites"
license = "Apache-2.0"
dependencies = ["flwr>=1.41"]

[tool.hatch.build.targets.wheel]
packages = ["{PACKAGE}"]

[tool.flwr.app]
publisher = "hedgerow"

[tool.flwr.app.components]
serverapp = "{PACKAGE}.flower_app:server_app"
clientapp = "{PACKAGE}.flower_app:client_app"

[tool.flwr.app.config]
pipe = ""
"""
SUBMIT_SECONDS = 60.0
TASK_SECONDS = 0.05
PULL_SECONDS = (
    60.0  # flwr's own: two hours, though a message whose run ended may never arrive whole
)
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


# In the coordinator's process.
class FlowerExchange(PipeExchange):
    """A pipe that is a Flower run."""

    engine = "Flower"
    pace = 10.0

    def __init__(self, superlink: str, names: Sequence[str], socket_path: Path) -> None:
        """`superlink` is the name of a connection in Flower's own config.toml."""
        self._command, self._superlink = flwr_command(), superlink
        super().__init__(names, socket_path)

    def submit(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            write_app(Path(folder))
            process = subprocess.run(
                [self._command, "run", folder, self._superlink, "--format", "json",
                 "--run-config", f"pipe={json.dumps(str(self._path))}"],
                capture_output=True, text=True, env=os.environ | QUIET, timeout=SUBMIT_SECONDS,
            )  # fmt: skip
        return run_id_in(process.stdout, process.stderr)


def flwr_command() -> str:
    """The command of this Python's environment, or the first on the PATH."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    if (command := shutil.which("flwr", path=os.pathsep.join(places))) is None:
        raise ParameterError(
            "the command `flwr` is neither beside this Python nor on the PATH; install it with: "
            "pip install 'hedgerow[flower]'"
        )
    return command


def write_app(folder: Path) -> None:
    """Writes the app to submit: a project file, and two installed files."""
    here, package = Path(__file__).parent, folder / PACKAGE
    package.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (package / "__init__.py").touch()
    for name in ("flower_app.py", "frames.py"):
        shutil.copyfile(here / name, package / name)


def run_id_in(output: str, errors: str) -> str:
    """The number of the accepted run."""
    try:
        reply: dict[str, Any] = json.loads(output)
    except ValueError:
        reply = {}
    if not reply.get("success"):
        raise EngineLost(f"`flwr run` was refused: {(output + errors).strip()[-300:]}")
    return str(reply["run-id"])


# Beside a SuperNode, at a site.
def serve_tasks(runtime: str, secret: Path, site: str, socket: Path) -> NoReturn:
    """Takes each task of the SuperNode that listens at `runtime`, until the process ends.

    `secret` is the file that the SuperNode has as `--superexec-auth-secret-file`.
    """
    os.environ.update(QUIET)  # before flwr is imported, which reads them
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree
    from flwr.supercore.interceptors import (
        RuntimeTokenHttpInterceptor,
        SuperExecAuthHttpInterceptor,
    )

    pull_and_inflate_object_from_tree.__kwdefaults__["max_time"] = PULL_SECONDS
    proof = SuperExecAuthHttpInterceptor(
        master_secret=secret.read_bytes(), protected_methods=frozenset({ACQUIRE})
    )
    client = _client(runtime, proof)
    request = AcquireTaskRequest(supported_task_types={TaskType.CLIENT_APP})
    while True:
        try:
            got = client.AcquireTask(request)
            if got.HasField("task") and got.token:
                with _ignore_interrupts():
                    _serve_one(
                        _client(runtime, RuntimeTokenHttpInterceptor(got.token)), site, socket
                    )
                continue
        except Exception as error:  # the next task is another one
            LOG.warning("a task of the SuperNode failed", exc_info=error)
        time.sleep(TASK_SECONDS)


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """If a restarted SuperNode refuses a task, flwr interrupts the process of the task."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve_one(client: Any, site: str, socket: Path) -> None:
    """Runs one task; its SuperNode does nothing else until there is some reply."""
    from flwr.app import Error, Message
    from flwr.common.constant import ErrorCode, SubStatus
    from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

    from hedgerow.federation.transports.flower_app import answer_message

    alive = HeartbeatSender(make_task_heartbeat_fn_http(client))
    alive.start()
    context, status, reason = None, SubStatus.FAILED, "no message of a hedgerow study"
    try:
        message, context, *_ = pull_task_input(client)
        try:
            reply = answer_message(message, site, str(socket))
            status, reason = SubStatus.COMPLETED, ""
        except (KeyError, TypeError, ValueError, AttributeError):
            reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
        push_message(client, reply, context)
    finally:
        push_task_output(client, context, status, reason)
        alive.stop()
        client.close()


def _client(runtime: str, *interceptors: Any) -> Any:
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.retry import make_simple_http_retry_invoker
    from flwr.supercore.runtime import RuntimeHttpClient

    version = RuntimeVersionHttpInterceptor(component_name="flwr-clientapp")
    return RuntimeHttpClient.from_server_address(
        server_address=runtime,
        insecure=True,  # a port of this machine, on which only the SuperNode listens
        root_certificates=None,
        interceptors=[version, *interceptors],
        retry_invoker=make_simple_http_retry_invoker(),
    )
