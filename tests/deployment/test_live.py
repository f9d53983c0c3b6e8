"""The live view: it follows a run in a real browser, and answers nobody without its token."""

from __future__ import annotations

import json
import os
import re
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from importlib.resources import files
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.cli.study import _listeners as study_listeners
from hedgerow.deployment.live import Follower, RunTeller, SiteTeller, follow, live_view
from hedgerow.deployment.progress import SITES_EVENT, WITHOUT, Watch
from hedgerow.deployment.run import run_study
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.serve import Service
from hedgerow.federation.audit_log import ignore_line
from hedgerow.federation.exchange import Quorum, hand_over
from hedgerow.federation.transports.frames import connect_unix
from hedgerow.privacy.statement.record import Progress
from hedgerow.report.view import words_on
from support.browser import Watched, chromium, keep_picture, keep_shot
from support.effort import LONG
from support.network import Direct
from support.network import World as Consortium
from support.worlds import World

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def asked(view, path, method="GET", host=None):
    connection = HTTPConnection(view.host, timeout=LONG)
    try:
        connection.request(method, path, headers={"Host": host or view.host})
        return connection.getresponse().status
    finally:
        connection.close()


def watched_run(tmp_path, page_of, **terms):
    """A whole run of three sites under the eyes of a browser; `page_of` looks at its end."""
    world = World(tmp_path, dp_model="distributed", **terms)
    try:
        with chromium() as browser, live_view("wards", RunTeller()) as view:
            watched = Watched(browser, view.address, viewport={"width": 1280, "height": 1000})
            events = []
            tell = lambda e: (events.append(e), view.tell(e))  # noqa: E731
            model = run_study(world.folder, world, listen=tell, show_trees=True)
            watched.page.locator("#live-state:text-is('finished')").wait_for(state="attached")
            page_of(watched, events, model, view)
    finally:
        world.close()


def paths_on(page) -> set[tuple[str, ...]]:
    """Every node of the growing tree by the words that lead to it."""
    script = """(nodes) => nodes.map((node) => {
        const words = [];
        for (let at = node; at && at.className === 'node'; at = at.parentElement.closest('.node'))
            words.unshift(at.firstChild.textContent);
        return words;
    })"""
    return {tuple(path) for path in page.locator("#live-tree .node").evaluate_all(script)}


def prefixes(paths) -> set[tuple[str, ...]]:
    return {tuple(path[: k + 1]) for path in paths for k in range(len(path))}


@pytest.mark.browser
def test_a_browser_sees_a_run_from_its_beginning_to_its_end(tmp_path):
    def look(watched, events, model, view):
        page = watched.page
        kept = [event for event in events if event["event"] != SITES_EVENT]
        assert len(kept) < len(events)  # states of sites are shown beside, and are no lines
        assert page.locator("#live-events li").count() == len(kept)
        rounds = [event for event in events if event["event"] == "round"]
        assert page.locator("#live-rounds").inner_text().startswith(str(len(rounds)))
        spent = model.privacy_.spent_fraction
        assert page.locator("#live-spent").inner_text() == f"{100 * spent:.1f} %"
        told = [path for event in rounds for path in event["paths"]]
        assert paths_on(page) == prefixes(told)
        leaves = {
            tuple(words_on(model.schema_, region[: k + 1], step.test.feature)
                  for k, step in enumerate(region))
            for region in model.model_.score.trees[0].regions()
        }  # fmt: skip
        assert leaves - {()} <= paths_on(page)
        assert watched.complaints == []
        assert all(url.startswith(f"http://{view.host}/") for url in watched.requests)

    watched_run(tmp_path, look, epsilon="80")


BOOSTED = """estimator = "ComponentBoostingClassifier"
[model.parameters]
n_estimators = 3
max_depth = 2"""


@pytest.mark.browser
def test_of_boosted_trees_a_browser_sees_the_newest(tmp_path):
    def look(watched, events, model, view):
        newest = model.model_.score.trees[-1]
        assert paths_on(watched.page) == prefixes(
            [words_on(model.schema_, region[: k + 1], step.test.feature)
             for k, step in enumerate(region)]
            for region in newest.regions()
        )  # fmt: skip
        rounds = [event for event in events if event["event"] == "round"]
        assert [event["is_new_tree"] for event in rounds] == [True] * 3

    watched_run(tmp_path, look, epsilon="80", model=BOOSTED)


@pytest.mark.browser
@pytest.mark.skipif("HEDGEROW_PICTURES" not in os.environ, reason="pictures are made on request")
def test_the_picture_of_the_documentation(tmp_path):
    """HEDGEROW_PICTURES=1 makes it again; noise differs from run to run."""

    def picture(watched, events, model, view):
        watched.page.wait_for_timeout(3000)  # new questions are marked for a while
        keep_picture(watched.page, IMAGES / "live.png")

    watched_run(tmp_path, picture, epsilon="8")


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_live_page_passes_axe(scheme):
    pytest.importorskip("axe_core_python")
    script = files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    round = {"time": 2.0, "event": "round", "round": 1, "of": 3, "sites": 3, "seconds": 0.1}
    with chromium() as browser, live_view("wards", RunTeller()) as view:
        page = Watched(browser, view.address, color_scheme=scheme).page
        view.tell({"time": 1.0, "event": "begun", "study": "x"})
        told = {"paths": [["age < 40", "dose < 0.5"]], "is_new_tree": True}
        view.tell(round | {"bytes": 9, "spent": 0.25} | told)
        page.wait_for_selector("#live-tree .node .node")
        page.evaluate("document.getAnimations().forEach((one) => one.finish())")
        page.evaluate(script)
        found = page.evaluate("axe.run()")["violations"]
        assert [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found] == []


@pytest.mark.browser
def test_a_site_s_own_people_see_what_it_answers(tmp_path):
    """What `site serve --watch` shows, with real sites that serve a study."""
    world = Consortium(tmp_path, dp_model="distributed", lifetime="100")
    world.approve(world.study_file)
    with (
        chromium() as browser,
        live_view(world.sites[0].name, SiteTeller()) as view,
        ExitStack() as opened,
    ):
        page = Watched(browser, view.address).page
        tells = [view.tell, ignore_line, ignore_line]
        serving = [
            opened.enter_context(closing(Service(site, tell=tell)))
            for site, tell in zip(world.sites, tells, strict=True)
        ]
        transport = Direct(
            {s.name: one.daemon.handle for s, one in zip(world.sites, serving, strict=True)}
        )
        world.train(transport)
        serving[0].daemon.handle(b"no message")
        answered = len(world.lines(0, "round"))
        page.locator("#live-refused:text-is('1')").wait_for(state="attached")
        assert page.locator("#live-answered").inner_text() == str(answered)
        assert page.locator("#live-studies").inner_text() == "1"
        assert page.locator("#live-asked").inner_text() == "study"
        assert page.locator("#live-tree").count() == 0
        assert 0.0 < float(page.locator("#live-bar").get_attribute("width")) <= 620.0


def test_the_commands_know_how_to_be_watched():
    for words in (["study", "run"], ["study", "resume"], ["site", "serve"]):
        done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
        assert "--watch" in re.sub(r"\x1b\[[0-9;]*m", "", done.output)


def test_nobody_is_answered_without_the_token_or_under_another_name():
    with live_view("wards", RunTeller()) as view:
        assert asked(view, f"/?token={view.token}") == 200
        assert asked(view, "/") == 403
        assert asked(view, "/events?token=guess") == 403
        assert asked(view, f"/events?token={view.token[:-1]}") == 403
        assert asked(view, f"/?token={view.token}", host="evil.example") == 403
        assert asked(view, f"/model.json?token={view.token}") == 404
        assert asked(view, f"/?token={view.token}", method="POST") == 501
        assert view.host.startswith("127.0.0.1:")


def test_who_comes_late_is_told_everything_and_the_end_ends_the_stream():
    with live_view("wards", RunTeller()) as view:
        view.tell({"time": 1.0, "event": "begun", "study": "x"})
        stream = view.stream()
        assert next(stream).facts == {"state": "begun"}
    assert list(stream) == []


@pytest.mark.parametrize("name", ["</script><b>", 'a"b'])
def test_the_name_of_a_study_stays_text(name):
    from hedgerow.report.page.page import LivePart, live_page

    parts = [LivePart(name, RunTeller.facts, name, has_sites=True, has_tree=True)] * 2
    for shown in (parts[:1], parts):
        page = live_page(name, shown)
        assert "<b>" not in page
        assert page.count("</script>") == 1


# ----------------------------------------------------------------------------------- site by site
def watch_of(tmp_path, listen) -> Watch:
    files = (tmp_path / "events.jsonl", tmp_path / "stop")
    return Watch(*files, 5, 0, listen, show_trees=True)


def test_a_site_that_is_asked_again_is_slow_and_one_that_is_left_out_is_lost(tmp_path):
    heard = []
    with closing(watch_of(tmp_path, heard.append)) as watch:
        replies = [{0: b"a"}, {1: b"b"}, {}]

        def exchange(messages, accept, quorum):
            return hand_over(messages, replies.pop(0), accept)

        over = watch.over(exchange, ("north", "south", "west"))
        quorum = Quorum(lambda n: True)
        over({0: b"", 1: b"", 2: b""}, lambda site, answer: None, quorum)
        over({1: b"", 2: b""}, lambda site, answer: None, quorum)
        watch.hear(Progress(note=WITHOUT, sites=("west",)))
        over({0: b""}, lambda site, answer: None, quorum)
    states = [
        [event["sites"][name]["state"] for name in ("north", "south", "west")]
        for event in heard
        if event["event"] == SITES_EVENT
    ]
    assert states == [
        ["connecting", "connecting", "connecting"],
        ["waiting", "connecting", "connecting"],
        ["waiting", "slow", "slow"],
        ["waiting", "waiting", "slow"],
        ["computing", "waiting", "lost"],
        ["computing", "waiting", "lost"],
    ]
    assert '"event": "sites"' not in (tmp_path / "events.jsonl").read_text()  # shown, not kept
    seen = heard[-1]["sites"]
    assert seen["west"]["seen"] == 0.0 < seen["north"]["seen"]


def test_the_states_of_sites_are_in_a_file_of_their_own(tmp_path):
    heard = []
    files = (tmp_path / "events.jsonl", tmp_path / "stop")
    with closing(Watch(*files, 5, 0, heard.append, show_trees=False)) as watch:
        over = watch.over(lambda *_: {}, ("a", "b"))
        over({0: b""}, lambda site, answer: None, Quorum(lambda n: True))
    states = json.loads((tmp_path / "sites.json").read_text())["sites"]
    assert states == heard[-1]["sites"]
    assert [states[name]["state"] for name in "ab"] == ["connecting", "connecting"]


EACH_SITE = {
    "north": {"state": "waiting", "seen": 1_794_990_000.0},
    "south": {"state": "slow", "seen": 1_794_989_940.0},
    "west": {"state": "lost", "seen": 0.0},
}


def test_health_and_metrics_want_the_token_too(monkeypatch):
    monkeypatch.setenv("HEDGEROW_LIVE_TOKEN", "a-token-of-this-machine")
    with live_view("wards", RunTeller()) as view:
        assert view.address.endswith("token=a-token-of-this-machine")
        view.tell({"time": 1.0, "event": SITES_EVENT, "sites": EACH_SITE})
        for path in ("/health", "/metrics"):
            assert asked(view, path) == 403
            assert asked(view, f"{path}?token={view.token}") == 200
        lines = view.metrics().splitlines()
    assert 'hedgerow_site_late{site="south"} 1' in lines
    assert 'hedgerow_site_late{site="north"} 0' in lines
    assert "# TYPE hedgerow_run_rounds_total counter" in lines


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_sees_a_slow_and_a_lost_site(scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    with chromium() as browser, live_view("wards", RunTeller()) as view:
        size = {"width": 1100, "height": 900}
        watched = Watched(browser, view.address, viewport=size, color_scheme=scheme)
        round_event = {"time": 1.0, "event": "round", "round": 2, "of": 6, "sites": 2,
                       "seconds": 1.5, "bytes": 9, "spent": 0.25, "paths": [],
                       "is_new_tree": False}  # fmt: skip
        view.tell(round_event)
        view.tell({"time": 1.0, "event": SITES_EVENT, "sites": EACH_SITE})
        rows = watched.page.locator("#live-each-site tr")
        rows.nth(2).wait_for()
        assert [row.split("\t")[:2] for row in rows.all_inner_texts()] == [
            ["north", "waiting"], ["south", "slow"], ["west", "lost"],
        ]  # fmt: skip
        assert watched.page.locator("#live-left").inner_text() == "at most 3"
        assert watched.page.locator("#live-events li").count() == 1  # states are no lines
        watched.page.evaluate("document.getAnimations().forEach((one) => one.finish())")
        found = axe.run(watched.page)["violations"]
        keep_shot(watched.page, f"live-{scheme}")
    assert [one["id"] for one in found] == []
    assert watched.complaints == []


# ------------------------------------------------------------------------------ metrics of a socket
class UnixConnection(HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=LONG)
        self._path = path

    def connect(self):
        self.sock = connect_unix(str(self._path))


def get(path, where) -> tuple[int, str]:
    with closing(UnixConnection(path)) as connection:
        connection.request("GET", where)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_health_and_metrics_stand_on_a_socket_of_their_owner_alone(tmp_path):
    path = tmp_path.joinpath(*["a_folder_of_a_project"] * 6) / "metrics"  # deeper than an address
    path.parent.mkdir(parents=True)
    teller = RunTeller()
    with live_view("wards", teller, page=False, socket=path) as view:
        assert path.lstat().st_mode & 0o777 == 0o600
        view.tell({"time": 1.0, "event": SITES_EVENT, "sites": EACH_SITE})
        assert get(path, "/health") == (200, "ok\n")
        status, text = get(path, "/metrics")
        assert (status, 'hedgerow_site_late{site="west"} 1' in text) == (200, True)
        assert get(path, "/")[0] == get(path, "/events")[0] == 404  # for machines, no page
        assert view._events == []  # nobody looks: a service of months keeps none
    assert not path.exists()


def test_a_run_has_metrics_without_being_asked_for_them(tmp_path):
    """As the commands start them: the socket is there while they run, and gone after."""
    world = World(tmp_path, dp_model="distributed")
    try:
        with study_listeners(world.folder, False, False) as heard_by:
            run_study(world.folder, world, listen=heard_by)
            status, text = get(world.folder.metrics, "/metrics")
        assert status == 200
        assert re.search(r"^hedgerow_run_rounds_total [1-9]", text, re.M)
        assert re.search(r"^hedgerow_site_late{site=.* 0$", text, re.M)
        assert not world.folder.metrics.exists()
    finally:
        world.close()


# --------------------------------------------------------------------------------- several studies
LINE = {"event": "round", "of": 6, "sites": 2, "seconds": 1.5, "bytes": 9, "spent": 0.25}


def write_run(folder, rounds, *ends) -> Follower:
    folder.mkdir()
    lines = [{"time": float(k), **LINE, "round": k} for k in range(1, rounds + 1)]
    lines += [{"time": 9.0, "event": end} for end in ends]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    sites = {"time": 1.0, "event": SITES_EVENT, "sites": EACH_SITE}
    (folder / "sites.json").write_text(json.dumps(sites))
    return Follower(RunFolder(folder))


def test_runs_of_other_processes_are_followed_line_by_line(tmp_path, monkeypatch):
    follower = write_run(tmp_path / "a", 2)
    events = list(follower.fresh())
    assert [e.get("round") for e in events] == [1, 2, None]
    assert events[2]["sites"] == EACH_SITE
    assert list(follower.fresh()) == []
    with (tmp_path / "a" / "events.jsonl").open("a") as file:
        file.write(json.dumps({"time": 3.0, **LINE, "round": 3}) + '\n{"half": ')
        file.flush()
        assert [e["round"] for e in follower.fresh()] == [3]
    monkeypatch.setattr("hedgerow.deployment.live.SILENT_SECONDS", -1.0)
    assert [e["event"] for e in follower.fresh()] == ["stopped"]  # nobody holds the folder
    done = write_run(tmp_path / "b", 1, "finished")
    assert [e["event"] for e in done.fresh()] == ["round", "finished", SITES_EVENT]


def test_a_run_that_ended_has_no_seconds_left():
    teller = RunTeller()
    assert teller.shown({"time": 1.0, **LINE, "round": 1}).facts["left"] != "none"
    assert teller.shown({"time": 2.0, "event": "finished"}).facts["left"] == "none"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_a_coordinator_sees_all_studies_in_a_list_that_folds(scheme, tmp_path):
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    followers = [write_run(tmp_path / "wards", 2), write_run(tmp_path / "loans", 6, "finished")]
    tellers = [RunTeller(name, has_tree=False) for name in ("wards", "loans")]
    with chromium() as browser, live_view("2 studies", *tellers) as view:
        size = {"width": 1100, "height": 900}
        watched = Watched(browser, view.address, viewport=size, color_scheme=scheme)
        stop = Event()
        stop.set()
        follow(view, followers, stop)
        page = watched.page
        page.locator("#live-state-1:text-is('finished')").wait_for()
        assert page.locator("#live-brief").inner_text() == "training, rounds: 2 of 6"
        assert page.locator("#live-brief-1").inner_text() == "finished, rounds: 6 of 6"
        assert page.locator("#live-each-site-1 tr").count() == 3
        page.locator("details.study > summary").nth(1).click()
        page.locator("#live-each-site-1").wait_for(state="hidden")
        found = axe.run(page)["violations"]
        keep_shot(page, f"studies-{scheme}")
        lines = view.metrics().splitlines()
    assert found == []
    assert 'hedgerow_run_rounds_total{study="loans"} 6' in lines
    assert 'hedgerow_site_late{study="wards",site="west"} 1' in lines


def test_what_is_no_study_is_not_watched(tmp_path):
    done = CliRunner().invoke(app, ["study", "watch", str(tmp_path)])
    assert "no study.toml" in str(done.exception)
