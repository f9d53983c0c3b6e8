"""A new study from a few answers, as a file that people then read, correct and send round."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.study_file import VERSION, StudyFile, as_text
from hedgerow.errors import ParameterError
from hedgerow.privacy.accounting.budget import written_number
from hedgerow.schema.schema import Schema


def draft(
    folder: Path,
    *,
    name: str,
    estimator: str,
    parameters: Mapping[str, Any],
    schema: Path,
    declarations: Mapping[str, Mapping[str, Any]],
    sites: Mapping[str, str],
    public_seed: int,
) -> StudyFile:
    """Writes study.toml and a new key for the coordinator; nothing is left if it makes no sense."""
    public = Schema.from_toml(schema)
    run_folder, identity = RunFolder.create(folder)
    try:
        study_file = StudyFile.checked(
            {
                "version": VERSION,
                "name": name,
                "public_seed": public_seed,
                "model": {"estimator": estimator, "parameters": dict(parameters)},
                "schema": public.to_dict(),
                **declarations,
                "coordinator": {"key": identity.public.hex()},
                "site": [{"name": site, "key": key} for site, key in sites.items()],
            },
            run_folder.study_file,
        )
        run_folder.study_file.write_text(as_text(study_file), encoding="utf-8")
    except BaseException:
        run_folder.key_file.unlink()
        raise
    return StudyFile.read(run_folder.study_file)


def typed_parameter(text: str) -> tuple[str, Any]:
    """`max_depth=3`: the value as TOML or JSON, else as a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ParameterError(f"{text!r} is no parameter; write name=value.")
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
        raise ParameterError(f"{text!r} is no site; write its name, =, and its public key.")
    return name.strip(), key.strip()


def typed_number(text: str) -> int | float | str:
    """The number as typed: a whole number, a decimal, or a fraction like 1/3."""
    written_number(text, "the number")
    if "/" in text:
        return text
    return int(text) if text.isdigit() else float(text)
