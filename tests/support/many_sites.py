"""Hundreds of real sites in one test: what all of them check, the same public bytes, is kept."""

from __future__ import annotations

import functools

import pytest

from hedgerow.secagg import envelope, keys, membership, opening
from hedgerow.secagg.messages import Open


@pytest.fixture
def remembered(monkeypatch):
    """All sites check the same public bytes: do it once, for the test's sake only."""
    once = functools.cache(keys.verify)
    for room in (envelope, opening):
        monkeypatch.setattr(room, "verify", once)
    read_open, kept = functools.cache(Open.read), {}
    monkeypatch.setattr(Open, "read", lambda body: read_open(bytes(body)))

    def once_a_run(step):
        def remembering(what, *rest):
            key = (step, what if isinstance(what, bytes) else rest[0])
            if key not in kept:
                kept[key] = step(what, *rest)
            return kept[key]

        return remembering

    monkeypatch.setattr(membership, "read_keys", once_a_run(membership.read_keys))
    monkeypatch.setattr(membership, "form_epoch", once_a_run(membership.form_epoch))
