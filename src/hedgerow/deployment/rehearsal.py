"""A whole study on this machine, by the commands that its people would type on theirs.

Real processes, keys, certificates and HTTPS on the loopback. Everything that was started is
stopped, and everything that was written stays in one folder.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hedgerow
from hedgerow.deployment.draft import site_names
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import EngineLost, ParameterError
from hedgerow.schema.schema import Schema

START_SECONDS = 300.0
Say = Callable[[str], None]


@dataclass
class Walk:
    """Commands run one after the other in one folder; their output is stored and shown."""

    folder: Path
    say: Say = print
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)

    def do(self, command: str) -> str:
        """Runs one command; a failure ends the walk."""
        (output,) = self.do_all([command])
        return output

    def do_all(self, commands: Sequence[str]) -> list[str]:
        """Runs commands of several people at the same time."""
        pipe = subprocess.PIPE
        processes = [self._start(command, pipe, pipe) for command in commands]
        with ThreadPoolExecutor(len(commands)) as pool:
            results = list(pool.map(lambda process: process.communicate(), processes))
        outputs = [tuple(part.decode() for part in result) for result in results]
        for command, process, (output, errors) in zip(commands, processes, outputs, strict=True):
            self.keep(command, output + errors)
            if process.returncode:
                raise EngineLost(f"`{command}` ended with {process.returncode}: {errors}")
        return [output for output, _ in outputs]

    def leave_running(self, command: str) -> Path:
        """Starts a command that continues until `stop`; its output goes to the returned file."""
        path = self.folder / f"{len(self.running)}.log"
        with path.open("wb") as log:
            self.running.append(self._start(command, log, log))
        self.keep(f"{command} &", "")
        return path

    def _start(self, command: str, output: Any, errors: Any) -> subprocess.Popen[bytes]:
        source = str(Path(hedgerow.__file__).parents[1])
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
        env = {**os.environ, "PYTHONPATH": path, "COLUMNS": "100"}
        return subprocess.Popen(
            self._words(command), cwd=self.folder, env=env, stdout=output, stderr=errors
        )

    def wait_for(self, paths: Sequence[Path]) -> None:
        """Waits until running commands have made these files; raises if one of them ends."""
        self.wait_until(lambda: all(path.exists() for path in paths), f"{list(map(str, paths))}")

    def wait_until(self, is_done: Callable[[], bool], purpose: str) -> None:
        end = time.monotonic() + START_SECONDS
        while not is_done():
            for number, process in enumerate(self.running):
                if process.poll():
                    words = (self.folder / f"{number}.log").read_text(encoding="utf-8")
                    raise EngineLost(f"a command that should go on ended: {words.strip()}")
            if time.monotonic() > end:
                raise EngineLost(f"waited {START_SECONDS:.0f} s in vain for {purpose}.")
            time.sleep(0.1)

    def stop(self) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _words(self, command: str) -> list[str]:
        program, *rest = shlex.split(command)
        assert program == "hedgerow"
        return [sys.executable, "-c", "from hedgerow.cli.main import entry; entry()", *rest]

    def keep(self, command: str, output: str) -> None:
        self.steps.append((command, output))
        self.say(f"$ {command}")
        if output:
            self.say(output.rstrip())


@contextmanager
def walking(folder: Path, say: Say = print) -> Iterator[Walk]:
    walk = Walk(folder, say)
    try:
        yield walk
    finally:
        walk.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Rehearsals.
@dataclass(frozen=True)
class RehearsalPlan:
    """The coordinator's folder, and the rows and policy of each site."""

    study: RunFolder
    rows: Mapping[str, Path]
    policies: Mapping[str, Path]
    target: str

    @classmethod
    def of(cls, place: Path, data: Sequence[Path] = (), target: str | None = None) -> RehearsalPlan:
        """From a folder that `hedgerow new` made, or a study's own; `data` are other rows."""
        study = next((p for p in (place / "study", place) if (p / "study.toml").is_file()), None)
        if study is None:
            raise ParameterError(
                f"{place} holds no study.toml; name the folder of a study, or make one with "
                "`hedgerow new`."
            )
        folder = (study.parent if study.name == "study" else study) / "sites"
        names = [path.stem for path in data] or site_names(RunFolder(study))
        if len(set(names)) < max(2, len(data)):
            raise ParameterError(
                f"the sites are {names}; name at least two files, each after its site: "
                "north.csv, south.csv."
            )
        rows = dict(zip(names, data or [folder / name / "rows.csv" for name in names], strict=True))
        missing = [str(path) for path in rows.values() if not path.is_file()]
        if missing and not data:
            raise ParameterError(f"{missing} are not there; name rows with --data.")
        policies = {name: folder / name / "policy.toml" for name in names}
        return cls(
            RunFolder(study),
            rows,
            {name: path for name, path in policies.items() if path.is_file()},
            target or _target_of(rows[names[0]], study),
        )


def _target_of(rows: Path, study: Path) -> str:
    """The schema's column of times, or the only column that is no feature; keys may be missing."""
    table = tomllib.loads((study / "study.toml").read_text(encoding="utf-8")).get("schema", {})
    in_a_file = set(table) == {"file"}
    schema = Schema.from_toml(study / table["file"]) if in_a_file else Schema.from_dict(table)
    if schema.survival is not None:
        return schema.survival.time
    with rows.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    others = [name for name in header if name not in schema.names]
    if len(others) != 1:
        raise ParameterError(
            f"{rows} has the columns {others} beside the schema's; say with --target which one is "
            "predicted."
        )
    return others[0]


def rehearse(plan: RehearsalPlan, folder: Path, say: Say, show: Callable[[str], None]) -> RunFolder:
    """Runs the whole study in a new folder; `show` gets the address of the live page."""
    folder.mkdir(parents=True)
    coordinator = RunFolder(folder / "study")
    coordinator.path.mkdir(mode=0o700)
    text = plan.study.study_file.read_text(encoding="utf-8")
    text = re.sub(r'(?m)^key = "[0-9a-f]*"', 'key = ""', text)  # keys of this rehearsal alone
    coordinator.study_file.write_text(text, encoding="utf-8")
    if (plan.study.path / "schema.toml").is_file():
        shutil.copy(plan.study.path / "schema.toml", coordinator.path)
    names, port = list(plan.rows), free_port()
    with walking(folder, say) as walk:
        enroll_all(walk, names, port)
        for name, path in plan.policies.items():
            shutil.copyfile(path, folder / name / "policy.toml")
        rows = {name: shlex.quote(str(path.resolve())) for name, path in plan.rows.items()}
        target = shlex.quote(plan.target)
        walk.do_all(
            [
                f"hedgerow site approve study/study.toml --data {rows[name]} --target {target} "
                f"--state {name} --extend-policy --yes"
                for name in names
            ]
        )
        for name in names:
            walk.leave_running(f"hedgerow site serve {name}")
        walk.wait_for([folder / name / "run/socket" for name in names])
        run = walk.leave_running(
            f"hedgerow study run study --listen 127.0.0.1:{port} --host localhost --watch"
        )
        walk.wait_until(lambda: "watch the run at" in run.read_text("utf-8"), "the live page")
        show(re.findall(r"watch the run at (\S+)", run.read_text("utf-8"))[0])
        walk.running[-1].wait()
        if walk.running[-1].returncode:
            raise EngineLost(f"the run ended without a model: {run.read_text('utf-8').strip()}")
        walk.do(
            "hedgerow verify study/model.json --roster study/study.toml "
            "--transcript study/transcript.bin"
        )
        text = "\n".join(f"$ {command}\n{output}" for command, output in walk.steps)
        (folder / "transcript.txt").write_text(text, encoding="utf-8")
    StudyFile.read(coordinator.study_file)
    return coordinator


def enroll_all(walk: Walk, names: Sequence[str], port: int) -> list[str]:
    """The coordinator invites; every site enrolls with the line that it was sent, and prints."""
    sites = " ".join(f"--site {name}" for name in names)
    log = walk.leave_running(
        f"hedgerow study invite study --listen 127.0.0.1:{port} --host localhost {sites} --yes"
    )
    line = re.compile(r"hedgerow site enroll (hr1-\S+)\n\n")
    walk.wait_until(lambda: len(line.findall(log.read_text("utf-8"))) == len(names), "tokens")
    tokens = dict(zip(names, line.findall(log.read_text("utf-8")), strict=True))
    outputs = walk.do_all(
        [f"hedgerow site enroll {tokens[name]} --anchor anchors/{name} --yes" for name in names]
    )
    if walk.running[-1].wait(START_SECONDS):
        raise EngineLost(f"sites could not enroll: {log.read_text('utf-8').strip()}")
    return outputs
