"""Cards for other programs and authorities, all written from one table of facts.

A fact is a text from a fitted model's privacy statement, schema or digest. Each was released with
noise or is public, so no exact count of records is among them.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

from hedgerow.privacy.statement.record import About, Curator
from hedgerow.privacy.statement.spending import Part
from hedgerow.privacy.statement.wording import meaning_words
from hedgerow.report.evaluation import kept_evaluation, measure_name
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.schema import Schema
from hedgerow.version import __version__

FACTS = {
    "guarantee": "privacy_.summary",
    "epsilon": "privacy_.epsilon",
    "delta": "privacy_.delta",
    "unit": "privacy_.unit",
    "neighbors": "privacy_.neighbors",
    "dp_model": "privacy_.dp_model",
    "mechanisms": "privacy_.mechanisms",
    "accountant": "privacy_.accountant",
    "randomness": "privacy_.randomness",
    "trust": "privacy_.trust",
    "total_guarantee": "privacy_.total.summary",
    "sites": "privacy_.n_sites",
    "schema_source": "privacy_.schema_source",
    "unprotected": "privacy_.unprotected",
    "caveats": "privacy_.caveats",
    "model_digest": "model_.score.digest",
    "release": "privacy_.release",
    "source": "privacy_.source",
    "curators": "privacy_.about.curators",
    "intended_use": "privacy_.about.intended_use",
    "region": "privacy_.about.region",
    "sector": "privacy_.about.sector",
    "publication_date": "privacy_.about.publication_date",
}
"""Each fact, and the attribute of a fitted model that holds it."""

BY_PROVIDER = "For the provider to write: no statement knows it."
ANNEX_IV = (
    ("1(a)", "Intended purpose, provider, version", "intended_use curators release model_digest"),
    ("1(b)", "Interaction with hardware and software", ""),
    ("1(c)", "Versions of software", "release source"),
    ("1(d)-(h)", "Forms of delivery, hardware, user interface, instructions for use", ""),
    ("2(a)", "Methods and steps of development", "accountant total_guarantee"),
    ("2(b)", "Design specifications and choices", "dp_model mechanisms randomness guarantee unit"),
    ("2(c)", "System architecture", "sites trust"),
    ("2(d)", "Data requirements and provenance", "unit neighbors schema_source"),
    ("2(e)", "Human oversight", ""),
    ("2(f)", "Pre-determined changes", ""),
    ("2(g)", "Validation and testing", ""),
    ("2(h)", "Cybersecurity", "trust randomness source"),
    ("3", "Capabilities, limitations, risks to rights", "guarantee unprotected caveats region"),
    ("4", "Appropriateness of the metrics", ""),
    ("5", "Risk management system (Article 9)", ""),
    ("6", "Changes through the lifecycle", ""),
    ("7", "Harmonized standards applied", ""),
    ("8", "EU declaration of conformity", ""),
    ("9", "Post-market monitoring (Article 72)", ""),
)
"""Points of Annex IV of Regulation (EU) 2024/1689, and the facts that answer them."""
MEASURED_POINT = "2(g)"


def facts_of(model: Any) -> dict[str, str]:
    """The facts of a fitted model as texts; those not stated are omitted."""
    facts = {name: reduce(_part, source.split("."), model) for name, source in FACTS.items()}
    return {name: _text(value) for name, value in facts.items() if value not in (None, ())}


def _part(value: Any, attribute: str) -> Any:
    return None if value is None else getattr(value, attribute)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "; ".join(map(_entry, value))
    return "infinity" if value == math.inf else str(value)


def _entry(value: Any) -> str:
    if isinstance(value, Part):
        return f"{value.what} ({value.part:.1%} of the budget)"
    if isinstance(value, Curator):
        return value.name
    return f"{value[0]}: {value[1]}" if isinstance(value, tuple) else str(value)


def meanings(model: Any) -> list[str]:
    """The meaning of the guarantee for one person."""
    return meaning_words(model.privacy_.meaning, model.privacy_.unit)


def column_words(grid: Grid) -> str:
    """'age: a number from 0 to 110'."""
    if grid.kind is ColumnKind.NUMERIC:
        is_open = math.isinf(grid.low) or math.isinf(grid.high)
        return "a number" if is_open else f"a number from {grid.low:g} to {grid.high:g}"
    if grid.kind is ColumnKind.HASHED:
        return f"a text, hashed to {len(grid.values)} buckets"
    return f"one of {', '.join(grid.values)}{', or another' if grid.other else ''}"


def outcome_words(schema: Schema) -> str:
    if schema.classes is not None:
        return f"one of {', '.join(schema.classes)}"
    if schema.survival is not None:
        horizon = schema.survival.words(schema.survival.horizon)
        return f"the time to {schema.survival.event}, up to {horizon}"
    target = schema.target
    return "a number" if target is None else f"a number from {target.low:g} to {target.high:g}"


def metrics_of(model: Any) -> Iterator[tuple[str, str, float, float, float]]:
    """(name, group, value, low, high) of the model's stored private evaluation."""
    evaluation = kept_evaluation(model)
    if evaluation is None:
        return
    for part in evaluation.parts[0]:
        for name, measure in part.measures.items():
            numbers = measure.value, measure.low, measure.high
            if all(map(math.isfinite, numbers)):
                yield measure_name(name, evaluation.classes), part.group, *numbers


def model_card(model: Any) -> str:
    """README.md of a Hugging Face repository; also readable for people and skops."""
    schema, name, facts = model.schema_, type(model).__name__, facts_of(model)
    task = "tabular-regression" if schema.classes is None else "tabular-classification"
    words = ["differential-privacy", "federated-learning", "decision-trees", "tabular"]
    columns = [(grid.feature, column_words(grid)) for grid in schema.grids]
    return "\n".join(
        [
            *("---", "library_name: hedgerow", f"pipeline_tag: {task}", "tags:"),
            *(f"- {word}" for word in words),
            *("---", "", f"# {name} by hedgerow", ""),
            f"Predicts {_escape(outcome_words(schema))}. Privacy guarantee: {facts['guarantee']}.",
            *("", "## Intended use", "", _escape(facts.get("intended_use", BY_PROVIDER))),
            *("", "## What the guarantee means", ""),
            *(f"* {_escape(line)}" for line in meanings(model)),
            *("", "## Columns", "", *_table(("column", "values"), columns)),
            *("", "## Evaluation", "", *_measure_lines(model)),
            *("", "## Limitations", ""),
            *(f"* {_escape(line)}" for line in model.privacy_.unprotected),
            *("", "## Privacy statement", "", *_table(("fact", "value"), facts.items())),
            *("", "## How to use it", "", "```python", "import hedgerow"),
            *('model = hedgerow.load("model.json")', "model.predict(rows)", "```", ""),
        ]
    )


def annex_iv(model: Any) -> str:
    """Points of the AI Act's technical documentation, as far as the statement answers them."""
    facts = facts_of(model)
    lines = [
        f"# Technical documentation of {type(model).__name__} (AI Act, Annex IV)",
        "",
        "Filled in from the model's privacy statement. It is a part of the documentation and no "
        "claim of conformity; every other point says who writes it.",
    ]
    for point, title, names in ANNEX_IV:
        section_facts = [(name, facts[name]) for name in names.split() if name in facts]
        content = list(_table(("fact", "value"), section_facts)) if section_facts else [BY_PROVIDER]
        content = list(_measure_lines(model)) if point == MEASURED_POINT else content
        lines += ["", f"## {point} {title}", "", *content]
    return "\n".join([*lines, ""])


def _measure_lines(model: Any) -> Iterator[str]:
    measures = [
        (name, group, f"{v:.3f}", f"{a:.3f}", f"{b:.3f}")
        for name, group, v, a, b in metrics_of(model)
    ]
    if not measures:
        yield "None is kept with this model. `hedgerow evaluate --keep` measures it privately."
        return
    yield from _table(("measure", "records", "value", "low", "high"), measures)


def _table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(head)
    yield from (_row(names), _row(["---"] * len(names)))
    yield from (_row(map(_escape, line)) for line in lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """Escapes a text for Markdown, on one line."""
    return re.sub(r"([\\`*\[\]<>|#&])", r"\\\1", " ".join(text.split()))


def cyclonedx(model: Any) -> str:
    """A CycloneDX 1.7 bill of materials (ML-BOM) with a model card."""
    digest = model.model_.score.digest
    purl = f"pkg:pypi/hedgerow@{__version__}"
    tool = {
        "type": "library",
        "bom-ref": purl,
        "name": "hedgerow",
        "version": __version__,
        "purl": purl,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    component = {
        "type": "machine-learning-model",
        "bom-ref": f"model-{digest[:16]}",
        "name": type(model).__name__,
        "version": digest[:16],
        "modelCard": _model_card(model),
    }
    return _json(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.7",
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
            "version": 1,
            "metadata": {"component": component},
            "components": [tool],
            "dependencies": [{"ref": component["bom-ref"], "dependsOn": [tool["bom-ref"]]}],
        }
    )


def _model_card(model: Any) -> dict[str, Any]:
    schema, statement = model.schema_, model.privacy_
    about = statement.about or About()
    owners = [{"organization": {"name": curator.name}} for curator in about.curators]
    dataset = {
        "type": "dataset",
        "name": "training records",
        "classification": "not part of this model",
        "sensitiveData": [statement.unit],
        "description": f"Records of {statement.n_sites} site(s); they stayed there.",
        **({"governance": {"owners": owners}} if owners else {}),
    }
    return {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": "regression" if schema.classes is None else "classification",
            "architectureFamily": "decision trees",
            "modelArchitecture": type(model).__name__,
            "datasets": [dataset],
            "inputs": [{"format": f"{g.feature}: {column_words(g)}"} for g in schema.grids],
            "outputs": [{"format": outcome_words(schema)}],
        },
        "quantitativeAnalysis": {
            "performanceMetrics": [
                {
                    "type": name,
                    "value": f"{value:.4g}",
                    "slice": group,
                    "confidenceInterval": {"lowerBound": f"{low:.4g}", "upperBound": f"{high:.4g}"},
                }
                for name, group, value, low, high in metrics_of(model)
            ]
        },
        "considerations": {
            **({"useCases": [about.intended_use]} if about.intended_use else {}),
            "technicalLimitations": list(statement.caveats),
            "ethicalConsiderations": [
                {"name": f"not protected: {line}", "mitigationStrategy": "none by this model"}
                for line in statement.unprotected
            ]
            + [{"name": line, "mitigationStrategy": statement.summary} for line in meanings(model)],
        },
        "properties": [
            {"name": f"hedgerow:{name}", "value": value} for name, value in facts_of(model).items()
        ],
    }


CROISSANT_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{name: f"cr:{name}" for name in ("recordSet", "field", "source", "isLiveDataset")},
    **{name: f"cr:{name}" for name in ("fileObject", "extract", "column")},
}
SITE_FILE = "records.csv"
"""The name of a site's own file of records, which is never published."""


def croissant(model: Any) -> str:
    """The schema as Croissant 1.0 metadata: columns and their public values, no records."""
    schema = model.schema_
    columns = [(g.feature, column_words(g), g.kind is ColumnKind.NUMERIC) for g in schema.grids]
    columns.append(("outcome", outcome_words(schema), schema.classes is None))
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"records/{place}",  # Croissant allows no spaces there
            "name": name,
            "description": words,
            "dataType": "sc:Float" if is_number else "sc:Text",
            "source": {"fileObject": {"@id": SITE_FILE}, "extract": {"column": name}},
        }
        for place, (name, words, is_number) in enumerate(columns)
    ]
    records = {"@type": "cr:RecordSet", "@id": "records", "name": "records", "field": fields}
    return _json(
        {
            "@context": CROISSANT_CONTEXT,
            "@type": "sc:Dataset",
            "name": f"hedgerow-schema-{schema.digest[:16]}",
            "description": "Public schema of records that stay at their sites.",
            "conformsTo": "http://mlcommons.org/croissant/1.0",
            "isLiveDataset": True,
            "distribution": [
                {
                    "@type": "cr:FileObject",
                    "@id": SITE_FILE,
                    "name": SITE_FILE,
                    "description": "Each site has its own, which never leaves it.",
                    "contentUrl": SITE_FILE,
                    "encodingFormat": "text/csv",
                }
            ],
            "recordSet": [records],
        }
    )


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
