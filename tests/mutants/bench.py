"""A copy of the project in which a mistake can be planted, tried and taken out again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from mutants.mutant import Mutant

SECONDS: Final = 60.0
"""A named test has so long to see a mutant."""

BASELINE_SECONDS: Final = 1800.0
COPIED: Final = (
    *("src", "tests", "studies", "docs", "examples", "benchmarks", "spec", "pyproject.toml"),
    *("README.md", "CONTRIBUTING.md"),
)
LEFT_OUT: Final = ("__pycache__", ".*")

CAUGHT: Final = re.compile(
    r"assert|AssertionError|Failed:|hedgerow\.|[A-Za-z.]*(?:Refused|FlakyFailure)"
    r"|ExceptionGroup: Hypothesis found"
)
"""How a failure begins that comes from a test's own judgment or from a refusal of ours.

A NameError or an ImportError would say that the mutant is no program, not that a test is awake.
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant; `seen` is the first line of the failure."""

    mutant: Mutant
    caught: bool
    seen: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one run of pytest: tests that passed, failures in tests, and errors outside of them."""

    passed: int
    failures: tuple[str, ...]
    errors: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return self.passed > 0 and not self.failures and not self.errors


class Bench:
    """One copy; nothing outside of it is touched."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.root = folder
        for name in COPIED:
            _copy(project / name, folder / name)
        # Checked by content: a file that changed and came back within a second is not mistaken.
        self._python("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src")

    def passes(self, tests: Collection[str]) -> Outcome:
        """Runs tests on the source as it is."""
        return self._run(tests, BASELINE_SECONDS)

    def verdict(self, mutant: Mutant) -> Verdict:
        began = time.monotonic()
        try:
            with self._planted(mutant):
                outcome = self._run([mutant.test], SECONDS)
        except subprocess.TimeoutExpired:
            return Verdict(mutant, False, f"no answer within {SECONDS:.0f} s", SECONDS)
        return judged(mutant, outcome, time.monotonic() - began)

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[None]:
        file = mutant.file(self.root)
        sound = file.read_text(encoding="utf-8")
        file.write_text(mutant.planted(sound), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(sound, encoding="utf-8")

    def _run(self, tests: Collection[str], seconds: float) -> Outcome:
        report = self.root / "report.xml"
        report.unlink(missing_ok=True)
        options = ("-x", "-q", "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}")
        short = ("-m", "not slow")  # a mutant must be seen by `make test`
        ids = [f"tests/{test}" for test in tests]
        said = self._python("-m", "pytest", *options, *short, *ids, seconds=seconds)
        return read_report(report, said)

    def _python(self, *arguments: str, seconds: float | None = None) -> str:
        """Runs the interpreter in a session of its own; what it said went through a file."""
        output = self.root / "output.txt"
        paths = os.pathsep.join(str(self.root / part) for part in ("src", "tests", "."))
        with output.open("wb") as file:
            subprocess.run(
                [sys.executable, *arguments],
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
                start_new_session=True,
            )
        return output.read_text(encoding="utf-8", errors="replace")


def judged(mutant: Mutant, outcome: Outcome, seconds: float) -> Verdict:
    """Caught if the named test failed, by its own judgment or by one of our refusals."""
    if outcome.errors:
        return Verdict(mutant, False, f"not run: {outcome.errors[0]}", seconds)
    if not outcome.failures:
        return Verdict(mutant, False, "the test passed", seconds)
    seen = outcome.failures[0]
    return Verdict(mutant, CAUGHT.match(seen) is not None, seen, seconds)


def read_report(report: Path, said: str = "") -> Outcome:
    """A run that came to no test is an error, not a catch: a test's name may have changed."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    if not cases:
        reasons = [line for line in said.splitlines() if line.startswith("ERROR")]
        return Outcome(0, (), tuple(reasons) or ("pytest ran no test",))
    failures, errors = (_messages(cases, kind) for kind in ("failure", "error"))
    skipped = len(_messages(cases, "skipped"))
    return Outcome(len(cases) - len(failures) - len(errors) - skipped, failures, errors)


def _messages(cases: list[ElementTree.Element], kind: str) -> tuple[str, ...]:
    return tuple(_first_line(part) for case in cases for part in case.findall(kind))


def _first_line(part: ElementTree.Element) -> str:
    """What a failure says first; of an error in collecting, what it says last."""
    message = part.get("message", "").strip().split("\n")[0]
    if message != "collection failure":
        return message
    return f"{message}: {(part.text or '').strip().splitlines()[-1]}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
    else:
        shutil.copy2(source, target)
