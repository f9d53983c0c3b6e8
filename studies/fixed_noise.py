"""Noise that is drawn the same way again, to compare two fits that differ in one thing.

For studies and tests alone: a model whose noise is known protects nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from types import SimpleNamespace
from unittest import mock

from hedgerow.data import site_rows
from hedgerow.privacy.mechanisms import coins
from studies import simulation


@contextmanager
def fixed_noise(first: int = 0) -> Iterator[None]:
    """The noise's and the folds' bytes in a fixed order. Others may ask the system for more."""
    calls = count(first)

    def known(n: int) -> bytes:
        return hashlib.shake_256(str(next(calls)).encode()).digest(n)

    system = SimpleNamespace(urandom=known)
    with ExitStack() as patched:
        for module in (coins, simulation, site_rows):
            patched.enter_context(mock.patch.object(module, "os", system))
        yield
