"""Tests never depend on how fast the machine happens to be."""

import os

from hypothesis import settings

for library in ("OPENBLAS", "OMP"):
    # Workers share the cores; threads of a library would only wait for each other, at full speed.
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

settings.register_profile("hedgerow", deadline=None)
settings.load_profile("hedgerow")
