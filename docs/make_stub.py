"""`python docs/make_stub.py` writes src/hedgerow/__init__.pyi: public names for type checkers."""

from __future__ import annotations

from pathlib import Path

import hedgerow as hr

STUB = Path(hr.__file__).with_suffix(".pyi")
HEAD = '''"""Public names for type checkers, made by `python docs/make_stub.py`; a test compares."""

from types import SimpleNamespace

'''
MODULES = [("hedgerow.methods", "mlflow")]
"""Modules that are attributes of the package."""


def main() -> None:
    STUB.write_text(stub(), encoding="utf-8")


def stub() -> str:
    homes = [(getattr(hr, name).__module__, name) for name in hr.__all__] + MODULES
    lines = [f"from {home} import {name} as {name}\n" for home, name in sorted(homes)]
    return HEAD + "".join(lines) + "\n__version__: str\npapers: SimpleNamespace\n"


if __name__ == "__main__":
    main()
