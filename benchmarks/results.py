"""What benchmarks and plays of faults measured: one file, results.json, by part and by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("results.json")


def read(part: str) -> dict[str, Any]:
    """By name, what was measured; nothing if nothing was."""
    return dict(_all().get(part, {}))


def write(part: str, found: Mapping[str, Any]) -> None:
    """The part anew."""
    _store({**_all(), part: dict(found)})


def add(part: str, name: str, found: Any) -> None:
    """One name of a part; what another process has added meanwhile stays."""
    write(part, {**read(part), name: found})


def _all() -> dict[str, dict[str, Any]]:
    if not FILE.exists():
        return {}
    known: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return known


def _store(parts: Mapping[str, Mapping[str, Any]]) -> None:
    """A line for each name, so that a change can be read."""
    texts = []
    for part in sorted(parts):
        found = parts[part].items()
        lines = [f"  {json.dumps(name)}: {json.dumps(one, sort_keys=True)}" for name, one in found]
        texts.append(f" {json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n }")
    FILE.write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")
