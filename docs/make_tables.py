"""Tables of pages, read off docs/evidence.json and the archive of audits.

`python -m docs.make_tables` makes all of them again. A page holds such a table between
`<!-- table: name -->` and `<!-- end of table -->`. No number in it is typed; a test asks that each
is what the measurements say today.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean

from benchmarks import results
from hedgerow.report.exports.cards import ANNEX_IV, FACTS
from studies.evidence import AT_ONE, EPSILONS, GAP, Entry, stored
from studies.evidence_pages import beside_others, subject
from studies.kept import archived

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs/understand/large_epsilon.md",
    ROOT / "docs/audit.md",
    ROOT / "docs/transports.md",
    ROOT / "docs/containers.md",
    ROOT / "docs/exports.md",
)
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.S)

Rows = list[dict[str, str]]


def read(name: str) -> Rows:
    """A table of the audits."""
    found = archived("audit").text(f"{name}.csv")
    assert found is not None, f"{name} is not in the archive of audits"
    return list(csv.DictReader(io.StringIO(found)))


def shown(value: float | str) -> str:
    return f"{float(value):.3f}".removeprefix("0")


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    rows = [list(head), ["---"] * len(list(head)), *map(list, lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def splits_of(found: Iterable[int]) -> str:
    numbers = sorted(set(found))
    few, many = numbers[0], numbers[-1]
    return f"{few}" if few == many else f"{few} to {many}"


# ------------------------------------------------------------------------------------- tables
def evidence() -> str:
    """Test AUC at epsilon 1: the default method beside what else one would take."""
    columns, found = beside_others(stored())
    lines = ([name, *(shown(cells[c].value) for c in columns)] for name, cells in found.items())
    splits = splits_of(entry.n for cells in found.values() for entry in cells.values())
    words = (
        f"Means of {splits} splits on which nothing was chosen, the same for all. DP-EBM and "
        "diffprivlib have one site."
    )
    return f"{table((AT_ONE, *columns), lines)}\n{words}\n"


def large_epsilon() -> str:
    """How far the default classifier stays below LightGBM as epsilon grows."""
    found: dict[str, dict[str, Entry]] = {}
    for entry in subject(stored(), "ours", GAP):
        found.setdefault(entry.parts[2], {})[entry.parts[3]] = entry
    lines = ([name, *(_gap(cells.get(e)) for e in EPSILONS)] for name, cells in found.items())
    splits = splits_of(entry.n for cells in found.values() for entry in cells.values())
    words = f"One site; {splits} splits, each against LightGBM on the same rows."
    return f"{table([GAP, *EPSILONS], lines)}\n{words}\n"


def _gap(found: Entry | None) -> str:
    return "-" if found is None else f"{float(found.value):+.3f}"


def audit() -> str:
    """What an audit of every estimator measured, over DP models and both laws."""
    rows = [r for r in read("audit") if r["state"] != "refused"]
    names = list(dict.fromkeys(r["what"] for r in rows))
    head = ("estimator", "audits", "white box, epsilon at least", "one run", "loss over charge")
    head += ("CPU seconds each",)
    lines = ([name, *_audited([r for r in rows if r["what"] == name])] for name in names)
    claims = " and ".join(sorted({f"{float(r['claimed']):g}" for r in rows}))
    above = sum(r["state"] == "above" for r in rows)
    refused = len(read("audit")) - len(rows)
    words = (
        f"Claim: epsilon {claims}. White box from least to most, and the largest of the others, "
        f"over DP models (curator, shares, silo) and laws (delta 0 and 1e-6). {above} of "
        f"{len(rows)} audits measured more than was claimed; {refused} could not run: the method "
        "needs one site, or noise so wide has no proved sampler."
    )
    return f"{table(head, lines)}\n{words}\n"


def _audited(rows: Rows) -> list[str]:
    seconds = fmean(float(r["seconds"]) for r in rows)
    found = {name: [float(r[name]) for r in rows] for name in ("white_box", "one_run", "charge")}
    white = f"{min(found['white_box']):.2f} to {max(found['white_box']):.2f}"
    most = [f"{max(found[name]):.2f}" for name in ("one_run", "charge")]
    return [str(len(rows)), white, *most, f"{seconds:.0f}"]


def audit_papers() -> str:
    """What an audit of every paper's method measured, where it adds its own noise."""
    head = ("method", "noise added by", "white box, epsilon at least", "one run")
    head += ("loss over charge", "numbers and draws", "CPU seconds")
    rows = read("audit_papers")
    lines = [
        [
            f"`{r['what'].removeprefix('papers.')}`",
            r["dp_model"],
            *(f"{float(r[name]):.2f}" for name in ("white_box", "one_run", "charge")),
            r["numbers"],
            f"{float(r['seconds']):.0f}",
        ]
        for r in rows
        if r["state"] != "refused"
    ]
    above = sum(r["state"] == "above" for r in rows)
    others = ", ".join(f"`{r['what']}`" for r in rows if r["state"] == "refused")
    words = (
        f"Claim: epsilon 8, delta 1e-6. {above} of {len(lines)} audits measured more than was "
        f"claimed. Without noise, and so not measured: {others}."
    )
    return f"{table(head, lines)}\n{words}\n"


def audit_mutants() -> str:
    """What the audit says of planted mutants, and how long it takes."""
    head = ("mutant", "noise added by", "verdict", "white box of 8", "loss over charge", "noise")
    head += ("CPU seconds",)
    lines = (
        [
            r["what"],
            r["dp_model"],
            "seen" if r["state"] == "above" else "NOT SEEN",
            f"{float(r['white_box']):.2f}",
            f"{float(r['charge']):.2f}",
            f"{float(r['noise']):.2f} of its claim",
            f"{float(r['seconds']):.1f}",
        ]
        for r in read("audit_mutants")
    )
    return table(head, lines)


def black_box() -> str:
    """What a stranger sees of records, at least, by the models alone."""
    rows = read("black_box")
    dp_models = tuple(dict.fromkeys(r["dp_model"] for r in rows))
    pairs = dict.fromkeys((r["estimator"], r["canary"]) for r in rows)
    found = {(r["estimator"], r["canary"], r["dp_model"]): r["shown"] for r in rows}
    lines = ([*pair, *(found.get((*pair, place), "-") for place in dp_models)] for pair in pairs)
    most = max(float(r["at_least"]) for r in rows)
    words = (
        f"Claim: epsilon 2. {rows[0]['fits']} fits a cell; a dash: the estimator cannot, or not "
        "yet measured. At the "
        f"error of the gate, one in a million for all cells together, the largest is {most:.2f}."
    )
    return f"{table(('estimator', 'canary', *dp_models), lines)}\n{words}\n"


SHOWN = (3, 1004)


def transports() -> str:
    """Seconds of a round over each transport, three sites on one machine."""
    found = [lines for lines in results.read("network").values() if isinstance(lines, list)]
    small = [one for lines in found for one in lines if (one["sites"], one["integers"]) == SHOWN]
    head = ("transport", "a round of about 1,000 numbers, s", "CPU s", "rounds measured")
    lines = (
        [one["transport"], f"{one['round']:.2g}", f"{one['round_cpu']:.2g}", str(one["repeats"])]
        for one in sorted(small, key=lambda one: float(one["round"]))
    )
    return table(head, lines)


def containers() -> str:
    """How large the image is."""
    one = results.read("containers")
    head = ("image, MB", "of it the base (Debian, Python), MB")
    return table(head, [[f"{one[key]:.0f}" for key in ("image", "base")]])


def artifacts() -> str:
    """Which field of each artefact comes from where."""
    head = ("fact", "read from", "Annex IV")
    points = {
        name: ", ".join(p for p, _, names in ANNEX_IV if name in names.split()) or "-"
        for name in FACTS
    }
    lines = ([name, f"`{source}`", points[name]] for name, source in FACTS.items())
    return table(head, lines)


TABLES: dict[str, Callable[[], str]] = {
    "artifacts": artifacts,
    "evidence": evidence,
    "large_epsilon": large_epsilon,
    "audit": audit,
    "audit_papers": audit_papers,
    "audit_mutants": audit_mutants,
    "black_box": black_box,
    "transports": transports,
    "containers": containers,
}


def renewed(text: str) -> str:
    """A page's text with all its tables made again."""
    return PLACE.sub(lambda m: f"{m[1]}{TABLES[m[2]]()}{m[3]}", text)


def main() -> None:
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
