"""What the guide tells people to type and to write, tried: units, and FLARE's certificates."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from support.effort import LONG

DOCS = Path(__file__).parents[2] / "docs"
UNITS = ("hedgerow-site.service", "flare-client.service")
UNITS += ("flower-supernode.service", "hedgerow-flower.service")


def blocks(kind: str, page: str = "network.md") -> list[str]:
    """All of one kind: between a fence with that word and the next fence."""
    text = (DOCS / page).read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [text for word, text in fenced if word == kind]


# ---------------------------------------------------------------------------------------- services
def complaints(folder: Path, units: list[str]) -> str:
    """What systemd says of units; their programs are not on this machine, so `true` stands in."""
    for name, text in zip(UNITS, units, strict=True):
        there = re.sub(r"/opt/hedgerow/bin/[\w-]+", "/bin/true", text)
        (folder / name).write_text(there, encoding="utf-8")
    words = ["systemd-analyze", "verify", *(str(folder / name) for name in UNITS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG)
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_the_units(tmp_path):
    units = blocks("ini") + blocks("ini", "transports.md")
    assert complaints(tmp_path, units) == ""
    mistyped = [text.replace("ProtectSystem", "ProtectSystm") for text in units]
    assert "Unknown key" in complaints(tmp_path, mistyped)  # negative control


# ------------------------------------------------------------------------------------ certificates
@pytest.mark.slow
def test_a_site_is_provisioned_and_locked_as_the_guide_says(tmp_path):
    pytest.importorskip("nvflare", reason="the extra hedgerow[flare] is not installed")
    for text in blocks("yaml"):
        name, _, content = text.partition("\n")
        (tmp_path / name.removeprefix("# ")).write_text(content, encoding="utf-8")
    commands = [line.split("  #")[0] for line in blocks("")[0].splitlines()]
    assert [line.split()[0] for line in commands] == ["nvflare"] * 3 + ["openssl", "nvflare"]
    told = ""
    for command in commands:
        said = typed(command.replace("SHA256:99:17:...", f"SHA256:{told}"), tmp_path)
        if command.startswith("openssl"):
            told = said.strip().partition("=")[2]
    kit = tmp_path / "kits/hedge/prod_00/site-1"
    assert not (kit / "local/authorization.json").exists()
    done = CliRunner().invoke(app, ["site", "lock-flare", str(kit), "--socket", "/run/x/socket"])
    assert done.exit_code == 0, done.output
    assert (kit / "local/authorization.json").exists()
    wrong = commands[-1].replace("SHA256:99:17:...", f"SHA256:00{told[2:]}").replace("kits", "no")
    with pytest.raises(
        subprocess.CalledProcessError
    ):  # negative control: another authority's fingerprint
        typed(wrong, tmp_path)


def typed(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=LONG,
        env={"PATH": path, "HOME": str(folder)},
    )
    return done.stdout
