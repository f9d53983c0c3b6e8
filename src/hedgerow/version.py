"""The release this is: the wheel and every model file carry it."""

__version__ = "0.1.0"
