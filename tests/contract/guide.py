"""Types docs/consortium.md word for word: four folders, real processes, and what they print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd

from contract.faults import free_port
from contract.network_world import ROOT, Processes
from contract.worlds import TWO, sample

PAGE = ROOT / "docs" / "consortium.md"
TRANSCRIPT = ROOT / "docs" / "consortium_transcript.md"
SITES = ("north", "south", "west")
COMMAND = re.compile(r"^(north|south|west|coordinator)\$ (.*)$", re.MULTILINE)
LONG = re.compile(r"[0-9a-f]{40,}")
HEAD = """\
# The transcript of a study over three institutions

What `tests/contract/test_guide.py` saw when it typed [the guide](consortium.md), word for word.
Long keys and hashes are cut; noise is fresh each time, so the numbers of another run are others.
Made by `python tests/contract/make_transcript.py`.

"""


def commands() -> list[tuple[str, str]]:
    """Who types what, in order."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [found for block in blocks for found in COMMAND.findall(block)]


class Typist:
    """Knows what the parties read to each other on the telephone, and nothing else."""

    def __init__(self, folder: Path, started: Processes) -> None:
        self.folder, self.started = folder, started
        self.heard: dict[str, str] = {"port": str(free_port())}
        self.lines: list[str] = []
        X, y = sample(600, TWO)
        rows = pd.DataFrame(X, columns=list(TWO.names)).assign(target=y)
        rows = rows[rows["age"].between(0, 100) & (rows["ward"] != "elsewhere")]
        for k, name in enumerate((*SITES, "coordinator")):
            (folder / name).mkdir()
            if name in SITES:
                rows.iloc[k::3].to_csv(folder / name / "rows.csv", index=False)
        (folder / "coordinator" / "schema.toml").write_text(TWO.to_toml(), encoding="utf-8")

    def type(self, who: str, words: str) -> None:
        said = self._run(who, self._filled(words))
        self._hear(who, said)
        self.lines += [f"{who}$ {words}", *(LONG.sub(_cut, line) for line in said.splitlines()), ""]

    def _run(self, who: str, words: str) -> str:
        if words.startswith("hedgerow-policy"):
            return self._write_policy(who)
        in_background = words.endswith("&")
        parts = shlex.split(words.removesuffix("&"))
        assert parts[0] == "hedgerow"
        code = "from hedgerow.cli.main import entry; entry()"
        if in_background:
            self.started.start("-c", code, *parts[1:], folder=self.folder / who)
            return ""
        done = subprocess.run(
            [sys.executable, "-c", code, *parts[1:]],
            cwd=self.folder / who,
            capture_output=True,
            text=True,
            env=self.started.environment(),
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{who}$ {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _write_policy(self, who: str) -> str:
        (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        peers = [name for name in SITES if name != who]
        head = text[: text.index("[trusted_sites]")]
        pins = [f'"{name}" = "{self.heard[f"{name}: fingerprint"]}"' for name in peers]
        policy = "\n".join([head + "[trusted_sites]", *pins, ""])
        (self.folder / who / "state" / "policy.toml").write_text(policy, encoding="utf-8")
        return ""

    def _filled(self, words: str) -> str:
        return re.sub(r"<([a-z: ]+)>", lambda m: self.heard.get(m[1], m[0]), words)

    def _hear(self, who: str, said: str) -> None:
        for title, name in (("public key", "key"), ("fingerprint", "fingerprint")):
            if found := re.search(rf"^ *{title} +([0-9a-f]+)$", said, re.MULTILINE):
                self.heard.setdefault(f"{who}: {name}", found[1])
        if found := re.search(r"by telephone:\n(\S+)", said):
            self.heard["authority"] = found[1]


def _cut(match: re.Match[str]) -> str:
    return f"{match[0][:12]}..."


def transcript(typist: Typist) -> str:
    body = "\n".join(line.replace(str(typist.folder), "") for line in typist.lines)
    return f"{HEAD}```text\n{body}```\n"
