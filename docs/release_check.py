"""What must hold before a release: `make release-check`.

Builds sdist and wheel, installs the wheel into an empty environment, runs README there as a
stranger would, and writes a bill of materials of exactly what was installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path
from zipfile import ZipFile

from hedgerow.version import __version__

ROOT = Path(__file__).resolve().parents[1]
QUIET = ("--quiet", "--disable-pip-version-check")
SHIPPED = ("LICENSE", "README.md", "pyproject.toml", "src/hedgerow/__init__.py")
"""What an sdist must hold."""


def run(*words: str | Path, **more: object) -> None:
    print("$", *words, flush=True)
    subprocess.run([str(word) for word in words], check=True, **more)  # type: ignore[call-overload]


def built(out: Path) -> tuple[Path, Path]:
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    (source,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return source, wheel


def check_contents(source: Path, wheel: Path) -> None:
    with tarfile.open(source) as shipped:
        inside = {name.partition("/")[2] for name in shipped.getnames()}
    absent = [name for name in SHIPPED if name not in inside]
    assert not absent, f"{source.name} lacks {absent}"
    with ZipFile(wheel) as shipped:
        strange = [
            n for n in shipped.namelist() if not re.match(r"hedgerow(-[\w.]+\.dist-info)?/", n)
        ]
    assert not strange, f"{wheel.name} holds {strange}"
    assert f"-{__version__}" in wheel.name, f"{wheel.name} is not of version {__version__}"


def readme_needs(text: str) -> list[str]:
    """What README itself says to install beside hedgerow, and nothing more."""
    named = [
        word for line in re.findall(r"^\$ pip install (.*)$", text, re.M) for word in line.split()
    ]
    return [word for word in named if word != "."]


def readme_blocks(text: str) -> list[tuple[str, str]]:
    """Its commands and its Python, in order, but for what is marked as not to be run."""
    text = re.sub(r"<!-- skip: next [^\n]*-->\n```.*?```", "", text, flags=re.S)
    return re.findall(r"```(console|python)\n(.*?)```", text, re.S)


def run_readme(text: str, programs: Path, folder: Path) -> None:
    for kind, block in readme_blocks(text):
        if kind == "python":
            run(programs / "python", "-I", "-c", block, cwd=folder)
            continue
        for line in re.findall(r"^\$ (.*)$", block, re.M):
            run("bash", "-c", line, cwd=folder, env={"PATH": f"{programs}:/usr/bin:/bin"})


def main(out: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source, wheel = built(out)
    check_contents(source, wheel)
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name) / "empty"
        venv.create(empty, with_pip=True)
        python = empty / "bin/python"
        limits = ("-c", ROOT / "constraints.txt")
        run(python, "-m", "pip", "install", *QUIET, *limits, wheel)
        materials = [sys.executable, "-m", "cyclonedx_py", "environment", "--of", "JSON"]
        run(*materials, "-o", out / "sbom.json", python)
        run(python, "-m", "pip", "install", *QUIET, *limits, *readme_needs(readme))
        run_readme(readme, empty / "bin", Path(name))
    print(f"ready: {source.name}, {wheel.name}, sbom.json in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
