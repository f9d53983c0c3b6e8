"""A new study from a few answers, as a file that people then read, correct and circulate."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.study_file import VERSION, StudyFile, as_text
from hedgerow.errors import ParameterError
from hedgerow.privacy.accounting.budget import written_number
from hedgerow.schema.schema import Schema
from hedgerow.secagg.keys import Identity


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
) -> StudyFile | None:
    """Writes study.toml and a new key for the coordinator; nothing remains if it is invalid.

    None where sites have no keys yet and are to be invited.
    """
    content = {
        "version": VERSION,
        "name": name,
        "public_seed": public_seed,
        "model": {"estimator": estimator, "parameters": dict(parameters)},
        "schema": Schema.from_toml(schema).to_dict(),
        **declarations,
        "site": [{"name": site, "key": key} for site, key in sites.items()],
    }
    run_folder, identity = RunFolder.create(folder)
    content["coordinator"] = {"key": identity.public.hex()}
    try:
        text = study_text(content, run_folder.study_file)
    except BaseException:
        run_folder.key_file.unlink()
        raise
    run_folder.study_file.write_text(text, encoding="utf-8")
    return StudyFile.read(run_folder.study_file) if all(sites.values()) else None


def study_text(content: dict[str, Any], path: Path) -> str:
    """The commented file of a study, checked; keys that are not known yet stay empty in it."""
    unknown = [role for role in (*content["site"], content["coordinator"]) if not role["key"]]
    for role in unknown:
        role["key"] = Identity.generate().public.hex()
    text = as_text(StudyFile.checked(content, path))
    for role in unknown:
        text = text.replace(f'"{role["key"]}"', '""  # `hedgerow study invite` writes it')
    return text


def site_names(folder: RunFolder) -> list[str]:
    """The sites that a study names, with or without keys."""
    return [str(site.get("name")) for site in _tables(folder).get("site", [])]


def fill_roster(folder: RunFolder, keys: Mapping[str, str]) -> StudyFile:
    """Writes the coordinator's key and those of enrolled sites into study.toml."""
    content = _tables(folder)
    if any(site.get("key", "") not in ("", keys.get(site["name"])) for site in content["site"]):
        raise ParameterError(
            f"{folder.study_file} names other keys than these sites enrolled with; nothing was "
            "written. Ask the sites out of band (telephone), then correct the file."
        )
    content["coordinator"] = {"key": folder.own_identity().public.hex()}
    known = {site["name"]: site for site in content["site"]}
    content["site"] = [{**known.get(name, {}), "name": name, "key": keys[name]} for name in keys]
    study_file = StudyFile.checked(content, folder.study_file)
    fresh = folder.study_file.with_name("study.toml.new")
    fresh.write_text(as_text(study_file), encoding="utf-8")
    fresh.replace(folder.study_file)
    return StudyFile.read(folder.study_file)


def _tables(folder: RunFolder) -> dict[str, Any]:
    try:
        content = tomllib.loads(folder.study_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ParameterError(f"{folder.study_file} cannot be read ({error}); correct it.") from None
    sites = content.setdefault("site", [])
    if not isinstance(sites, list) or not all(isinstance(site, dict) for site in sites):
        raise ParameterError(f"{folder.study_file}: site is no list of tables; write [[site]].")
    return content


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
    """`north=KEY`, or `north` for a site that is to be invited."""
    name, _, key = text.partition("=")
    return name.strip(), key.strip()


def typed_number(text: str, name: str = "the number") -> int | float | str:
    """The number as typed: a whole number, a decimal, or a fraction like 1/3."""
    written_number(text, name)
    if "/" in text:
        return text
    return int(text) if text.isdigit() else float(text)
