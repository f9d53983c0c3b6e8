"""A study as a commented file."""

from __future__ import annotations

import json
from typing import Any

from hedgerow.agreement.study_file import StudyFile
from hedgerow.values.schema import Schema

HEADING = """\
# What all parties of this study agree on. Its content has the hash that sites approve: change
# anything but [timing] and [about], and everybody has to approve it anew.
"""
MODEL_HEADING = "# An estimator of hedgerow, and those of its parameters that are not its defaults."
SCHEMA_HEADING = """\
# Public facts: ranges, categories and classes that are known without looking at a row.
# `file = "schema.toml"` instead takes them from a file beside this one.\
"""
PRIVACY_HEADING = """\
# The promise. `unit = "person"` makes each site keep `records_per_person` records of a person.
# `placement`: shares (each site adds a part of the noise), silo (each adds enough for itself),
# label (labels are told at random), nowhere (no noise, no promise).
# `retry_reserve` is the part of the budget that pays for rounds that fail.\
"""
SUM_HEADING = """\
# `threshold`: the fewest sites whose sum may be opened. `colluders`: how many sites may work with
# the coordinator without breaking the promise. `slot_seconds`: replies leave at the end of a slot,
# so that their time does not tell how many records a site has; 0 does not protect that.\
"""
EVALUATION_HEADING = """\
# One record in `hold_out` is kept out of training, by a secret draw of its own; the last round asks
# these how good the model is. They pay for nothing else.\
"""
SITES_HEADING = (
    "# Every site's public key, as `hedgerow site init` shows it, compared by telephone."
)
TIMING_HEADING = """\
# The coordinator's own, not part of the agreement: seconds for one exchange, how often the silent
# are asked again before a round goes on without them, how long a run waits while too few are
# there, how often a lost site is asked whether it is back.\
"""


ABOUT_HEADING = """\
# For readers of the model, not part of the agreement: who publishes it, for what, where and when.\
"""


def as_text(agreed: StudyFile) -> str:
    """The whole study, schema included; reading it again gives the same hash."""
    content = agreed.model_dump(by_alias=True, exclude_none=True)
    parts = [
        HEADING + _lines({name: content[name] for name in ("version", "name", "public_seed")}),
        f"{MODEL_HEADING}\n[model]\n" + _lines({"estimator": agreed.model.estimator}),
        "[model.parameters]\n" + _lines(agreed.model.parameters),
        f"{SCHEMA_HEADING}\n{_schema(agreed.schema_given)}",
        f"{PRIVACY_HEADING}\n[privacy]\n{_lines(content['privacy'])}",
        f"{SUM_HEADING}\n[sum]\n{_lines(content['sum'])}",
        *_evaluation(content),
        f"[coordinator]\n{_lines(content['coordinator'])}",
        SITES_HEADING + "\n" + "\n".join(f"[[site]]\n{_lines(one)}" for one in content["site"]),
        f"{TIMING_HEADING}\n[timing]\n{_lines(content['timing'])}",
        *([f"{ABOUT_HEADING}\n[about]\n{_lines(content['about'])}"] if "about" in content else []),
    ]
    return "\n".join(parts)


def _evaluation(content: dict[str, Any]) -> list[str]:
    if "evaluation" not in content:
        return []
    return [f"{EVALUATION_HEADING}\n[evaluation]\n{_lines(content['evaluation'])}"]


def _schema(schema: Schema) -> str:
    """Its own TOML, one table deeper."""
    lines = schema.to_toml().rstrip().split("\n")
    inner = [line.replace("[[", "[[schema.", 1) if _is_header(line) else line for line in lines]
    deeper = [f"[schema.{line[1:]}" if _is_table(line) else line for line in inner]
    return "\n".join(["[schema]", *deeper, ""])


def _is_header(line: str) -> bool:
    return line.startswith("[[") and line.endswith("]]") and " " not in line


def _is_table(line: str) -> bool:
    return line.startswith("[") and not line.startswith("[[") and line.endswith("]")


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
