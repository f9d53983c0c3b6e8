"""Tables of pages that are read off the committed measurements: `python -m docs.make_tables`.

A page holds such a table between `<!-- table: name -->` and `<!-- end of table -->`. No number in
it is typed; a test asks that each is what the measurements say today.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
DATA = {
    "adult": "Adult",
    "bank": "Bank",
    "credit_gmsc": "Credit 1",
    "credit_default": "Credit 2",
    "spambase": "Spambase",
    "higgs_18k": "Higgs 18k",
}
PAGES = (
    ROOT / "README.md",
    ROOT / "docs/understand/large_epsilon.md",
    ROOT / "docs/audit.md",
)
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.S)

Rows = list[dict[str, str]]


def read(name: str) -> Rows:
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def auc(rows: Rows, **wanted: str | float) -> tuple[float, int] | None:
    """Mean AUC of the rows that have these values, and how many splits there are."""
    found = [float(r["auc"]) for r in rows if all(_is(r[k], v) for k, v in wanted.items())]
    return (fmean(found), len(found)) if found else None


def _is(text: str, value: str | float) -> bool:
    return text == value if isinstance(value, str) else float(text) == value


def shown(found: tuple[float, int] | None) -> str:
    return "-" if found is None else f"{found[0]:.3f}".removeprefix("0")


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    rows = [list(head), ["---"] * len(list(head)), *map(list, lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def splits_of(found: Iterable[tuple[float, int] | None]) -> str:
    numbers = sorted({one[1] for one in found if one is not None})
    few, many = numbers[0], numbers[-1]
    return f"{few}" if few == many else f"{few} to {many}"


# ------------------------------------------------------------------------------------- tables
def evidence() -> str:
    """Test AUC at epsilon 1: the default recipe beside what else one would take."""
    ours, plain = read("which/fresh.csv"), read("which/limits.csv")
    peers = {n: read(f"which/{n}.csv") for n in ("dp_ebm", "diffprivlib")}
    cells = {
        name: [
            auc(ours, dataset=key, epsilon=1.0, parties="1"),
            auc(ours, dataset=key, epsilon=1.0, parties="5"),
            auc(peers["dp_ebm"], dataset=key, epsilon=1.0),
            auc(peers["diffprivlib"], dataset=key, epsilon=1.0),
            auc(plain, dataset=key),
        ]
        for key, name in DATA.items()
    }
    head = ("test AUC, epsilon 1", "hedgerow, one holder", "hedgerow, five sites")
    head += ("DP-EBM (interpret)", "diffprivlib forest", "LightGBM, no privacy")
    lines = ([name, *map(shown, found)] for name, found in cells.items())
    splits = splits_of(one for found in cells.values() for one in found)
    words = (
        f"Means of {splits} splits on which nothing was chosen, the same for all. DP-EBM and "
        "diffprivlib have one holder."
    )
    return f"{table(head, lines)}\n{words}\n"


def large_epsilon() -> str:
    """How far the default classifier stays below LightGBM as epsilon grows."""
    ours, plain = read("which/fresh.csv"), read("which/limits.csv")
    asked = {f"epsilon {e:g}": e for e in (1.0, 3.0, 8.0, 100.0)} | {"no noise": inf}
    lines, seen = [], []
    for key, name in DATA.items():
        found = [_pairs(ours, plain, key, epsilon) for epsilon in asked.values()]
        seen += found
        lines.append([name, *(_gap(one) for one in found)])
    head = ["AUC below LightGBM", *asked]
    words = f"One holder; {splits_of(seen)} splits, each against LightGBM on the same rows."
    return f"{table(head, lines)}\n{words}\n"


def _pairs(ours: Rows, plain: Rows, key: str, epsilon: float) -> tuple[float, int] | None:
    limit = {r["split"]: float(r["auc"]) for r in plain if r["dataset"] == key}
    gaps = [
        limit[r["split"]] - float(r["auc"])
        for r in ours
        if r["dataset"] == key and float(r["epsilon"]) == epsilon and r["parties"] == "1"
        if r["split"] in limit
    ]
    return (fmean(gaps), len(gaps)) if gaps else None


def _gap(found: tuple[float, int] | None) -> str:
    return "-" if found is None else f"{found[0]:+.3f}"


def audit() -> str:
    """What an audit of every estimator measured, over placements and both laws."""
    rows = [r for r in read("audit.csv") if r["state"] != "refused"]
    names = list(dict.fromkeys(r["what"] for r in rows))
    head = ("estimator", "audits", "white box, epsilon at least", "one run", "loss over charge")
    head += ("CPU seconds each",)
    lines = ([name, *_audited([r for r in rows if r["what"] == name])] for name in names)
    claims = " and ".join(sorted({f"{float(r['claimed']):g}" for r in rows}))
    above = sum(r["state"] == "above" for r in rows)
    refused = len(read("audit.csv")) - len(rows)
    words = (
        f"Claim: epsilon {claims}. White box from least to most, and the largest of the others, "
        f"over placements (curator, shares, silo) and laws (delta 0 and 1e-6). {above} of "
        f"{len(rows)} audits measured more than was claimed; {refused} could not run: the method "
        "needs one holder, or noise so wide has no proved sampler."
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
    rows = read("audit_papers.csv")
    lines = [
        [
            f"`{r['what'].removeprefix('papers.')}`",
            r["placement"],
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


def audit_slips() -> str:
    """What the audit says of planted slips, and how long it takes."""
    head = ("slip", "noise added by", "verdict", "white box of 8", "loss over charge", "noise")
    head += ("CPU seconds",)
    lines = (
        [
            r["what"],
            r["placement"],
            "seen" if r["state"] == "above" else "NOT SEEN",
            f"{float(r['white_box']):.2f}",
            f"{float(r['charge']):.2f}",
            f"{float(r['noise']):.2f} of its claim",
            f"{float(r['seconds']):.1f}",
        ]
        for r in read("audit_slips.csv")
    )
    return table(head, lines)


def black_box() -> str:
    """What a stranger sees of records, at least, by the models alone."""
    rows = read("black_box.csv")
    placements = tuple(dict.fromkeys(r["placement"] for r in rows))
    pairs = dict.fromkeys((r["estimator"], r["canary"]) for r in rows)
    found = {(r["estimator"], r["canary"], r["placement"]): r["shown"] for r in rows}
    lines = ([*pair, *(found.get((*pair, place), "-") for place in placements)] for pair in pairs)
    most = max(float(r["at_least"]) for r in rows)
    words = (
        f"Claim: epsilon 2. {rows[0]['fits']} fits a cell; a dash: the estimator cannot, or not "
        "yet measured. At the "
        f"error of the gate, one in a million for all cells together, the largest is {most:.2f}."
    )
    return f"{table(('estimator', 'canary', *placements), lines)}\n{words}\n"


TABLES: dict[str, Callable[[], str]] = {
    "evidence": evidence,
    "large_epsilon": large_epsilon,
    "audit": audit,
    "audit_papers": audit_papers,
    "audit_slips": audit_slips,
    "black_box": black_box,
}


def renewed(text: str) -> str:
    """A page's text with all its tables made again."""
    return PLACE.sub(lambda m: f"{m[1]}{TABLES[m[2]]()}{m[3]}", text)


def main() -> None:
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
