"""Makes a FLARE start-up kit refuse everything but hedgerow's pipe.

Three files in `local/` of a kit (FLARE 2.9):

    authorization.json   nobody may bring code (`byoc`) or run shell commands
    resources.json       a job may name the pipe's classes and no others; logs are not streamed
    hedgerow.json        where the site's own service listens (sites only); a job cannot choose it

The kit's owner writes them, at every site and at the server; FLARE checks them before each job.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hedgerow.errors import ParameterError

CONTROLLER = "hedgerow.federation.transports.flare.PipeController"
EXECUTOR = "hedgerow.federation.transports.flare.PipeExecutor"
SOCKET_FILE = "hedgerow.json"
TRIED = "2.9"
"""The versions for which tests confirm that these locks refuse."""

_RUNS_JOBS = {
    "submit_job": "any",
    "clone_job": "none",
    "manage_job": "any",
    "download_job": "any",
    "view": "any",
    "operate": "any",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
_LOOKS = {"view": "any", "byoc": "none", "shell_commands": "none"}
_PERMISSIONS = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": _RUNS_JOBS,
        "lead": _RUNS_JOBS,
        "org_admin": _LOOKS,
        "member": _LOOKS,
    },
}


def untried_version() -> str | None:
    """The installed FLARE version, if no test has confirmed its locks."""
    try:
        result = version("nvflare")
    except PackageNotFoundError:  # a kit may be locked where FLARE is not installed
        return None
    return None if result.startswith(f"{TRIED}.") else result


def lock(kit: Path, socket: Path | None) -> list[Path]:
    """Writes the files into the kit; `socket` for a site's kit, None for the server's."""
    local = kit.expanduser().resolve() / "local"
    usual = local / "resources.json.default"
    if not usual.is_file():
        raise ParameterError(
            f"{kit} is no start-up kit of FLARE 2.9: {usual} is not there. Name the folder that "
            "holds startup/ and local/."
        )
    resources = json.loads(usual.read_text(encoding="utf-8"))
    is_server = "snapshot_persistor" in resources
    if is_server == (socket is not None):
        raise ParameterError(
            "the kit is the server's; leave --socket out."
            if is_server
            else "the kit is a site's; say with --socket where `hedgerow site serve` listens."
        )
    settings = _server(resources, kit.resolve()) if is_server else _site(resources)
    files = {
        "authorization.json": _PERMISSIONS,
        "resources.json": settings,
        SOCKET_FILE: {"socket": str(socket.expanduser().resolve())} if socket else {},
    }
    for name, content in files.items():
        (local / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return [local / name for name in files]


def _site(resources: dict[str, Any]) -> dict[str, Any]:
    parts = [item for item in resources["components"] if item["id"] != "site_log_streamer"]
    return resources | _allowing(EXECUTOR) | {"allow_log_streaming": False, "components": parts}


def _server(resources: dict[str, Any], kit: Path) -> dict[str, Any]:
    """Moves jobs and snapshots out of the temporary folder, where a restart would lose them."""
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(kit / "snapshots")
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(kit / "jobs")
    return resources | _allowing(CONTROLLER)


def _allowing(path: str) -> dict[str, Any]:
    return {"class_allow_list": [path], "class_list_enforcement_mode": "enforce"}
