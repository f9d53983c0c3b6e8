"""A site's audit log for its own people: JSON lines that hedgerow appends and never changes.

    {"time": "2026-11-16T10:00:00Z", "event": "round", "study": "5f0c...", "round": 3, ...}

The line of a round is written before its message may leave, in the transaction that charges it: no
line, no message. The ledger is the proof of what was charged. The log says it in words, and adds
refusals with their private reasons, starts, and people's decisions.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hedgerow.errors import LedgerUnavailable
from hedgerow.schema.visible import visible

AuditLine = dict[str, Any]
LONGEST_REASON = 2_000


def ignore_line(line: AuditLine) -> None:
    pass


class Audit:
    """The log file of one site. `tell` also gets every line, for a terminal or a page."""

    def __init__(self, path: Path, tell: Callable[[AuditLine], None] = ignore_line) -> None:
        self._path, self._tell = path, tell
        self._lock = threading.Lock()

    def note(self, event: str, **fields: Any) -> None:
        """Appends a line. Raises LedgerUnavailable if it cannot be written."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": now, "event": event} | fields
        data = (json.dumps(line, ensure_ascii=False) + "\n").encode()
        with self._lock:
            self._append(data)
        self._tell(line)

    def _append(self, data: bytes) -> None:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                n_bytes = os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._write_failure(str(error)) from error
        if n_bytes < len(data):
            raise self._write_failure("the disk is full")

    def _write_failure(self, why: str) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the audit log {self._path} cannot be written ({why}); nothing was sent. "
            "Make room or correct the file's permissions, then try again."
        )


def lines_of(path: Path) -> Iterator[AuditLine]:
    """All lines; one that a full disk or a power loss cut short is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line


def reason_of(error: BaseException) -> str:
    """Why something was refused, in full: this is the site's own file."""
    causes: list[str] = []
    result: BaseException | None = error
    while result is not None and len(causes) < 4:
        text = str(result).strip()
        causes.append(f"{type(result).__name__}: {text}" if text else type(result).__name__)
        result = result.__cause__
    return "; because ".join(causes)[:LONGEST_REASON]


def in_words(line: AuditLine) -> str:
    """One line for a person at a terminal."""
    when, event = str(line.get("time", "")), line.get("event", "")
    study = str(line.get("name") or line.get("study", ""))[:24]
    match event:
        case "round":
            words = f"round {line['round']} answered: {line['said']} (spent {line['spent']})"
        case "refused":
            words = f"refused a {line.get('kind', 'message')} with {line['code']}: {line['reason']}"
        case "opened":
            words = f"round {line['round']} opened with {line['members']} sites"
        case _:
            words = event + (f": {line['what']}" if "what" in line else "")
    return visible(f"{when[11:19]}  {study:<16}  {words}")


# The site's own log: the only place where reasons are written.

LOG = logging.getLogger("hedgerow.site")
