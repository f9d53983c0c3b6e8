"""Tables of pages, read off docs/evidence.json and the archive of audits.

`python -m docs.make_pages tables` makes all of them again. A page holds such a table between
`<!-- table: name -->` and `<!-- end of table -->`. No number in it is typed; a test asks that each
is what the measurements say today.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

import pandas as pd

from benchmarks import results
from hedgerow.report.exports.cards import ANNEX_IV, FACTS
from studies.claims import Lead, lead
from studies.evidence import AT_ONE, EPSILONS, GAP, Entry, stored
from studies.evidence_pages import beside_others, subject
from studies.kept import archived

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs/understand/large_epsilon.md",
    ROOT / "docs/audit.md",
    ROOT / "docs/accounting.md",
    ROOT / "docs/proofs/evidence.md",
    ROOT / "docs/proofs/selection.md",
    ROOT / "docs/transports.md",
    ROOT / "docs/containers.md",
    ROOT / "docs/exports.md",
)
VERDICTS = ROOT / "tests/mutants/verdicts.csv"
GATE = "::test_whatever_is_asked_no_record_loses_more_than_it_was_charged_for"
WIDE = 6
"""Columns above which the cells of a table in docs have no padding."""
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
    names = list(head)
    rows = [names, ["---"] * len(names), *map(list, lines)]
    bar, ends = (" | ", "| {} |") if len(names) <= WIDE else ("|", "|{}|")
    return "".join(ends.format(bar.join(row)) + "\n" for row in rows)


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


PATHS = {
    "rounds that fail": "failed rounds",
    "records of persons": "persons",
    "evaluation": "evaluation",
    "records held out": "held out",
    "model selection": "model selection",
    "rows in a database": "database",
    "run over a network": "network",
}
"""By their names in the audit, as the table heads them."""


def audit() -> str:
    """What audits of every estimator measured, over DP models and both laws, and of every path."""
    rows, paths = [r for r in read("audit") if r["state"] != "refused"], read("audit_paths")
    head = ("estimator", "white box, epsilon at least", "one run", "sums, selections", "labels")
    names = list(dict.fromkeys(r["what"] for r in rows))
    lines = (
        [
            name,
            *_audited([r for r in rows if r["what"] == name]),
            *(_most(r for r in paths if (r["what"], r["path"]) == (name, path)) for path in PATHS),
        ]
        for name in names
    )
    claims = " and ".join(sorted({f"{float(r['claimed']):g}" for r in rows}))
    above = sum(r["state"] == "above" for r in (*rows, *paths))
    refused = len(read("audit")) - len(rows)
    words = (
        f"Claim: epsilon {claims}. White box from least to most over DP models (central, "
        "distributed, per_site) and laws (delta 0 and 1e-6); then the largest bound of one run and "
        "the largest parts of their charges that records lost. A dash: the method cannot. "
        f"{above} of {len(rows)} audits and {len(paths)} paths lost more than was claimed or "
        f"charged; {refused} audits were refused: the method needs one site, has no randomized "
        "labels, or noise so wide has no proved sampler."
    )
    return f"{table((*head, *PATHS.values()), lines)}\n{words}\n"


def _audited(rows: Rows) -> list[str]:
    labels = [r for r in rows if r["dp_model"] == "label"]
    others = [r for r in rows if r["dp_model"] != "label"]
    white = [float(r["white_box"]) for r in others]
    one_run = max(float(r["one_run"]) for r in rows)
    ends = f"{min(white):.2f} to {max(white):.2f}"
    return [ends, f"{one_run:.2f}", _most(others), _most(labels)]


def _most(rows: Iterable[dict[str, str]]) -> str:
    charges = [float(r["charge"]) for r in rows]
    return f"{max(charges):.2f}" if charges else "-"


def accountant() -> str:
    """What selections cost under delta > 0, alone and by what is left after them."""
    head = ("method", "mechanism", "selections", "part of the budget", "before", "AUC gained")
    gains, more = _gains("selections", "alone"), _gains("certified", "by what any strategy loses")
    lines = [
        [
            f"`{r['what']}`",
            r["mechanism"].replace("_", " "),
            *_selections(r["plan"]),
            f"{float(r['before']):.3f}",
            gains.get(r["dp_model"], "-"),
            shown(r["lost"]),
            more.get(r["dp_model"], "-"),
        ]
        for r in read("plans")
    ]
    return table((*head, "any strategy", "AUC it would gain"), lines)


def _selections(plan: str) -> tuple[str, str]:
    """How many there are on the path of the worst-case record, and their part."""
    words = [w.split("x") for w in re.split("[;,] ", plan) if not w.startswith("(")]
    part = sum(int(n) * Fraction(part) for n, part in words)
    return str(sum(int(n) for n, _ in words)), shown(float(part))


def _gains(name: str, price: str) -> dict[str, str]:
    """By method, at equal epsilon, over both epsilons of the study: today's price and another."""
    frames = [archived("diprime").frame(table) for table in dict.fromkeys(("selections", name))]
    keys = ["method", "epsilon", "data", "seed"]
    both = pd.concat(frames).pivot_table("auc", keys, "price").dropna(subset=price)
    gains = (both[price] - both["by what is left"]) * (-1 if price == "alone" else 1)
    return {name: _gain(lead(pairs.dropna())) for name, pairs in gains.groupby("method")}


def _gain(found: Lead) -> str:
    low, high = found.range
    return f"{found.mean:+.3f} ({low:+.3f} to {high:+.3f}, n={found.n})"


def medians_over_sites() -> str:
    """Median forests at one site and at five, by selections of each site and by noisy tables."""
    frame = archived("diprime").frame("sites")
    assert frame is not None
    keys = ["data", "delta", "seed"]
    found = frame.pivot_table("score", keys, ["sites", "split"]).groupby(["data", "delta"])
    lines = [
        [
            str(data),
            f"{delta:g}",
            *(shown(scores[way].mean()) for way in ((1, "grid"), (5, "table"), (5, "grid"))),
            _gain(lead(scores[5, "grid"] - scores[5, "table"])),
        ]
        for (data, delta), scores in found
    ]
    head = ("set", "delta", "one site", "five, by tables", "five, by selections", "gained")
    words = "Test accuracy at epsilon 2, splits on which nothing was chosen; 95 % intervals."
    return f"{table(head, lines)}\n{words}\n"


def unspent() -> str:
    """Of what the levels of Extra-Trees cost, the part that nobody in an early leaf used."""
    rows = read("unspent")
    epsilons = list(dict.fromkeys(r["dp_model"] for r in rows))
    sets = dict.fromkeys((r["what"], r["numbers"]) for r in rows)
    parts = {(r["what"], r["dp_model"]): float(r["lost"]) for r in rows}
    lines = ([name, n, *(f"{parts[name, e]:.1%}" for e in epsilons)] for name, n in sets)
    return table(("unused by records in early leaves", "records", *epsilons), lines)


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
    """What a stranger sees of records, at least, by the models alone: of the worst canary."""
    rows = read("black_box")
    dp_models = tuple(dict.fromkeys(r["dp_model"] for r in rows))
    found: dict[tuple[str, str], tuple[float, str]] = {}
    for r in rows:
        place = r["estimator"], r["dp_model"]
        found[place] = max(found.get(place, (0.0, "")), (float(r["shown"]), r["canary"]))
    names = dict.fromkeys(r["estimator"] for r in rows)
    lines = ([n, *(_seen(found.get((n, model))) for model in dp_models)] for n in names)
    most = max(float(r["at_least"]) for r in rows)
    canaries = ", ".join(dict.fromkeys(r["canary"] for r in rows))
    words = (
        f"Claim: epsilon 2. {rows[0]['fits']} fits a cell, the largest of the canaries ({canaries})"
        "; a dash: the estimator cannot, or not yet measured. At the "
        f"error of the gate, one in a million for all cells together, the largest is {most:.2f}."
    )
    return f"{table(('estimator', *dp_models), lines)}\n{words}\n"


def _seen(found: tuple[float, str] | None) -> str:
    return "-" if found is None else f"{found[0]:.2f}"


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


def checks() -> str:
    """What machines counted: proofs, numbers of the code held to them, states of the protocol."""
    rows = {r["what"]: int(r["numbers"]) for r in read("checks")}
    seconds = next(r["seconds"] for r in read("checks") if r["what"] == "theorems")
    proofs = ("theorems", "files", "lines", "claims", "traces of stores")
    searched = {what: n for what, n in rows.items() if what.startswith(("states", "of "))}
    others = {*proofs, *searched, "questions to the real site, all answered as the model allows"}
    numbers = sum(n for what, n in rows.items() if what not in others)
    head = ("counted", "number")
    lines = [
        [f"theorems, in {rows['files']} files of {rows['lines']:,} lines", f"{rows['theorems']:,}"],
        ["claims that restate them", str(rows["claims"])],
        ["numbers of the code that equal the proved functions", f"{numbers:,}"],
        ["traces of real stores that the model takes", str(rows["traces of stores"])],
        *([what, f"{n:,}"] for what, n in searched.items()),
        *([what, f"{n:,}"] for what, n in rows.items() if what.startswith("questions")),
    ]
    return f"{table(head, lines)}\n`make proofs` takes {seconds} CPU seconds.\n"


def gate() -> str:
    """Mistakes that the generated combinations see, by the package that they are planted in."""
    with VERDICTS.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["test"].endswith(GATE)]
    packages = sorted({r["path"].split("/")[0] for r in rows})
    counts = {p: [r["caught"] for r in rows if r["path"].startswith(p)] for p in packages}
    lines = [[p, str(len(all_)), str(all_.count("yes"))] for p, all_ in counts.items()]
    total = ["together", str(len(rows)), str(sum(r["caught"] == "yes" for r in rows))]
    return table(("planted in", "mistakes", "seen"), [*lines, total])


TABLES: dict[str, Callable[[], str]] = {
    "artifacts": artifacts,
    "evidence": evidence,
    "large_epsilon": large_epsilon,
    "audit": audit,
    "audit_papers": audit_papers,
    "audit_mutants": audit_mutants,
    "black_box": black_box,
    "accountant": accountant,
    "medians_over_sites": medians_over_sites,
    "unspent": unspent,
    "checks": checks,
    "gate": gate,
    "transports": transports,
    "containers": containers,
}


def renewed(text: str) -> str:
    """A page's text with all its tables made again."""
    return PLACE.sub(lambda m: f"{m[1]}{TABLES[m[2]]()}{m[3]}", text)


def pages() -> dict[Path, str]:
    """All pages with their tables made again."""
    return {page: renewed(page.read_text(encoding="utf-8")) for page in PAGES}
