"""Runs every code block of a page, from top to bottom, in a folder of its own.

The tests run all pages this way; `python -m docs.run_pages PAGE...` runs them and writes what they
printed back into them. What a fence says of its block:

    python           runs in the names of the blocks before it
    console          lines that begin with "$ " are typed; hedgerow runs in this process; lines that
                     begin with ">" answer its questions, then Enter does, as often as it asks
    bash             a script, in processes of its own; what it leaves running ends with the page
    text             what the block before it printed, to the letter
    text noisy       the same, where noise decides the letters: something must have been printed
    toml FILE        written to FILE, as a reader would do by hand

`<!-- skip: next "reason" -->` before a block says why it does not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import SkipTest

from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

ROOT = Path(__file__).resolve().parents[1]
INFO = re.compile(r"(?P<language>python|console|bash|text|toml)(?P<rest>[^\n]*)$\n", re.M)
ENTERS = "\n" * 40
"""What is typed where a command asks and the page has no answer (left)."""
SHELL = re.compile(r"[|&;<>$*]")


class PageRun:
    """One run of one page. Its methods are what Sybil calls for each block."""

    def __init__(self, path: Path, folder: Path, compares: bool = True) -> None:
        self.folder, self.compares = folder, compares
        self.printed: str | None = None
        self.shown: list[tuple[Region, str]] = []
        self.scripts: list[subprocess.Popen[str]] = []
        sybil = Sybil(parsers=[self.blocks, SkipParser()], filenames=[path.name])
        self.document = sybil.parse(path)

    def blocks(self, document: Document) -> Iterable[Region]:
        for region in RawFencedCodeBlockLexer(INFO)(document):
            language = region.lexemes["language"]
            region.parsed, region.evaluator = region.lexemes["source"], getattr(self, language)
            yield region

    def all(self) -> None:
        with _in_folder(self.folder):
            try:
                for example in self.document.examples():
                    with contextlib.suppress(SkipTest):
                        example.evaluate()
            finally:
                self.end_scripts()

    # ------------------------------------------------------------------------------ kinds of block
    def python(self, example: Example) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            PythonEvaluator()(example)
        self.printed = out.getvalue()

    def console(self, example: Example) -> None:
        commands = re.findall(r"^\$ (.*)\n((?:>.*\n)*)", example.parsed, re.M)
        self.printed = "".join(typed(line, _answers(said)) for line, said in commands)

    def bash(self, example: Example) -> None:
        """In a session of its own, so that all that it leaves running can be ended.

        What goes on running must write to a file: the script's own output is read to its end.
        """
        script = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", example.parsed],
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.scripts.append(script)
        self.printed, _ = script.communicate()
        if script.returncode:
            raise AssertionError(f"ended with {script.returncode}:\n{self.printed}")

    def text(self, example: Example) -> None:
        assert self.printed is not None, "nothing was run before this output"
        self.shown.append((example.region, self.printed))
        if example.region.lexemes["rest"].strip() == "noisy":
            assert self.printed.strip(), "the block before printed nothing"
        elif self.compares:
            assert example.parsed.rstrip().splitlines() == self.tidy(self.printed)

    def toml(self, example: Example) -> None:
        name = example.region.lexemes["rest"].strip()
        if name:
            Path(name).write_text(example.parsed, encoding="utf-8")

    def end_scripts(self) -> None:
        for script in self.scripts:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGTERM)

    # ------------------------------------------------------------------------------ what it printed
    def rewritten(self) -> str:
        """The page with the output of this run in its noisy blocks."""
        text = self.document.text
        for region, printed in reversed(self.shown):
            lines = text[region.start : region.end].splitlines()
            block = "\n".join([lines[0], *self.tidy(printed), lines[-1]])
            text = text[: region.start] + block + text[region.end :]
        return text

    def tidy(self, printed: str) -> list[str]:
        """Without the name of the folder, which is another one each time."""
        text = printed.replace(f"{self.folder.resolve()}/", "")
        return [line.rstrip() for line in text.rstrip().splitlines()]


def _answers(said: str) -> str:
    return "".join(f"{line[1:].strip()}\n" for line in said.splitlines())


def typed(line: str, answers: str = "") -> str:
    """What a person sees who types it; a command that fails ends the page."""
    if line.startswith("hedgerow ") and not SHELL.search(line):
        return _own_command(shlex.split(line)[1:], answers)
    done = subprocess.run(
        ["bash", "-c", line],
        env=_environment(),
        capture_output=True,
        text=True,
        input=answers + ENTERS,
    )
    if done.returncode:
        raise AssertionError(f"$ {line}\nended with {done.returncode}: {done.stderr}")
    return done.stdout


def _own_command(words: list[str], answers: str) -> str:
    from typer.testing import CliRunner

    from hedgerow.cli.main import app

    done = CliRunner().invoke(app, words, input=answers + ENTERS)
    if done.exit_code:
        why = f"ended with {done.exit_code}: {done.output}"
        raise AssertionError(f"$ hedgerow {shlex.join(words)}\n{why}") from done.exception
    return done.output


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ["COLUMNS"] = "100"
    with contextlib.chdir(folder):
        yield


def _environment() -> dict[str, str]:
    """`hedgerow` is the one of this checkout."""
    programs = Path(tempfile.gettempdir()) / f"hedgerow-pages-{os.getpid()}"
    if not programs.exists():
        programs.mkdir()
        start = "from hedgerow.cli.main import entry; entry()"
        command = f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n'
        (programs / "hedgerow").write_text(command, encoding="utf-8")
        (programs / "hedgerow").chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PATH": path, "PYTHONPATH": source}


def main(pages: list[str]) -> None:
    for name in pages:
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder:
            run = PageRun(page, Path(folder), compares=False)
            run.all()
            page.write_text(run.rewritten(), encoding="utf-8")
            print(f"{name}: {len(run.shown)} outputs written")


if __name__ == "__main__":
    main(sys.argv[1:])
