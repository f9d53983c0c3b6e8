"""The file a model lives in: JSON that says what it is, how it is written, and what it held.

    {"format": "hedgerow-model", "version": 3, "release": "0.1.0", "digest": ..., "content": {...}}

`digest` is over the content as it is read, so spelling does not matter and every number does. It
finds damage and careless edits; it is no signature, since whoever edits can count it anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from hedgerow.errors import DataError, SpecError
from hedgerow.version import __version__

FORMAT = "hedgerow-model"
FORMAT_VERSION = 3
BESIDE = ("signed", "evaluation")
FILE_ENTRIES = ("format", "version", "release", "digest", "content")
HEAD = 200
"""Characters within which a file says that it is a model, even if the rest is lost."""


def write(path: str | Path, content: dict[str, Any], **beside: dict[str, Any] | None) -> None:
    """Writes beside the target and renames, so that a full disk leaves no half a model.

    What stands `beside` the content leaves its digest as it is: `signed` vouches for a networked
    model (agreement/signing.py), `evaluation` is what was measured of it afterwards.
    """
    check_place(path)
    target = Path(path)
    document = sealed(content) | {name: one for name, one in beside.items() if one is not None}
    half = target.with_name(target.name + ".part")
    try:
        half.write_text(
            json.dumps(document, separators=(",", ":"), allow_nan=False), encoding="utf-8"
        )
        os.replace(half, target)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise SpecError(
            f"{path} cannot be written: {error.strerror}; give the path of a file that may be."
        ) from error


def check_place(path: str | Path) -> None:
    """Refuses a place where no model can be written; before a fit, so that none is lost."""
    target = Path(path)
    if not target.parent.is_dir():
        raise SpecError(
            f"{str(target.parent)!r} is no folder, so no model can be saved as {target.name!r} "
            "in it; make the folder first, or give another path."
        )
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        found = "is a folder" if target.is_dir() else "is in a folder that may not be written"
        raise SpecError(
            f"{path} cannot be written, since it {found}; give the path of a file that may be."
        )


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "release": __version__,
        "digest": digest_of(content),
        "content": content,
    }


def digest_of(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"hedgerow/model/3/" + text.encode()).hexdigest()


def read(path: str | Path) -> dict[str, Any]:
    """The content that `write` was given."""
    content: dict[str, Any] = opened(path)["content"]
    return content


def opened(path: str | Path) -> dict[str, Any]:
    """The whole file, whose content is as it was written; else a DataError says what was found."""
    document = _parsed(path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f"{path} is no hedgerow model; give a file written by save().")
    _check_version(path, document)
    check_entries(path, document, FILE_ENTRIES)
    if document["digest"] != digest_of(document["content"]):
        raise DataError(
            f"{path} was changed after it was written: its content does not match its digest. "
            "Use an untouched copy, or fit and save the model again."
        )
    return document


def add(path: str | Path, name: str, what: dict[str, Any]) -> None:
    """Puts something beside the content of a file that is there; all else stays."""
    document = opened(path)
    others = {one: document.get(one) for one in BESIDE}
    write(path, document["content"], **others | {name: what})


def check_entries(path: str | Path, table: Any, names: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise DataError(f"{path} holds a {type(table).__name__} where a table belongs; {AGAIN}")
    absent = [name for name in names if name not in table]
    if absent:
        raise DataError(f"{path} lacks {absent}; {AGAIN}")


AGAIN = "use an untouched copy, or fit and save the model again."


def _parsed(path: str | Path) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check the path.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no JSON text; give a file written by save().") from error
    try:
        return json.loads(text)
    except ValueError as error:
        if f'"{FORMAT}"' in text[:HEAD]:
            raise DataError(f"{path} is a model file that is cut short or torn; {AGAIN}") from error
        raise DataError(f"{path} is no JSON text; give a file written by save().") from error


def _check_version(path: str | Path, document: dict[str, Any]) -> None:
    version, release = document.get("version"), document.get("release", "before 0.1.0")
    if version == FORMAT_VERSION:
        return
    newer = isinstance(version, int) and version > FORMAT_VERSION
    todo = "update hedgerow" if newer else "fit and save the model again with this release"
    raise DataError(
        f"{path} has format version {version!r}, written by hedgerow {release}; hedgerow "
        f"{__version__} reads version {FORMAT_VERSION}. To use it, {todo}."
    )
