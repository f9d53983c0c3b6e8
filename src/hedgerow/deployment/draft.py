"""A new study from a few answers, as a file that people then read, correct and send round."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.study_file import VERSION, StudyFile, as_text
from hedgerow.errors import SpecError
from hedgerow.privacy.accounting.budget import written_number
from hedgerow.schema.schema import Schema


def draft(
    folder: Path,
    *,
    name: str,
    estimator: str,
    parameters: Mapping[str, Any],
    schema: Path,
    declared: Mapping[str, Mapping[str, Any]],
    sites: Mapping[str, str],
    public_seed: int,
) -> StudyFile:
    """Writes study.toml and a new key for the coordinator; nothing is left if it makes no sense."""
    public = Schema.from_toml(schema)
    made, identity = RunFolder.create(folder)
    try:
        found = StudyFile.checked(
            {
                "version": VERSION,
                "name": name,
                "public_seed": public_seed,
                "model": {"estimator": estimator, "parameters": dict(parameters)},
                "schema": public.to_dict(),
                **declared,
                "coordinator": {"key": identity.public.hex()},
                "site": [{"name": site, "key": key} for site, key in sites.items()],
            },
            made.study_file,
        )
        made.study_file.write_text(as_text(found), encoding="utf-8")
    except BaseException:
        made.key_file.unlink()
        raise
    return StudyFile.read(made.study_file)


def typed_parameter(text: str) -> tuple[str, Any]:
    """`max_depth=3`: the value as TOML or JSON would say it, else as a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SpecError(f"{text!r} is no parameter; write name=value.")
    return name.strip(), typed_value(value)


def typed_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def site(text: str) -> tuple[str, str]:
    """`north=KEY`."""
    name, equals, key = text.partition("=")
    if not equals:
        raise SpecError(f"{text!r} is no site; write its name, =, and its public key.")
    return name.strip(), key.strip()


def typed_number(text: str) -> int | float | str:
    """As it was typed: a whole number, a decimal one, or a fraction such as 1/3."""
    written_number(text, "the number")
    if "/" in text:
        return text
    return int(text) if text.isdigit() else float(text)
