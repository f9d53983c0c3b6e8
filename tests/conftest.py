"""Tests never depend on how fast the machine happens to be."""

import os

import pytest
from hypothesis import settings

for library in ("OPENBLAS", "OMP"):
    # Workers share the cores; threads of a library would only wait for each other, at full speed.
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

settings.register_profile("hedgerow", deadline=None)
settings.load_profile("hedgerow")


def pytest_configure(config: pytest.Config) -> None:
    """Tells `effort.py` which suite this is."""
    os.environ["HEDGEROW_TESTS"] = "short" if config.option.markexpr == "not slow" else "long"
