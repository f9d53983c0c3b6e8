"""Sites as processes of their own that call a coordinator over HTTPS, on the loopback."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from examples.network.walk import SITES, masked, over_https, transcript
from hedgerow.deployment.approve import ledger_of
from hedgerow.deployment.rehearsal import free_port, walking
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.transports.https import HttpsExchange
from hedgerow.privacy.ledger.events import Charged
from hedgerow.schema.rules import exact
from support.effort import LONG
from support.network import Processes, World, processes, tree_of


@contextmanager
def listener(world: World):
    tls = world.authority.server_context(["127.0.0.1"])
    transport = HttpsExchange(world.names, tls, "127.0.0.1")
    try:
        yield transport
    finally:
        transport.close()


class Running:
    """A world whose sites run, and the listener they call."""

    def __init__(self, world: World, transport: HttpsExchange, started: Processes) -> None:
        self.world, self.transport, self.started = world, transport, started
        world.approve(world.study_file, f"https://127.0.0.1:{transport.port}")
        self.sites = [self.start(k) for k in range(world.n_sites)]

    def start(self, k: int):
        return self.started.hedgerow("site", "serve", self.world.sites[k].root, "--json")

    def charges(self) -> list[int]:
        account, counts = StudyFile.read(self.world.study_file).study.account, []
        for site in self.world.sites:
            with ledger_of(site) as ledger:
                ledger.verify()
                events = [event for _, event in ledger.entries()]
            counts.append(sum(isinstance(e, Charged) and e.study == account for e in events))
        return counts


@pytest.fixture
def running(tmp_path: Path):
    world = World(tmp_path)
    with listener(world) as transport, processes(tmp_path) as started:
        yield Running(world, transport, started)


def listening(process: psutil.Process) -> list[str]:
    """Where it can be called from another machine; a Unix socket is no such place."""
    return [str(c.laddr) for c in process.net_connections("inet") if c.status == "LISTEN"]


@pytest.mark.network
def test_three_processes_grow_the_tree_of_one_and_nothing_listens_at_a_site(running):
    model = running.world.train(running.transport)
    assert tree_of(model) == tree_of(running.world.in_one_process())
    assert running.charges() == [len(model.run_.rounds)] * 3
    for process, site in zip(running.sites, running.world.sites, strict=True):
        watched = psutil.Process(process.pid)
        assert listening(watched) == []
        own = [c.laddr for c in watched.net_connections("unix") if c.laddr]
        assert str(site.socket) in own
    assert (
        listening(psutil.Process()) != []
    )  # negative control: the listener of this process is seen
    for process in running.sites:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0
    for k in range(3):
        assert [line["event"] for line in running.world.lines(k, "stopped")] == ["stopped"]


HEAVY = {"sklearn", "scipy", "pandas", "duckdb", "matplotlib"}
MOST_MEGABYTES = 120


def libraries(process: psutil.Process) -> set[str]:
    """Packages whose compiled modules a process has loaded."""
    paths = [Path(one.path).parts for one in process.memory_maps()]
    return {part for parts in paths for part in parts if part in HEAVY}


@pytest.fixture
def as_installed(tmp_path: Path, monkeypatch):
    """Arrow loads these wherever they are there; hedgerow does not install them, nor need them."""
    (tmp_path / "absent").mkdir()
    for name in ("pandas", "cloudpickle", "dateutil"):
        (tmp_path / f"absent/{name}.py").write_text("raise ImportError\n")
    monkeypatch.setenv("HEDGEROW_TEST_PATH", str(tmp_path / "absent"))


@pytest.mark.network
@pytest.mark.usefixtures("as_installed")
def test_a_site_is_small_and_loads_nothing_that_only_coordinators_need(running):
    running.world.train(running.transport)
    for process in running.sites:
        watched = psutil.Process(process.pid)
        assert libraries(watched) == set()
        assert watched.memory_info().rss < MOST_MEGABYTES * 1e6
    assert "sklearn" in libraries(
        psutil.Process()
    )  # negative control: this process has an estimator


NAMED = {
    "papers.wang.local_rnm": ("max_splits = 3", "per_site", 0),
    "papers.liu.fet_ldp": ("n_estimators = 2\nmax_depth = 3", "label", 0),
    "papers.liu.fet_gdp": ("n_estimators = 2\nmax_depth = 3", "per_site", 0),
    "papers.maddock.dp_tr_newton_ih": ("n_estimators = 3", "distributed", exact(1e-6)),
}
"""A name, parameters to make it small, and the DP model and delta that the file does not say."""
PAPER_DEPTHS = (8, 11)
"""Of the tables of Consul and Williamson 2020."""


@contextmanager
def over_processes(folder: Path, **change: str):
    """The processes of a study whose file differs from the usual one in some words."""
    world = World(folder, dp_model="distributed")
    world.study_file = world.write_study("papers", **change)
    with listener(world) as transport, processes(folder) as started:
        yield Running(world, transport, started)


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("name", NAMED)
def test_a_paper_s_name_keeps_its_presets_over_processes(tmp_path, name):
    parameters, dp_model, delta = NAMED[name]
    change = {
        "HistogramTreeClassifier": name,
        "max_depth = 2": parameters,
        'delta = 1e-6\ndp_model = "distributed"': "",
    }
    with over_processes(tmp_path, **change) as running:
        model = running.world.train(running.transport)
        study = StudyFile.read(running.world.study_file).study
        assert (study.dp_model.name.lower(), study.delta) == (dp_model, delta)
        assert model.privacy_.epsilon <= 1.0 + 1e-9
        assert len(set(running.charges())) == 1
        assert len(model.predict_proba(running.world.X)) == len(running.world.y)


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("depth", PAPER_DEPTHS)
def test_diprime_of_the_paper_s_depths_runs_over_three_processes(tmp_path, depth):
    """With its ten trees: on disjoint parts of the records, at medians that each site selects."""
    change = {
        "HistogramTreeClassifier": "papers.consul.diprime",
        "max_depth = 2": f"max_depth = {depth}",
        'delta = 1e-6\ndp_model = "distributed"': "",
    }
    with over_processes(tmp_path, **change) as running:
        model = running.world.train(running.transport)
        trees = model.model_.score.trees
        assert len(trees) == 10
        assert {max(map(len, tree.regions())) for tree in trees} == {depth}
        assert running.charges() == [len(model.run_.rounds)] * 3
        assert 0.9 < model.privacy_.spent_fraction <= 1.0


# --------------------------------------------------------------------------------------------------
# The walk in docs/network_walk.md, walked again: every command still says the same.
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
    port = free_port()
    with walking(tmp_path, say=lambda text: None) as walk:
        over_https(walk, port)
    assert steps(transcript(walk, port)) == steps(PAGE.read_text(encoding="utf-8"))
    assert (tmp_path / "study/model.json").exists()


def test_the_page_shows_all_steps_and_nobodys_key():
    page = PAGE.read_text(encoding="utf-8")
    shown = [command for command, _ in steps(page)]
    for name in SITES:
        assert f"hedgerow site serve {name} &" in shown
    assert any(command.startswith("hedgerow study run") for command in shown)
    assert masked(page, 0) == page  # negative control: nothing is left that a mask would hide
