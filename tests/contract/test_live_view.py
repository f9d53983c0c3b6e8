"""The live view: it follows a run in a real browser, and answers nobody without its token."""

from __future__ import annotations

from http.client import HTTPConnection

import pytest

from contract.browser import Watched, chromium
from contract.study_world import World
from hedgerow.agreement.live import live_view
from hedgerow.agreement.running import run_study


def asked(view, path, method="GET", host=None):
    connection = HTTPConnection(view.host, timeout=10)
    try:
        connection.request(method, path, headers={"Host": host or view.host})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_browser_sees_a_run_from_its_beginning_to_its_end(tmp_path):
    world = World(tmp_path, placement="shares")
    try:
        with chromium() as browser, live_view("wards") as view:
            watched = Watched(browser, view.address)
            events = []
            model = run_study(
                world.folder, world, listen=lambda e: (events.append(e), view.tell(e))
            )
            page = watched.page
            page.wait_for_function(
                "document.querySelector('#live-state').textContent == 'finished'"
            )
            assert page.locator("#live-events li").count() == len(events)
            rounds = [event for event in events if event["event"] == "round"]
            assert page.locator("#live-rounds").inner_text().startswith(str(len(rounds)))
            spent = model.privacy_.spent_fraction
            assert page.locator("#live-spent").inner_text() == f"{100 * spent:.1f} %"
            assert watched.complaints == []
            assert all(url.startswith(f"http://{view.host}/") for url in watched.requests)
    finally:
        world.close()


def test_nobody_is_answered_without_the_token_or_under_another_name():
    with live_view("wards") as view:
        assert asked(view, f"/?token={view.token}") == 200
        assert asked(view, "/") == 403
        assert asked(view, "/events?token=guess") == 403
        assert asked(view, f"/events?token={view.token[:-1]}") == 403
        assert asked(view, f"/?token={view.token}", host="evil.example") == 403
        assert asked(view, f"/model.json?token={view.token}") == 404
        assert asked(view, f"/?token={view.token}", method="POST") == 501
        assert view.host.startswith("127.0.0.1:")


def test_who_comes_late_is_told_everything_and_the_end_ends_the_stream():
    with live_view("wards") as view:
        view.tell({"time": 1.0, "event": "begun", "study": "x"})
        stream = view.stream()
        assert next(stream)["event"] == "begun"
    assert list(stream) == []


@pytest.mark.parametrize("name", ["</script><b>", 'a"b'])
def test_the_name_of_a_study_stays_text(name):
    from hedgerow.report.page.live import live_page

    page = live_page(name)
    assert "<b>" not in page
    assert page.count("</script>") == 1
