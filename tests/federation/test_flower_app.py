"""Flower's app over a grid in memory: which node is asked for which site, and who keeps silent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="flwr's versions do not fit the other tools' (make test-flower)")

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError
from flwr.supercore.task_identity import TaskIdentity

from federation.test_transports import NAMES, SEVERAL, directly, grown, handles, over, world
from hedgerow.federation.exchange import LONGEST_ANSWER, MAX_MESSAGE_BYTES, NamedExchange
from hedgerow.federation.transports import flower
from hedgerow.federation.transports.flower_app import LONGEST_MESSAGE, SiteGrid, answer_message
from hedgerow.federation.transports.socket import SocketListener
from hedgerow.privacy.accounting.budget import DPModel

pytestmark = pytest.mark.filterwarnings("ignore")  # of what flwr imports


class Grid:
    """Flower's, in memory: nodes are functions from a message to its reply, or None."""

    def __init__(self, nodes):
        self.nodes, self.replies, self.pushed = nodes, {}, []

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        ids = []
        for message in messages:
            ids.append(f"message {len(self.pushed)}")
            self.pushed.append(message.metadata.dst_node_id)
            record = self.nodes[self.pushed[-1]](message.content["hedgerow"])
            if record is not None:
                self.replies[ids[-1]] = record
        return ids

    def pull_messages(self, ids):
        return [self._reply(id) for id in ids if id in self.replies]

    def _reply(self, id):
        record = self.replies.pop(id)
        content = {} if record == "error" else {"hedgerow": record}
        metadata = SimpleNamespace(reply_to_message_id=id)
        return SimpleNamespace(
            metadata=metadata, content=content, has_content=lambda: record != "error"
        )


def node(site, answer=lambda text: b"to " + text):
    def replies(record):
        found = {"site": site}
        if "message" in record:
            found["answer"] = answer(record["message"])
        return found

    return replies


@pytest.fixture(autouse=True)
def task(monkeypatch):
    """Flower's messages are made inside a task of a run."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def test_nodes_are_greeted_once_and_messages_go_to_their_sites():
    grid = Grid({11: node("north"), 12: node("south"), 13: node("elsewhere")})
    sites = SiteGrid(grid)
    assert sites.ask({"north": b"n", "south": b""}, 5) == {"north": b"to n", "south": b"to "}
    assert len(grid.pushed) == 5
    assert sites.ask({"south": b"s"}, 5) == {"south": b"to s"}
    assert grid.pushed[5:] == [12]


def test_a_site_that_is_away_does_not_keep_others_from_answering():
    grid = Grid({11: node("north")})
    sites = SiteGrid(grid)
    assert sites.ask({"north": b"n", "south": b"s"}, 0.5) == {"north": b"to n"}
    grid.nodes[12] = node("south")  # it comes, and is greeted then
    assert sites.ask({"south": b"s"}, 5) == {"south": b"to s"}
    grid.nodes[11] = lambda record: None  # it falls silent
    assert sites.ask({"north": b"n", "south": b"s"}, 0.5) == {"south": b"to s"}
    grid.nodes[11] = lambda record: "error"  # Flower knows that it failed: nobody waits
    assert sites.ask({"north": b"n", "south": b"s"}, 1000) == {"south": b"to s"}


def test_a_node_answers_for_the_site_it_was_asked_for_and_for_no_other():
    grid = Grid({11: node("north"), 12: node("south")})
    sites = SiteGrid(grid)
    sites.ask({"north": b"n", "south": b"s"}, 5)
    grid.nodes[12] = lambda record: {"site": "north", "answer": b"false"}
    assert sites.ask({"north": b"n", "south": b"s"}, 5) == {"north": b"to n", "south": b"false"}


def test_a_node_asks_the_service_and_says_nothing_but_its_name_if_that_is_away(tmp_path):
    assert max(LONGEST_ANSWER, MAX_MESSAGE_BYTES) < LONGEST_MESSAGE

    def asked(**what):
        content = RecordDict({"hedgerow": ConfigRecord(what)})
        message = Message(content, dst_node_id=1, message_type="query")
        return dict(answer_message(message, "north", str(tmp_path / "socket")).content["hedgerow"])

    assert asked() == {"site": "north"}
    assert asked(message=b"?") == {"site": "north"}
    listener = SocketListener(tmp_path / "socket", lambda text: b"got " + text)
    assert asked(message=b"?") == {"site": "north", "answer": b"got ?"}
    listener.close()


def test_an_executor_gives_up_a_message_that_never_arrives_whole(monkeypatch, tmp_path):
    """A run may end while its message is under way; its parts are then nowhere."""

    def unavailable(object_id):
        raise ObjectUnavailableError(object_id)

    def never(runtime, *interceptors):
        raise InterruptedError  # before the first task

    monkeypatch.setattr(flower, "_client", never)
    monkeypatch.setattr(flower, "PULL_SECONDS", 0.0)
    defaults = inflatable_utils.pull_and_inflate_object_from_tree.__kwdefaults__
    assert defaults["max_time"] > 3600
    monkeypatch.setitem(defaults, "max_time", defaults["max_time"])  # put back afterwards
    (tmp_path / "secret").write_bytes(b"x" * 32)
    with pytest.raises(InterruptedError):
        flower.serve_tasks("127.0.0.1:1", tmp_path / "secret", "north", tmp_path / "socket")
    tree = get_object_tree(RecordDict({}))
    with pytest.raises(ObjectPullError, match="timeout"):
        inflatable_utils.pull_and_inflate_object_from_tree(tree, unavailable, unavailable)


# ------------------------------------------------------------------------------------ all methods
@pytest.mark.parametrize(("method", "schema"), SEVERAL)
def test_every_method_over_flower_s_app_is_what_it_is_in_one_process(method, schema):
    """As over FLARE's network; here the app passes messages on, and the grid is in memory."""
    inner = world(method, schema, dp_model=DPModel.NONE)
    nodes = {k: node(name, handle) for k, (name, handle) in enumerate(handles(inner).items(), 11)}
    transport = NamedExchange(NAMES, SiteGrid(Grid(nodes)).ask)
    assert grown(method, over(transport, inner))[0].model.to_dict() == directly(method, schema)
