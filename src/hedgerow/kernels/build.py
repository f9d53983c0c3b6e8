"""Compiles `loops.c` when a wheel is built or a clone is installed, or by hand in a clone.

    python -m hedgerow.kernels.build

It uses `$CC`, the system's compiler or one from the package index; without any of them hedgerow
runs in plain NumPy. A library's name contains a digest of its source and flags, so that no other
library is ever loaded.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("loops.c")
FLAGS = (
    *("-O3", "-std=gnu11", "-Wall", "-Wextra", "-fPIC", "-shared", "-s"),
    *("-fwrapv", "-ffp-contract=off"),  # integers wrap around; no product is fused with a sum
    *("-fno-trapping-math", "-fno-math-errno"),  # change no result, only what may be vectorized
)
FOR_ANY, FOR_AVX2 = "any", "avx2"
EXTRA_FLAGS = {FOR_ANY: (), FOR_AVX2: ("-mavx2",)}
SYSTEM_COMPILERS = ("cc", "gcc", "clang")
PACKAGED_COMPILER = "ziglang"


def library(kind: str) -> Path:
    """The path of the library for a kind of processor, whether it exists or not."""
    return SOURCE.with_name(f"loops-{kind}-{_digest()}.so")


@cache
def _digest() -> str:
    flags = repr((FLAGS, EXTRA_FLAGS)).encode()
    return hashlib.sha256(SOURCE.read_bytes() + flags).hexdigest()[:12]


def build() -> list[Path]:
    """Compiles the libraries that are missing, and removes those of other sources."""
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    libraries = {kind: library(kind) for kind in EXTRA_FLAGS if is_x86 or kind == FOR_ANY}
    for kind, path in libraries.items():
        if not path.exists():
            _compile(EXTRA_FLAGS[kind], path)
    for other in set(SOURCE.parent.glob("loops-*-*.*")) - set(libraries.values()):
        other.unlink(missing_ok=True)
    return list(libraries.values())


def _compile(extra: tuple[str, ...], path: Path) -> None:
    """Compiles to a temporary name: another process may be building or loading the same file."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    command = [*_compiler(), *FLAGS, *extra, str(SOURCE), "-o", str(unfinished)]
    subprocess.run([*command, *(() if sys.platform == "win32" else ("-lm",))], check=True)
    unfinished.replace(path)


def _compiler() -> list[str]:
    chosen = os.environ.get("CC") or next(filter(shutil.which, SYSTEM_COMPILERS), None)
    if chosen:
        return shlex.split(chosen)
    if find_spec(PACKAGED_COMPILER):
        return [sys.executable, "-m", PACKAGED_COMPILER, "cc"]
    found = f"neither $CC nor {', '.join(SYSTEM_COMPILERS)}"
    raise OSError(f"no C compiler: {found}. Install one, or `pip install {PACKAGED_COMPILER}`.")


def get_build_hook() -> type[Any]:
    """The hook of hatchling, which loads this file while it builds a wheel."""
    interface: Any = sys.modules["hatchling.builders.hooks.plugin.interface"]

    class Loops(interface.BuildHookInterface):  # type: ignore[misc]
        def dependencies(self) -> list[str]:
            has_one = os.environ.get("CC") or any(map(shutil.which, SYSTEM_COMPILERS))
            return [] if has_one else [PACKAGED_COMPILER]

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Adds the libraries to the wheel, which makes it specific to a platform."""
            try:
                paths = build()
            except (OSError, subprocess.CalledProcessError) as error:
                self.app.display_warning(f"hedgerow will run in plain NumPy, slower: {error}")
                return
            build_data["artifacts"] += [str(path.relative_to(self.root)) for path in paths]
            tag = sysconfig.get_platform().replace("universal2", platform.machine())
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{tag.replace('-', '_').replace('.', '_')}"

    return Loops


if __name__ == "__main__":
    print(*build(), sep="\n")
