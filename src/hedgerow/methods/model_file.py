"""The model file: JSON with its format, its version, a digest and the content.

    {
    "format":"hedgerow-model",
    "version":6,
    "release":"0.1.0",
    "digest":...,
    "content":{...}
    }

`digest` covers the release and the content in canonical JSON, which is one line of the file: an
unchanged file is checked as it is, and a reformatted one is converted to canonical form first. So
formatting does not matter and every number does. A digest detects damage and careless edits; it is
no signature, since anybody can compute it again.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from hedgerow.errors import DataError, ParameterError
from hedgerow.version import __version__

MODEL_FORMAT = "hedgerow-model"
FORMAT_VERSION = 6
OLDEST_VERSION = 5
BESIDE = ("signed", "signer", "evaluation")
FILE_ENTRIES = ("format", "version", "release", "digest", "content")
CONTENT = b'\n"content":'
HEAD = 200
"""Characters within which a file identifies itself as a model, even if truncated."""


def write(path: str | Path, content: dict[str, Any], **beside: dict[str, Any] | None) -> None:
    """Writes a temporary file and renames it, so that a full disk leaves no partial model.

    Entries `beside` the content are not in its digest: `signed` has the signatures of a networked
    model and `signer` that of a model trained alone (deployment/verify.py), `evaluation` a later
    evaluation.
    """
    check_place(path)
    target, body = Path(path), _canonical_json(content)
    others = {name: entry for name, entry in beside.items() if entry is not None}
    head: dict[str, Any] = {
        "format": MODEL_FORMAT,
        "version": FORMAT_VERSION,
        "release": __version__,
    }
    head |= {"digest": _file_digest(__version__, body)} | others
    entries = {name: _canonical_json(entry) for name, entry in head.items()} | {"content": body}
    # one line per entry, so that the content can be found without parsing it
    names = (*FILE_ENTRIES, *others)
    lines = b",\n".join(b'"%s":%s' % (name.encode(), entries[name]) for name in names)
    half = target.with_name(target.name + ".part")
    try:
        half.write_bytes(b"{\n" + lines + b"\n}\n")
        os.replace(half, target)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise ParameterError(
            f"{path} cannot be written: {error.strerror}; give the path of a file that may be."
        ) from error


def check_place(path: str | Path) -> None:
    """Refuses an unwritable place before a fit, so that no trained model is lost."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ParameterError(
            f"{str(target.parent)!r} is no folder, so no model can be saved as {target.name!r} "
            "in it; make the folder first, or give another path."
        )
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        state = "is a folder" if target.is_dir() else "is in a folder that may not be written"
        raise ParameterError(
            f"{path} cannot be written, since it {state}; give the path of a file that may be."
        )


def _canonical_json(value: Any) -> bytes:
    """Canonical JSON: no spaces, ASCII only, entries in the order of their names."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def _file_digest(release: str, body: bytes) -> str:
    """The release's length comes first, so that the encoding is unambiguous."""
    head = f"hedgerow/model file/5/{len(release)}/{release}/"
    return hashlib.sha256(head.encode() + body).hexdigest()


def digest_of_file(document: dict[str, Any]) -> str:
    """The digest stated in the file."""
    return _file_digest(str(document["release"]), _canonical_json(document["content"]))


def digest_of(content: Any) -> str:
    """Digest of the model alone, the same in every file that contains it: this is signed."""
    return hashlib.sha256(b"hedgerow/model/5/" + _canonical_json(content)).hexdigest()


def read(path: str | Path) -> dict[str, Any]:
    """The content that `write` was given."""
    content: dict[str, Any] = open_document(path)["content"]
    return content


def open_document(path: str | Path) -> dict[str, Any]:
    """The whole document, if its content is intact; else raises a DataError."""
    text = _text(path)
    document_as_written = _parse_unchanged(text)
    document = _parse(path, text) if document_as_written is None else document_as_written
    if not isinstance(document, dict) or document.get("format") != MODEL_FORMAT:
        raise DataError(f"{path} is no hedgerow model; give a file written by save().")
    _check_version(path, document)
    check_entries(path, document, FILE_ENTRIES)
    try:
        is_whole = document_as_written is not None or document["digest"] == digest_of_file(document)
    except RecursionError:
        raise DataError(f"{path} {TOO_DEEP}") from None
    if not is_whole:
        raise DataError(
            f"{path} was changed after it was written: its content or its release does not match "
            "its digest. "
            "Use an untouched copy, or fit and save the model again."
        )
    return document


def _parse_unchanged(text: bytes) -> dict[str, Any] | None:
    """The document if it is byte for byte as `write` wrote it; else None.

    The content is read only from the line that the digest covers.
    """
    before, _, rest = text.partition(CONTENT)
    line, newline, after = rest.partition(b"\n")
    body = line.removesuffix(b",")
    parts = (before, CONTENT, b"null", line[len(body) :], newline, after)
    try:
        document = json.loads(b"".join(parts))
        if document["content"] is None and document["digest"] == _file_digest(
            str(document["release"]), body
        ):
            return {**document, "content": json.loads(body)}
    except (ValueError, TypeError, LookupError, RecursionError):
        pass  # parsed as a whole instead, which reports the error
    return None


def add(path: str | Path, name: str, entry: dict[str, Any]) -> None:
    """Adds an entry beside the content of an existing file; the rest is unchanged."""
    document = open_document(path)
    others = {entry_name: document.get(entry_name) for entry_name in BESIDE}
    write(path, document["content"], **others | {name: entry})


def check_entries(path: str | Path, table: Any, names: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise DataError(f"{path} holds a {type(table).__name__} where a table belongs; {AGAIN}")
    absent = [name for name in names if name not in table]
    if absent:
        raise DataError(f"{path} lacks {absent}; {AGAIN}")


TOO_DEEP = "has tables within tables, deeper than any model; give a file written by save()."
AGAIN = "use an untouched copy, or fit and save the model again."


def _text(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check the path.") from error


def _parse(path: str | Path, text: bytes) -> Any:
    try:
        return json.loads(text.decode())
    except ValueError as error:
        if f'"{MODEL_FORMAT}"'.encode() in text[:HEAD]:
            raise DataError(f"{path} is a model file that is cut short or torn; {AGAIN}") from error
        raise DataError(f"{path} is no JSON text; give a file written by save().") from error
    except RecursionError:
        raise DataError(f"{path} {TOO_DEEP}") from None


def _check_version(path: str | Path, document: dict[str, Any]) -> None:
    version, release = document.get("version"), document.get("release", "before 0.1.0")
    if isinstance(version, int) and OLDEST_VERSION <= version <= FORMAT_VERSION:
        return
    newer = isinstance(version, int) and version > FORMAT_VERSION
    todo = "update hedgerow" if newer else "fit and save the model again with this release"
    raise DataError(
        f"{path} has format version {version!r}, written by hedgerow {release}; hedgerow "
        f"{__version__} reads versions {OLDEST_VERSION} to {FORMAT_VERSION}. To use it, {todo}."
    )
