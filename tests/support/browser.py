"""A headless Chromium that may reach no network; tests are skipped where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.effort import LONG


def program() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for found in map(shutil.which, names) if found), None)


@contextmanager
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    place = program()
    if place is None:
        pytest.skip("Chromium is not installed: none of its names is on the path")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(
            executable_path=place, args=["--no-sandbox"], timeout=1000 * LONG
        )
        try:
            yield opened
        finally:
            opened.close()


class Watched:
    """A page whose complaints and requests are kept."""

    def __init__(self, browser: Any, address: str, **how: Any) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(**how)
        self.page.set_default_timeout(1000 * LONG)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)


def keep_picture(page: Any, path: Path) -> None:
    """A screenshot for the documentation, as small as pictures of the gallery are kept."""
    from docs.make_gallery import small

    path.write_bytes(small(page.screenshot()))


def keep_shot(page: Any, name: str) -> None:
    """A picture of the whole page for people, in the folder that HEDGEROW_SHOTS names."""
    if folder := os.environ.get("HEDGEROW_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
