"""Tests never depend on how fast the machine happens to be."""

from hypothesis import settings

settings.register_profile("hedgerow", deadline=None)
settings.load_profile("hedgerow")
