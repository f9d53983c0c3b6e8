"""The coordinator's journal: what it needs to resume a run that was stopped.

    run.json        run id, number of the last JOIN, KEYS of the key session; durable before use
    answers.jsonl   one line each, durable before what it says has an effect:
                      asked     a round, before ROUND leaves
                      closed    the sites it is opened for, before SURVIVORS or UNMASK leaves
                      answered  the result, before the learner sees it
                      void      that there can be no result any more
    transcript.bin  all messages of the rounds, and CLOSED at the end: see transcript.py

Nothing in it is secret: sums are opened sums, and messages of sites are signed. A site needs the
receipts in it if its own file is ever lost.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.federation.exchange import RoundSum
from hedgerow.federation.transcript import FileTranscript, TranscriptRound
from hedgerow.privacy.ledger.store import sync_directory
from hedgerow.secagg.envelope import LedgerHead
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.server import Coordinator

TRANSCRIPT = "transcript.bin"
LedgerHeads = Mapping[int, LedgerHead]
Receipts = Mapping[int, Mapping[int, bytes]]


@dataclass(frozen=True)
class AskedRound:
    """A round as it was asked: its key session, queries, participants and members."""

    round: int
    attempt: int
    digest: str
    participants: tuple[int, ...]
    mode: Mode = Mode.IN_TWO
    members: tuple[int, ...] = ()


@dataclass(frozen=True)
class RoundOutcome:
    """The result of a round, or why it is void."""

    round: int
    attempt: int
    digest: str
    result: RoundSum | None = None
    reason: str = ""


class Journal:
    """The journal of a run that ends with the process: only the present round, in memory.

    Those below are durable when a call returns.
    """

    def __init__(self) -> None:
        self._under_way: AskedRound | None = None

    def recorded_round(self, number: int) -> RoundOutcome | None:
        """The outcome of a round in the run so far."""
        return None

    def under_way(self) -> AskedRound | None:
        """The round that was asked last, if it has no outcome yet."""
        return self._under_way

    def joining(self, coordinator: Coordinator) -> None:
        """Called before JOIN leaves, so that the same invitation can be sent again."""

    def session(self, coordinator: Coordinator) -> None:
        """Called before OPEN leaves."""

    def add_request(self, request: AskedRound, heads: LedgerHeads) -> None:
        self._under_way = request

    def add_members(self, round: int, members: tuple[int, ...]) -> None:
        if self._under_way is not None:
            self._under_way = replace(self._under_way, members=members)

    def add_outcome(self, outcome: RoundOutcome, heads: LedgerHeads, receipts: Receipts) -> None:
        self._under_way = None

    def transcribe(self, entry: TranscriptRound) -> None:
        """Called before the outcome of the round is recorded."""


class Record(Journal):
    """The journal of one run, read from its folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.run_file, self.answers_file = folder / "run.json", folder / "answers.jsonl"
        self.run: dict[str, Any] = _read_run(self.run_file)
        self.heads: dict[int, LedgerHead] = {}
        self.receipts: dict[int, tuple[int, bytes]] = {}
        """The last round of each site in the present key session, and its signed header."""
        self.attempt, self._records = -1, dict[int, RoundOutcome]()
        for line in _whole_lines(self.answers_file):
            self._remember(line)

    @property
    def rounds(self) -> int:
        """The number of rounds with an outcome."""
        return len(self._records)

    def keys(self) -> list[bytes]:
        """KEYS of the last key session; empty if the run stopped before there were any."""
        return [base64.b64decode(item) for item in self.run["keys"]]

    def recorded_round(self, number: int) -> RoundOutcome | None:
        return self._records.get(number)

    def _remember(self, line: dict[str, Any]) -> None:
        match line["what"]:
            case "asked":
                sites, mode = tuple(line["participants"]), Mode(line["mode"])
                place = line["round"], line["attempt"], line["digest"]
                self._under_way = AskedRound(*place, sites, mode)
            case "closed" if self._under_way is not None:
                self._under_way = replace(self._under_way, members=tuple(line["members"]))
            case "answered" | "void":
                self._records[line["round"]] = _read_outcome(line)
                self._under_way = None
                self._hear(line)
        if "heads" in line:
            self.heads = {int(k): _head(fields) for k, fields in line["heads"].items()}

    def _hear(self, line: dict[str, Any]) -> None:
        if line["what"] == "answered" and line["attempt"] != self.attempt:
            self.attempt, self.receipts = line["attempt"], {}
        for site, headers in line.get("receipts", {}).items():
            if headers:
                self.receipts[int(site)] = line["round"], base64.b64decode(headers[-1])


class FileJournal(Record):
    """The journal of the process that runs the study; one process at a time.

    What was read is dropped once it was used, and what this process adds is only in the file:
    memory does not grow with rounds.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._rounds = len(self._records)
        self._file = self.answers_file.open("ab")
        self._file.truncate(_whole_size(self.answers_file))
        self.transcript = FileTranscript(folder / TRANSCRIPT)
        sync_directory(folder)

    @property
    def rounds(self) -> int:
        return self._rounds

    def recorded_round(self, number: int) -> RoundOutcome | None:
        return self._records.pop(number, None)

    def close(self) -> None:
        self._file.close()
        self.transcript.close()

    def transcribe(self, entry: TranscriptRound) -> None:
        self.transcript.add_round(entry)

    def joining(self, coordinator: Coordinator) -> None:
        self._write_run(coordinator, ())

    def session(self, coordinator: Coordinator) -> None:
        self._write_run(coordinator, coordinator.keys)
        self.transcript.add_session(coordinator.attempt, coordinator.session)

    def add_request(self, request: AskedRound, heads: LedgerHeads) -> None:
        self._append("asked", **vars(request), heads=_plain_heads(heads))

    def add_members(self, round: int, members: tuple[int, ...]) -> None:
        if self._under_way is None or self._under_way.members != members:
            self._append("closed", round=round, members=members)

    def add_outcome(self, outcome: RoundOutcome, heads: LedgerHeads, receipts: Receipts) -> None:
        got = outcome.result
        line: dict[str, Any] = {
            "what": "void" if got is None else "answered",
            "round": outcome.round,
            "attempt": outcome.attempt,
            "digest": outcome.digest,
            "heads": _plain_heads(heads),
        }
        if got is None:
            self._write(_plain_line(line | {"reason": outcome.reason}))
        else:
            total = narrow(got.total)
            line |= {
                "selections": got.selections,
                "bytes": [got.bytes_out, got.bytes_in],
                "members": got.members,
                "receipts": {
                    site: [_text(r) for r in headers.values()] for site, headers in receipts.items()
                },
                "width": total.itemsize,
            }
            # Written directly: a sum may have megabytes, and base64 needs no escapes.
            text = base64.b64encode(total.data)
            self._write(_plain_line(line)[:-1] + b',"total":"', text, b'"}')
        self._under_way, self.heads = None, dict(heads)
        self._rounds += 1

    def _append(self, event: str, **content: Any) -> None:
        line = {"what": event, **content}
        self._write(_plain_line(line))
        self._remember(line)

    def _write(self, *parts: bytes) -> None:
        for part in (*parts, b"\n"):
            self._file.write(part)
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write_run(self, coordinator: Coordinator, keys: Iterable[bytes]) -> None:
        self.run = {
            "run_id": coordinator.run_id.hex(),
            "attempt": coordinator.attempt,
            "keys": [_text(item) for item in keys],
        }
        new = self.run_file.with_name("run.json.new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(self.run, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.run_file)
        sync_directory(self.run_file.parent)


def _read_run(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        _ = bytes.fromhex(content["run_id"]), int(content["attempt"]), content["keys"]
    except (ValueError, KeyError, TypeError):
        raise ParameterError(
            f"{path} is damaged, so this run cannot be taken up again; begin a new one in another "
            "folder."
        ) from None
    result: dict[str, Any] = content
    return result


def _plain_line(line: dict[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode()


def _whole_size(path: Path) -> int:
    """The size without a last line that a power failure cut short."""
    return path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    whole = path.read_bytes()[: _whole_size(path)] if path.exists() else b""
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError:
        raise ParameterError(
            f"{path} is damaged in the middle, so this run cannot be taken up again; begin a new "
            "one in another folder."
        ) from None


def _read_outcome(line: Mapping[str, Any]) -> RoundOutcome:
    place = line["round"], line["attempt"], line["digest"]
    if line["what"] == "void":
        return RoundOutcome(*place, reason=line["reason"])
    total = np.frombuffer(base64.b64decode(line["total"]), f"<i{line['width']}").astype(np.int64)
    selections = tuple(tuple(of_site) for of_site in line["selections"])
    out, into = line["bytes"]
    return RoundOutcome(*place, RoundSum(total, selections, out, into, tuple(line["members"])))


def narrow(total: NDArray[np.int64]) -> NDArray[np.signedinteger[Any]]:
    """The numbers in the fewest bytes that hold each of them, little-endian."""
    low, high = (int(total.min()), int(total.max())) if total.size else (0, 0)
    width = next(w for w in (1, 2, 4, 8) if -(256**w) // 2 <= low and high < 256**w // 2)
    return np.ascontiguousarray(total, f"<i{width}")


def _plain_heads(heads: LedgerHeads) -> dict[int, list[Any]]:
    return {site: [head.seq, head.head.hex(), head.spent] for site, head in heads.items()}


def _head(fields: list[Any]) -> LedgerHead:
    seq, head, spent = fields
    return LedgerHead(seq, bytes.fromhex(head), spent)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def receipts_of(folder: Path, site: int) -> list[str]:
    """All signed headers of one site in a run, in hexadecimal digits, in order."""
    lines = _whole_lines(folder / "answers.jsonl")
    tables = (line["receipts"].get(str(site), []) for line in lines if line["what"] == "answered")
    return [base64.b64decode(item).hex() for table in tables for item in table]
