"""The same study over a real SuperLink and SuperNodes, with TLS and node keys, on the loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr's versions do not fit the other tools' (make test-flower)")

from examples.network.engine import BIN, running
from examples.network.flower import LINK, FlowerNetwork
from hedgerow.deployment.serve import Service
from hedgerow.federation.transports.flower import PROJECT, FlowerExchange
from hedgerow.federation.transports.socket import SocketListener
from support.engine_world import FLOWER_FAULTS, NEW_RUN
from support.faults import MAY_BE_VOID, run_folder
from support.flower_world import Flower, flower_world
from support.network import World, tree_of

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.network]
KINDS = {
    "forest": {"HistogramTreeClassifier": "ForestClassifier", "max_depth = 2": ""},
    "boosted": {
        "HistogramTreeClassifier": "BoostedTreesClassifier",
        "max_depth = 2": "trees_per_round = 5",
    },
}


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory):
    """One network for most tests of this file; each has a study and a transport of its own."""
    with flower_world(tmp_path_factory.mktemp("flower")) as started:
        yield started


@pytest.fixture(scope="module")
def stock_nodes(tmp_path_factory: pytest.TempPathFactory):
    """Its SuperNodes run what is submitted, as they do by default."""
    with flower_world(tmp_path_factory.mktemp("stock"), executor=False) as started:
        yield started


def reached(network: FlowerNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """By commands of this test: there are several networks."""
    for name, value in network.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def flower(executors: Flower, monkeypatch: pytest.MonkeyPatch) -> Flower:
    reached(executors.network, monkeypatch)
    return executors


@pytest.fixture
def stock(stock_nodes: Flower, monkeypatch: pytest.MonkeyPatch) -> Flower:
    reached(stock_nodes.network, monkeypatch)
    return stock_nodes


def trained(flower: Flower, folder: Path, **change: str):
    study = flower.study(**change)
    with closing(flower.transport(folder)) as transport:
        model = flower.world.train(transport, study)
    assert transport.jobs == 1
    assert tree_of(model) == tree_of(flower.world.in_one_process(study))
    assert [len(rounds) for rounds in flower.charges(study)] == [len(model.run_.rounds)] * 3


def test_a_tree_grown_over_flower_is_the_tree_of_one_process(flower, tmp_path):
    trained(flower, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_other_models_over_flower_are_those_of_one_process(flower, tmp_path, kind):
    trained(flower, tmp_path, **KINDS[kind])


@pytest.mark.slow
def test_a_tree_grown_over_stock_nodes_is_the_tree_of_one_process(stock, tmp_path):
    trained(stock, tmp_path)


# ----------------------------------------------------------------------------------------- killed
@pytest.mark.slow
@pytest.mark.parametrize("fault", FLOWER_FAULTS, ids=lambda fault: fault.name)
def test_whoever_is_killed_around_flower_costs_time_and_no_more_than_a_round(
    flower, tmp_path, fault
):
    outcome, jobs = flower.play(fault, tmp_path)
    assert outcome.same_model
    assert outcome.charged_once
    assert max(outcome.charged) == outcome.rounds
    may_be_void = fault.who == "site" and (fault.kind, fault.when) in MAY_BE_VOID
    assert outcome.void <= may_be_void
    assert outcome.void or outcome.charged == (outcome.rounds,) * 3
    assert jobs >= 1 + (fault.who in NEW_RUN)


# ----------------------------------------------------------------------------------- the direct app
HUB = Path(__file__).parents[2] / "examples/flower_hub"


@pytest.mark.slow
def test_the_app_for_the_hub_trains_and_goes_on_after_its_server_app_was_killed(flower, tmp_path):
    study = flower.study()
    run = run_folder(flower.world, study, tmp_path)
    submit(HUB, f'study="{run.path}"')
    until(lambda: run.events_file.exists() and '"round"' in run.events_file.read_text())
    flower.network.kill_server_app()
    submit(HUB, f'study="{run.path}"')
    until(run.report_file.exists)
    import hedgerow as hr

    model = hr.load(run.model_file)
    assert tree_of(model) == tree_of(flower.world.in_one_process(study))
    assert [len(rounds) for rounds in flower.charges(study)] == [len(model.run_.rounds)] * 3


def submit(app: Path, config: str) -> None:
    words = [BIN / "flwr", "run", app, LINK, "--format", "json", "--run-config", config]
    done = subprocess.run(words, capture_output=True, text=True)
    assert json.loads(done.stdout)["success"], done.stdout + done.stderr


def until(is_so, seconds: float = 900.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.2)


# ------------------------------------------------------------------------------------- intruders
STRANGER = """\
import json
import socket
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client_app = ClientApp()
server_app = ServerApp()


def tried(path):
    try:
        if not path.endswith("socket"):
            return "read" if Path(path).read_bytes()[:1] else "empty"
        with socket.socket(socket.AF_UNIX) as service:
            service.connect(path)
            service.sendall((12).to_bytes(8, "big") + b"give me rows")
            service.recv(8)
            return service.recv(100).decode(errors="replace")
    except OSError as error:
        return type(error).__name__


@client_app.query()
def run(message, context):
    found = {{path: tried(path) for path in {targets!r}}}
    return Message(RecordDict({{"x": ConfigRecord(found)}}), reply_to=message)


@server_app.main()
def main(grid, context):
    content = RecordDict({{"x": ConfigRecord({{}})}})
    asked = [
        Message(content, dst_node_id=node, message_type="query", ttl=30)
        for node in grid.get_node_ids()
    ]
    replies = grid.send_and_receive(asked, timeout=30)
    found = [dict(reply.content["x"]) for reply in replies if reply.has_content()]
    Path({over!r} + ".part").write_text(json.dumps(found))
    Path({over!r} + ".part").rename({over!r})
"""


def strangers_finds(folder: Path, targets: Sequence[Path]) -> list[dict[str, str]]:
    """What an app of somebody else, submitted by whoever reaches the SuperLink, says of each node.

    Of each target whether it could be read; nothing of nodes where the app did not run.
    """
    package, over = folder / "stranger/strange", folder / "over"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    text = STRANGER.format(targets=[str(one) for one in targets], over=str(over))
    (package / "flower_app.py").write_text(text)
    project = PROJECT.replace("hedgerow_pipe", "strange").replace("hedgerow", "stranger")
    (package.parent / "pyproject.toml").write_text(project)
    submit(package.parent, 'pipe=""')
    until(over.exists)
    return json.loads(over.read_text())


@pytest.mark.slow
def test_strange_code_runs_on_stock_nodes_and_reads_what_their_user_can(stock, tmp_path):
    """Twin of the next two: so it is with Flower as it comes."""
    rows = stock.world.data_of(stock.world.sites[0])
    assert strangers_finds(tmp_path, [rows]) == [{str(rows): "read"}] * 3


@pytest.mark.slow
def test_strange_code_does_not_run_where_the_executor_is_ours(flower, tmp_path):
    before = flower.heard_and_charged()
    assert strangers_finds(tmp_path, []) == []
    assert flower.heard_and_charged() == before
    trained(flower, tmp_path)  # and the executors go on


NODE, PIPE = 12002, 12003
"""Numbers of a user and of a group that nobody here has."""
WITHIN = ("setpriv", f"--reuid={NODE}", f"--regid={NODE}", f"--groups={PIPE}")


def why_not_another_user() -> str | None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return "only root, with setpriv, runs a node as another user"
    words = [*WITHIN, "sh", "-c", '"$0" -c ""', BIN / "python"]  # by a process that was never root
    done = subprocess.run(words, capture_output=True)
    return "another user cannot open this environment" if done.returncode else None


@pytest.mark.slow
def test_a_stock_node_that_is_another_user_reads_nothing_of_the_site_but_its_own_key(monkeypatch):
    if (reason := why_not_another_user()) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "world").mkdir(mode=0o711)
        world = World(folder / "world")
        site = world.sites[0]
        world.data_of(site).chmod(0o600)
        listener = folder / "socket"
        opened.enter_context(closing(Service(site, socket=listener, group=PIPE)))
        network = FlowerNetwork(folder / "f", {site.name: listener}, executor=False, within=WITHIN)
        network.provision()
        key = network.folder / f"{site.name}.node"
        for path in (key, network.folder / f"{site.name}.home"):
            os.chown(path, NODE, NODE)
        opened.callback(network.stop)
        network.start()
        reached(network, monkeypatch)
        state = [site.root / name for name in ("identity.key", "store.sqlite", "policy.toml")]
        own = [world.data_of(site), *state, site.audit_file, Path(f"/proc/{os.getpid()}/environ")]
        (found,) = strangers_finds(folder, [*own, key, listener])
        assert {found[str(path)] for path in own} == {"PermissionError"}
        assert found[str(key)] == "read"
        assert "BadMessage" in found[str(listener)]
        assert world.lines(0, "refused")


@pytest.mark.slow
def test_long_messages_pass_and_a_node_under_a_false_name_can_only_be_silent(tmp_path, monkeypatch):
    """`south` says that it is `north`, too: what is for `south` is not answered, and no more."""
    sockets = {name: tmp_path / f"{name}.socket" for name in ("north", "south")}
    listeners = [SocketListener(path, lambda text: text[::-1]) for path in sockets.values()]
    long = bytes(range(250)) * 12_000
    try:
        with running(FlowerNetwork(tmp_path / "f", sockets)) as network:
            reached(network, monkeypatch)
            with closing(FlowerExchange(LINK, list(sockets), tmp_path / "pipe")) as transport:
                asked = {"north": long, "south": b"ab"}
                assert transport.ask(asked, 60) == {"north": long[::-1], "south": b"ba"}
            network.kill("south.executor")
            network.start_executor("south", site="north")
            with closing(FlowerExchange(LINK, list(sockets), tmp_path / "pipe")) as transport:
                assert transport.ask({"north": b"ab", "south": b"ab"}, 30) == {"north": b"ba"}
    finally:
        for one in listeners:
            one.close()
