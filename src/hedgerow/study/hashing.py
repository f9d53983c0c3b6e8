"""The one hash of a study's content: headers, accounts and approvals all use it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def content_hash(content: Mapping[str, Any]) -> bytes:
    """Over parsed content: order and spelling do not matter, values and versions do."""
    text = json.dumps(without_floats(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"hedgerow/study/2/" + text.encode()).digest()


def without_floats(value: Any) -> Any:
    """The same content without floats, whose spelling is not the same everywhere."""
    if isinstance(value, float):
        numerator, denominator = value.as_integer_ratio()
        return f"{numerator}/{denominator}"
    if isinstance(value, Mapping):
        return {key: without_floats(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_floats(part) for part in value]
    return value
