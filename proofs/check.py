"""`python -m proofs.check`: every proof, the assumptions of every claim, and the code's numbers.

Copies the .v files to a folder of its own and runs `coqc` there, in the order of their imports;
then `Replay.v` (see replay.py), then `Print Assumptions` of every theorem of Claims.v. Says why
it skips where there is no `coqc`. `--freeze` writes statements.sha256 anew.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
FROZEN = FOLDER / "statements.sha256"
MISSING = "skipped: there is no coqc here; on Debian: apt-get install coq libcoq-coquelicot"
AXIOMS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
"""Those of Coq's own real numbers; nothing else may be assumed."""
LOOPHOLES = re.compile(
    r"\b(Admitted|admit|give_up|Axiom|Axioms|Parameter|Parameters|Conjecture|bypass_check)\b"
    r"|Unset Guard|Unset Positivity|Unset Universe|type-in-type"
)
WORKERS = 2
OPTIONS = ("-q", "-w", "-ambiguous-paths", "-R", ".", "Hedgerow")


class ProofError(Exception):
    """A proof that does not hold, or one that assumes too much."""


# ------------------------------------------------------------------------------------- statements
def without_comments(text: str) -> str:
    """Comments nest; a `*)` outside of them is the end of `simpl in *)`."""
    depth, kept, at = 0, [], 0
    while at < len(text):
        if text.startswith("(*", at):
            depth, at = depth + 1, at + 2
        elif depth and text.startswith("*)", at):
            depth, at = depth - 1, at + 2
        else:
            kept.append("" if depth else text[at])
            at += 1
    return "".join(kept)


def statements(text: str) -> list[str]:
    """All that a reader has to believe: everything but comments, lemmas and proofs."""
    text = re.sub(r"\s+", " ", without_comments(text))
    text = re.sub(r"Proof\..*?(Qed|Defined)\.", "", text)
    sentences = [sentence.strip() for sentence in re.split(r"(?<=\.)\s", text)]
    return [sentence for sentence in sentences if sentence and not sentence.startswith("Lemma")]


def digests(folder: Path = FOLDER) -> dict[str, str]:
    """Of the statements of each file."""
    return {
        path.name: hashlib.sha256(
            "\n".join(statements(path.read_text("utf-8"))).encode()
        ).hexdigest()
        for path in sorted(folder.glob("*.v"))
    }


def frozen(path: Path = FROZEN) -> dict[str, str]:
    lines = path.read_text("utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def freeze() -> None:
    lines = (f"{digest}  {name}\n" for name, digest in digests().items())
    FROZEN.write_text("".join(lines), "utf-8")


def changed(folder: Path = FOLDER) -> list[str]:
    """Files whose statements are not the frozen ones."""
    now, then = digests(folder), frozen()
    return sorted(name for name in {*now, *then} if now.get(name) != then.get(name))


def loopholes(folder: Path = FOLDER) -> list[str]:
    """Words by which a proof could be left out, and where."""
    found = []
    for path in sorted(folder.glob("*.v")):
        for word in LOOPHOLES.finditer(without_comments(path.read_text("utf-8"))):
            found.append(f"{path.name}: {word.group(0)}")
    return found


def theorems(path: Path) -> list[str]:
    text = without_comments(path.read_text("utf-8"))
    return re.findall(r"^\s*Theorem\s+([\w']+)", text, re.MULTILINE)


# ------------------------------------------------------------------------------------------ builds
def in_waves(folder: Path) -> list[list[str]]:
    """Names of the files, each in a wave after those that it imports."""
    names = {path.stem for path in folder.glob("*.v")}
    needs = {name: _imports(folder / f"{name}.v") & names for name in names}
    waves: list[list[str]] = []
    while left := names.difference(*waves):
        ready = sorted(name for name in left if not needs[name] & left)
        if not ready:
            raise ProofError(f"imports go in a circle among {sorted(left)}.")
        waves.append(ready)
    return waves


def _imports(path: Path) -> set[str]:
    text = without_comments(path.read_text("utf-8"))
    sentences = re.findall(r"From Hedgerow Require Import ([^.]+)\.", text)
    return {name for sentence in sentences for name in sentence.split()}


def copied(into: Path, source: Path = FOLDER) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    for path in source.glob("*.v"):
        shutil.copy(path, into / path.name)
    return into


def compile_file(folder: Path, name: str) -> str:
    """What `coqc` prints of one file; ProofError if it refuses it."""
    done = subprocess.run(
        ["coqc", *OPTIONS, f"{name}.v"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProofError(f"coqc refuses {name}.v:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def compile_all(folder: Path) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        for wave in in_waves(folder):
            list(pool.map(lambda name: compile_file(folder, name), wave))


def replayed(folder: Path, text: str) -> None:
    """Holds what the code computes against the proved functions."""
    (folder / "Replay.v").write_text(text, "utf-8")
    compile_file(folder, "Replay")


def assumptions(folder: Path, module: str = "Claims") -> dict[str, set[str]]:
    """Theorem of the module -> axioms it rests on."""
    names = theorems(folder / f"{module}.v")
    asked = "".join(f'Goal True. idtac "@{n}". Abort.\nPrint Assumptions {n}.\n' for n in names)
    head = f"From Hedgerow Require Import {module}.\n"
    (folder / "Assumptions.v").write_text(head + asked, "utf-8")
    parts = re.split(r"^@(\w+)$", compile_file(folder, "Assumptions"), flags=re.MULTILINE)
    return {name: _axioms(said) for name, said in zip(parts[1::2], parts[2::2], strict=True)}


def _axioms(said: str) -> set[str]:
    """Lines that begin a name, in either of the two ways in which it is printed."""
    if "Closed under the global context" in said:
        return set()
    short = {name.split(".")[-1]: name for name in AXIOMS}
    names = re.findall(r"^([\w.']+)\s*(?=:|\n)", said.replace("Axioms:\n", ""), re.MULTILINE)
    return {short.get(name, name) for name in names}


def unexpected(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Theorems that rest on more than the real numbers."""
    return {name: axioms - AXIOMS for name, axioms in found.items() if axioms - AXIOMS}


def check() -> Iterable[str]:
    """Lines of the report; ProofError at the first thing that is wrong."""
    from proofs import replay

    if wrong := loopholes():
        raise ProofError(f"proofs must be whole; take out {', '.join(wrong)}.")
    if files := changed():
        raise ProofError(
            f"statements of {', '.join(files)} are not those of {FROZEN.name}. Read what changed; "
            "if it is meant, run `python -m proofs.check --freeze`."
        )
    with tempfile.TemporaryDirectory() as name:
        folder, begun = copied(Path(name)), time.monotonic()
        compile_all(folder)
        paths = sorted(FOLDER.glob("*.v"))
        lines = sum(len(path.read_text("utf-8").splitlines()) for path in paths)
        proved = sum(len(theorems(path)) for path in paths)
        yield f"{proved} theorems in {len(paths)} files, {lines} lines: {_since(begun)}"
        begun, script = time.monotonic(), replay.script()
        replayed(folder, script.text)
        yield f"{script.summary} of the code equal the proved functions: {_since(begun)}"
        found = assumptions(folder)
        if more := unexpected(found):
            raise ProofError(f"claims rest on more than Coq's real numbers: {more}.")
        used = sorted(set().union(*found.values()))
        yield f"{len(found)} claims, resting on {', '.join(used)}"


def _since(begun: float) -> str:
    return f"{time.monotonic() - begun:.0f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the proofs with coqc.")
    parser.add_argument("--freeze", action="store_true", help="write statements.sha256 anew")
    if parser.parse_args().freeze:
        freeze()
        return 0
    if shutil.which("coqc") is None:
        print(MISSING)
        return 0
    try:
        for line in check():
            print(line, flush=True)
    except ProofError as wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
