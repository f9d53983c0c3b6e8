"""A consortium of four containers on one machine, by `buildah` with chroot isolation: no daemon.

For tests, and for whoever has no Docker. It walks the same commands as `make demo-network`, each
in the container of whoever would type it. What is another one's alone is hidden there: folders with
keys and ledgers, and rows; what people would send each other lies in the shared folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from examples.network.walk import POLICY, ROOT, SITES, over_https, write_rows
from hedgerow.deployment.rehearsal import START_SECONDS, Say, Walk, free_port

HERE = Path(__file__).parent
BASE, IMAGE = "localhost/hedgerow-base", "localhost/hedgerow"
USER = 10001
INSIDE = "/srv/walk"
CHROOT = ("--isolation", "chroot")
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
ENGINE = ("podman-compose", "podman", "runc")
OLDEST_COMPOSE = (1, 3)
HIDDEN = "hidden"
"""Holds what containers see in the place of others' things."""


def run(*words: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words[:4]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


# -------------------------------------------------------------------------------------- the image
def make_base(folder: Path, name: str) -> None:
    """An image of Debian with Python, and nothing that compiles C."""
    packages = "--include=python3,python3-venv,ca-certificates"
    run("debootstrap", "--variant=minbase", packages, "bookworm", folder)
    for path in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(folder / path, ignore_errors=True)
    made = run("buildah", "from", "scratch").strip()
    run("buildah", "add", "--quiet", made, folder, "/")
    run("buildah", "commit", "--quiet", "--rm", made, name)


def build(folder: Path, base: str, name: str) -> None:
    """From a wheel of this source and the wheels that it needs, as this machine's pip gets them."""
    folder.mkdir()
    for file in (HERE / "Containerfile", ROOT / "constraints.txt"):
        shutil.copy(file, folder)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    constraint = ("--constraint", ROOT / "constraints.txt")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder / "wheels", ROOT)
    (wheel,) = (folder / "wheels").glob("hedgerow-*.whl")
    run(*pip, "download", *constraint, "--dest", folder / "wheels", f"{wheel}[https]")
    run("buildah", "bud", *CHROOT, "--quiet", "--format", "docker", "--build-arg", f"BASE={base}",
        "--build-arg", "PIP_NO_INDEX=1", "--tag", name, folder)  # fmt: skip


def exit_code(words: list[str]) -> int:
    return subprocess.run(words, capture_output=True).returncode


def is_there(image: str) -> bool:
    return exit_code(["buildah", "inspect", "--type", "image", image]) == 0


def megabytes(image: str) -> float:
    """What the image takes on a disk, its base included."""
    number, unit = json.loads(run("buildah", "images", "--json", image))[0]["size"].split()
    return float(number) * {"MB": 1, "GB": 1000}[unit]


def reason_against(*programs: str) -> str | None:
    """What this machine lacks to build and run containers without a daemon; None if nothing."""
    wanted = ("buildah", "debootstrap", *programs)
    lacking = [name for name in wanted if shutil.which(name, path=PATH) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    if ENGINE[0] in programs and compose_version() < OLDEST_COMPOSE:
        return "podman-compose is older than 1.3: pip install --group containers"
    return None if os.geteuid() == 0 else "debootstrap and chroot are root's alone"


def compose_version() -> tuple[int, ...]:
    said = run(shutil.which(ENGINE[0], path=PATH) or "", "--version")
    return tuple(map(int, re.findall(r"podman-composer? version:?\s+(\d+)\.(\d+)", said)[0]))


# -------------------------------------------------------------------------------------- the walk
@dataclass
class ContainerWalk(Walk):
    """A walk whose commands run in containers of one image."""

    image: str = IMAGE
    made: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        for role in (*SITES, "coordinator"):
            self.made[role] = run("buildah", "from", self.image).strip()
        empty = self.folder / HIDDEN
        (empty / "folder").mkdir(parents=True)
        (empty / "study").mkdir()
        (empty / "rows").touch()
        for name in (*SITES, "study", "anchors"):
            (self.folder / name).mkdir()

    def _words(self, command: str) -> list[str]:
        self._hand_over()
        role = role_of(command)
        volumes = [word for pair in self._mounts(role) for word in ("--volume", pair)]
        return ["buildah", "run", *CHROOT, "--user", f"{USER}:{USER}", "--workingdir", INSIDE,
                *volumes, self.made[role], "--", "hedgerow", *shlex.split(command)[1:]]  # fmt: skip

    def _mounts(self, role: str) -> Iterator[str]:
        yield f"{self.folder}:{INSIDE}"
        for name in SITES:
            if name != role:
                yield f"{self.folder}/{HIDDEN}/folder:{INSIDE}/{name}"
                yield f"{self.folder}/{HIDDEN}/rows:{INSIDE}/{name}.csv"
        if role != "coordinator":
            yield f"{self.folder}/{HIDDEN}/study:{INSIDE}/study"

    def _hand_over(self) -> None:
        """The study file goes to everybody; files are the containers' user's."""
        with suppress(FileNotFoundError):
            shutil.copy(self.folder / "study/study.toml", self.folder / HIDDEN / "study")
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, USER, USER, follow_symlinks=False)

    def stop(self) -> None:
        import psutil

        for process in self.running:
            with suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.terminate()
        super().stop()
        for container in self.made.values():
            run("buildah", "rm", container)


def role_of(command: str) -> str:
    """Who types it: a site that it names, or the coordinator."""
    _, group, *rest = shlex.split(command)
    if group in ("site", "ledger"):
        named = (Path(word).name.removesuffix(".csv") for word in rest)
        return next(name for name in named if name in SITES)
    return "coordinator"


def make_image(folder: Path, say: Say) -> None:
    if not is_there(BASE):
        say("making a base by debootstrap ...")
        make_base(folder / "base", BASE)
    say("building the image ...")
    build(folder / "context", BASE, IMAGE)


def walk_in_containers(folder: Path, say: Say) -> dict[str, float]:
    """Image and study, from nothing; sizes in megabytes, seconds of the study."""
    make_image(folder, say)
    (folder / "walk").mkdir()
    with container_walk(folder / "walk", IMAGE, say) as walk:
        begun = time.monotonic()
        over_https(walk, free_port())
    sizes = {"base": megabytes(BASE), "image": megabytes(IMAGE)}
    return {**sizes, "study": time.monotonic() - begun}


@contextmanager
def container_walk(folder: Path, image: str, say: Say) -> Iterator[ContainerWalk]:
    walk = ContainerWalk(folder, say, image=image)
    try:
        walk.start()
        yield walk
    finally:
        walk.stop()


# ------------------------------------------------------------------------------------ with compose
SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
"""Of podman, where there is no systemd and root may not raise its limits."""


@dataclass
class ComposeWalk(Walk):
    """The lines of docs/containers.md, by podman-compose; those of north are typed by each site."""

    tokens: dict[str, str] = field(default_factory=dict)
    pins: dict[str, str] = field(default_factory=dict)
    """The sites' fingerprints, once somebody read them."""

    def start(self) -> None:
        for file in ("compose.yaml", "Containerfile"):
            shutil.copy(HERE / file, self.folder)
        (self.folder / "containers.conf").write_text(SETTINGS, encoding="utf-8")
        write_rows(self)
        for name in SITES:
            (self.folder / "rows" / name).mkdir(parents=True)
            shutil.move(self.folder / f"{name}.csv", self.folder / "rows" / name / "rows.csv")

    def follow(self, line: str) -> None:
        if " invite " in line:
            log = self.leave_running(f"{line} --yes")
            token = re.compile(r"(\w+)\s+hedgerow site enroll (hr1-\S+)")
            self.wait_until(lambda: len(token.findall(log.read_text())) == len(SITES), "tokens")
            self.tokens = dict(token.findall(log.read_text()))
            return
        is_of_sites = "north" in line.replace("--site north", "") and " up " not in line
        for name in SITES if is_of_sites else SITES[:1]:
            said = self.do(self._filled(line, name))
            if found := re.search(r"fingerprint\s+(\w+)", said):
                self.pins[name] = found[1]
        if " enroll " in line:
            self.running[-1].wait(START_SECONDS)

    def _filled(self, line: str, name: str) -> str:
        pins = "".join(f'{site} = "{pin}"\n' for site, pin in self.pins.items() if site != name)
        text = POLICY.format(method="TreeClassifier", pins=pins)
        (self.folder / "policy.toml").write_text(text, encoding="utf-8")
        is_asked = " approve " in line or " enroll " in line
        line = line.replace("north", name).replace("TOKEN", self.tokens.get(name, "TOKEN"))
        return line + (" --yes" if is_asked else "")

    def _words(self, command: str) -> list[str]:
        line = command.replace(
            "docker compose", shlex.quote(shutil.which(ENGINE[0], path=PATH) or "")
        )
        return ["sh", "-c", f"CONTAINERS_CONF={self.folder}/containers.conf {line}"]

    def inside(self, name: str, *words: str) -> str:
        """What a program answers in the container of a service that runs."""
        return run("podman", "exec", container_of(name), *words)

    def wait_for_health(self) -> None:
        """By the image's own check, as an engine does it every half minute."""
        checks = [["podman", "healthcheck", "run", container_of(name)] for name in SITES]
        self.wait_until(lambda: not any(map(exit_code, checks)), "healthy sites")

    def stop(self) -> None:
        super().stop()
        self.do("docker compose down --volumes")


def container_of(service: str) -> str:
    return run("podman", "ps", "--quiet", "--filter", f"name=_{service}_").strip()


if __name__ == "__main__":
    if (reason := reason_against()) is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as name:
        print(walk_in_containers(Path(name), lambda text: print(text, flush=True)))
