"""How deep a fit calls before rows are counted: one path, and no layer that only passes on."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import hedgerow as hr
from deployment.test_serve import Served
from hedgerow.federation import client
from support.network import World, https
from support.worlds import TWO, sample

ROOT = str(Path(hr.__file__).parent)
MOST = {1: 10, 3: 15}
AT_A_SITE = 14
"""From the thread that calls the coordinator, over HTTPS."""


class Depths:
    """The frames of hedgerow above each first call of a counting kernel, while this is open."""

    def __init__(self) -> None:
        self.stacks: list[list[str]] = []

    def __enter__(self) -> Depths:
        threading.setprofile(self._look)
        sys.setprofile(self._look)
        return self

    def __exit__(self, *unused: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _look(self, frame, event, argument) -> None:
        if event == "call" and frame.f_code.co_name == "count_cells":
            self.stacks.append(self._names(frame))

    @staticmethod
    def _names(frame) -> list[str]:
        names = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(ROOT):
                names.append(frame.f_code.co_name)
            frame = frame.f_back
        return names[::-1]

    def deepest(self, first: str) -> int:
        found = [stack for stack in self.stacks if stack[0] == first]
        assert found, "nothing was counted"
        return max(map(len, found))


def fitted(n_sites: int, **options) -> int:
    X, y = sample(90, TWO)
    model = hr.HistogramTreeClassifier(TWO, epsilon=1.0, max_depth=2, random_state=0, **options)
    with Depths() as depths:
        model.fit(X, y, site=None if n_sites == 1 else np.arange(90) % n_sites)
    return depths.deepest("fit")


@pytest.mark.parametrize("n_sites", MOST)
def test_from_fit_to_the_first_kernel_there_are_no_more_frames_than_steps(n_sites):
    assert fitted(n_sites) <= MOST[n_sites]


def test_a_layer_that_only_passes_on_is_seen(monkeypatch):
    """Twin."""
    plain = client.respond

    def passed_on(*given):
        return plain(*given)

    passed_on.__code__ = passed_on.__code__.replace(co_filename=f"{ROOT}/more.py")
    monkeypatch.setattr(client, "respond", passed_on)
    assert fitted(3) > MOST[3]


@pytest.mark.network
def test_at_an_https_site_there_are_no_more_frames_than_steps(tmp_path):
    world = World(tmp_path)
    world.approve(world.study_file)
    with Served(world) as served, Depths() as depths:
        handles = {
            s.name: one.daemon.handle for s, one in zip(world.sites, served.all, strict=True)
        }
        (tmp_path / "https").mkdir()
        with https(tmp_path / "https", handles) as transport:
            world.train(transport)
    assert depths.deepest("run") <= AT_A_SITE
