"""The walk in docs/network_walk.md, walked again: every command still says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.network.flare_network import free_port
from examples.network.walk import SITES, masked, over_https, transcript, walking
from hedgerow.kernels.warming import warm

PAGE = Path(__file__).parents[2] / "docs/network_walk.md"


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Each command with its output, but for lines that noise decides."""
    found = []
    for block in re.findall(r"```\n\$ (.*?)\n```", page, re.S):
        command, *output = block.split("\n")
        if command.startswith("hedgerow show"):
            output = []  # noise decides how the tree looks
        found.append((command, [re.sub(r"\d+", "#", line) for line in output if _is_firm(line)]))
    return found


def _is_firm(line: str) -> bool:
    noisy = ("round ", "call: ", "against coalition", "costs ", "rounds ", "bytes ", "spent ")
    return not any(word in line for word in noisy) and "round" not in line


@pytest.mark.slow
def test_the_walk_is_as_the_page_says(tmp_path):
    warm()
    port = free_port()
    with walking(tmp_path, say=lambda text: None) as walk:
        over_https(walk, port)
    assert steps(transcript(walk, port)) == steps(PAGE.read_text(encoding="utf-8"))
    assert (tmp_path / "study/model.json").exists()


def test_the_page_shows_all_steps_and_nobodys_key():
    page = PAGE.read_text(encoding="utf-8")
    shown = [command for command, _ in steps(page)]
    for name in SITES:
        assert f"hedgerow site join {name} &" in shown
    assert any(command.startswith("hedgerow study run") for command in shown)
    assert masked(page, 0) == page  # twin: nothing is left that a mask would hide
