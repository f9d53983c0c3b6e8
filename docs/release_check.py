"""What must hold before a release: `make release-check`.

Runs the checklists of others over the repository, builds sdist and wheel, the wheel twice, installs
it into an empty environment, runs README there as a stranger would, and writes beside it a bill of
materials and a lock with hashes of exactly what was installed. What only the owner can say is named
at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from hedgerow.kernels.build import FLAGS, SOURCE
from hedgerow.version import __version__

ROOT = Path(__file__).resolve().parents[1]
QUIET = ("--quiet", "--disable-pip-version-check")
SHIPPED = ("LICENSE", "README.md", "pyproject.toml", "src/hedgerow/__init__.py")
"""What an sdist must hold."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLACEHOLDER = ".invalid"
"""Ends every address that the owner has not named yet."""
LOCK_HEAD = """# What a site installs, with hashes: pip install --require-hashes -r site.lock
# Made for {platform}, Python {python}.
"""


def run(*words: str | Path, **more: object) -> None:
    print("$", *words, flush=True)
    subprocess.run([str(word) for word in words], check=True, **more)  # type: ignore[call-overload]


def heard(*words: str | Path, **more: Any) -> str:
    """What a program says, which is shown too."""
    print("$", *words, flush=True)
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, **more)
    print(done.stdout, flush=True)
    done.check_returncode()
    return done.stdout


def built(out: Path) -> tuple[Path, Path]:
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    (source,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return source, wheel


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_reproducible(wheel: Path) -> None:
    """The same source gives the same bytes, at another time and in another folder."""
    with tempfile.TemporaryDirectory() as again:
        run(sys.executable, "-m", "build", "--wheel", "--outdir", again, ROOT)
        (other,) = Path(again).glob("*.whl")
        assert digest(other) == digest(wheel), f"{wheel.name} was built twice and differs"


RENDER = """
import sys, rattler_build as conda
for system in ("linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64"):
    target = conda.RenderConfig(conda.PlatformConfig(target_platform=system))
    recipe = conda.Stage0Recipe.from_file(sys.argv[1])
    print(system, [one.recipe for one in recipe.render(render_config=target)])
"""
TARGETS = {  # systems and processors of the release's wheels, as zig and as cibuildwheel name them
    "x86_64-linux-gnu.2.17": ("linux", "x86_64"),
    "aarch64-linux-gnu.2.17": ("linux", "aarch64"),
    "x86_64-macos": ("macos", "x86_64"),
    "aarch64-macos": ("macos", "arm64"),
    "x86_64-windows-gnu": ("windows", "AMD64"),
}
EXPORTS = """
import sys, lief
print(*(one.name.removeprefix("_") for one in lief.parse(sys.argv[1]).exported_functions))
"""


def check_portable(programs: Path) -> str:
    """The loops compile, without a warning, for systems that are not here, and can be called."""
    wanted = set(re.findall(r"^(?!static)\w+ (\w+)\(", SOURCE.read_text("utf-8"), re.M))
    names = ("cibuildwheel", ROOT, "--print-build-identifiers", "--platform")
    for target, (system, processor) in TARGETS.items():
        wheels = heard(programs / "python", "-m", *names, system, "--archs", processor).split()
        assert len(wheels) == 1, f"a release has the wheels {wheels} for {system} {processor}"
        out = programs.parent / f"loops-{target}"
        compiler = (programs / "python", "-m", "ziglang", "cc", "-target", target, "-Werror")
        run(*compiler, *FLAGS, SOURCE, "-o", out, "-lm")
        absent = wanted - set(heard(programs / "python", "-c", EXPORTS, out).split())
        assert not absent, f"for {target} the loops lack {sorted(absent)}"
    return f"{len(wanted)} loops compile for {', '.join(TARGETS)}; run by the workflows alone"


def check_lists(folder: Path, wheel: Path) -> dict[str, str]:
    """Of others: all that the group `release` names, in an environment of their own."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    wanted = PROJECT["dependency-groups"]["release"]
    run(programs / "python", "-m", "pip", "install", *QUIET, *wanted)
    run(programs / "python", "-c", RENDER, ROOT / ".github/recipe.yaml")
    if sys.platform == "linux":
        plain = ("--plat", f"manylinux_2_17_{platform.machine()}", "--wheel-dir", folder)
        path = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        run(programs / "auditwheel", "repair", *plain, wheel, env=path)
    for schema, files in SHAPES.items():
        shape = ("--builtin-schema", f"vendor.{schema}")
        run(programs / "check-jsonschema", *shape, *sorted(ROOT.glob(files)))
    left_out = ", ".join(PROJECT["tool"]["repo-review"]["ignore"])
    review = heard(programs / "sp-repo-review", ROOT, cwd=folder)
    n_good, n_bad = review.count("\u2705"), review.count("\u274c")
    rating = heard(programs / "pyroma", "--min", "10", ROOT, cwd=folder)
    licenses = heard(programs / "reuse", "--root", ROOT, "lint")
    findings = heard(programs / "zizmor", "--offline", ROOT / ".github", stderr=subprocess.STDOUT)
    return {
        "sp-repo-review": f"{n_good} of {n_good + n_bad}; left out, for reasons: {left_out}",
        "pyroma": line_with("rating", rating),
        "REUSE": line_with("Files with license information", licenses),
        "zizmor": line_with("findings", findings),
        "workflows": f"fit the JSON Schemas of {', '.join(SHAPES)}",
        "other systems": check_portable(programs),
    }


SHAPES = {
    "github-workflows": ".github/workflows/*.yml",
    "dependabot": ".github/dependabot.yml",
    "compose-spec": "examples/containers/compose.yaml",
}
"""JSON Schemas that the checker brings, and the files that they are for."""


def line_with(words: str, text: str) -> str:
    return next(line.strip("* ") for line in reversed(text.splitlines()) if words in line)


def lock_lines(report: dict[str, Any]) -> list[str]:
    """Each distribution that pip would install, with the hash of its file."""
    found = []
    for one in report["install"]:
        name, version = one["metadata"]["name"], one["metadata"]["version"]
        hashes = one["download_info"]["archive_info"]["hashes"]
        found.append(f"{name.lower()}=={version} --hash=sha256:{hashes['sha256']}")
    return sorted(found)


def write_lock(python: Path, wheel: Path, out: Path) -> None:
    """What a site over HTTPS needs, resolved by pip within our constraints."""
    limits = ("-c", str(ROOT / "constraints.txt"))
    words = [str(python), "-m", "pip", "install", *QUIET, "--dry-run", "--ignore-installed"]
    words += ["--only-binary", ":all:", "--report", "-", *limits, f"{wheel}[https]"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    about = report["environment"]
    system = f"{about['platform_system']} {about['platform_machine']}"
    head = LOCK_HEAD.format(platform=system, python=about["python_version"])
    out.write_text(head + "\n".join(lock_lines(report)) + "\n", encoding="utf-8")


def placeholders() -> list[str]:
    """Addresses that the owner has still to name, all in pyproject.toml."""
    project = PROJECT["project"]
    named = {f"authors: {one['email']}" for one in project["authors"]}
    named |= {f"{name}: {url}" for name, url in project["urls"].items()}
    return sorted(line for line in named if PLACEHOLDER in line)


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


def published(folder: Path) -> Path:
    """The wheel for this machine among those of a release: what is locked is what is published."""
    (wheel,) = folder.glob(f"hedgerow-*manylinux*{platform.machine()}.whl")
    return wheel


def main(out: Path, wheels: Path | None = None) -> None:
    """With `wheels`, what is installed and locked is the one there that is for this machine."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    os.environ.setdefault("SOURCE_DATE_EPOCH", "1577836800")
    source, wheel = built(out)
    with tempfile.TemporaryDirectory() as name:
        scores = check_lists(Path(name), wheel)
    check_contents(source, wheel)
    check_reproducible(wheel)
    wheel = published(wheels) if wheels else wheel
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name) / "empty"
        venv.create(empty, with_pip=True)
        python = empty / "bin/python"
        limits = ("-c", ROOT / "constraints.txt")
        run(python, "-m", "pip", "install", *QUIET, *limits, wheel)
        materials = [
            sys.executable,
            "-m",
            "cyclonedx_py",
            "environment",
            "--of",
            "JSON",
            "--validate",
        ]
        run(*materials, "-o", out / "sbom.json", python)
        write_lock(python, wheel, out / "site.lock")
        locked = ("--require-hashes", "--find-links", wheel.parent, "-r", out / "site.lock")
        run(python, "-m", "pip", "install", *QUIET, "--dry-run", "--ignore-installed", *locked)
        run(python, "-m", "pip", "install", *QUIET, *limits, *readme_needs(readme))
        run_readme(readme, empty / "bin", Path(name))
    for name, score in scores.items():
        print(f"{name:15}{score}")
    print(f"ready: {source.name}, {wheel.name}, sbom.json and site.lock in {out}")
    for line in placeholders():
        print(f"for the owner to name in pyproject.toml: {line}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
