"""The default recipe on the page of `python -m studies boosted`: floors, rivals, calibration."""

from __future__ import annotations

import math

import pandas as pd

from studies.boosted import learners
from studies.boosted.cells import DASH, Cells, Peer, shown
from studies.boosted.paper import FLOORS, LIMIT_OF_FLOORS, S_BDT
from studies.claims import lead
from studies.measures import CONFIDENCE, student
from studies.pages import markdown_table

CALIBRATED = {"accuracy": 0.848, "log_loss": 0.325, "calibration_error": 0.02}
"""What Adult must reach: at least, at most, at most."""
CALIBRATED_AT = 1.0


def floors(cells: Cells, peers: dict[str, Peer], no_privacy: Peer) -> str:
    rows = [
        {
            **_floor_row(cells, peers, dataset, i),
            "LightGBM, no privacy": _limit(no_privacy, dataset),
        }
        for dataset in learners.DEFAULT_SETS
        for i in range(len(learners.EPSILONS))
    ]
    return (
        "## The default recipe\n\nAUC, mean (sample deviation over splits). Five parties: "
        "placement 'shares', the noise of K parties calibrated to the honest ones. Local noise: "
        "the paper's LDP baseline, DP-TR Newton where each record is a site of its own and adds "
        "all the noise itself (five sites under 'silo' add the noise of their records; here which "
        "leaf a record is in is protected as well). DP-EBM (interpret), diffprivlib's forest "
        "(pure epsilon) and LightGBM come from the scripts in benchmarks/peers on the "
        "same splits; on Adult they have the rows without missing values, so pairs there are of "
        "different divisions. S-BDT: quoted from a comparison on the same protocol, other splits; "
        "so were "
        "the floors set, and what LightGBM has there is in brackets: easier or harder rows move "
        "every column alike.\n\n" + markdown_table(pd.DataFrame(rows))
    )


def _floor_row(cells: Cells, peers: dict[str, Peer], dataset: str, i: int) -> dict[str, object]:
    epsilon, floor = learners.EPSILONS[i], FLOORS[dataset][i]
    mine = cells.value(dataset, learners.DEFAULT, epsilon)
    spread = f" ({cells.deviation(dataset, learners.DEFAULT, epsilon):.4f})" if mine else ""
    shared = cells.value(dataset, learners.DEFAULT, epsilon, "auc", learners.SHARES_PARTIES)
    local = cells.value(dataset, learners.LOCAL_BASELINE, epsilon, "auc", learners.EVERY_RECORD)
    return {
        "data": learners.TITLES[dataset],
        "epsilon": epsilon,
        "ours": f"**{shown(mine)}**{spread}",
        "floor": f"{shown(floor)} "
        f"{_verdict(cells.aucs(dataset, learners.DEFAULT, epsilon), floor)}",
        "five parties": shown(shared),
        "best of the paper's methods here": _best_named(cells, dataset, epsilon),
        "local noise": shown(local),
        **{name: shown(found.value(dataset, epsilon)) for name, found in peers.items()},
        "S-BDT (quoted)": shown(S_BDT[dataset][i]) if dataset in S_BDT else DASH,
    }


def _limit(no_privacy: Peer, dataset: str) -> str:
    here, there = no_privacy.value(dataset, math.inf), LIMIT_OF_FLOORS.get(dataset)
    return shown(here) if there is None else f"{shown(here)} ({shown(there)})"


def _verdict(aucs: pd.Series, floor: float) -> str:
    """A mean below the floor is a miss, and a clear one if the scatter does not reach it."""
    if aucs.empty:
        return ""
    if round(float(aucs.mean()), 4) >= floor:
        return "held"
    return "MISSED" if lead(aucs - floor).is_clear else "MISSED (within the scatter)"


def _best_named(cells: Cells, dataset: str, epsilon: float) -> str:
    found = {
        name: value
        for name in learners.NAMED
        if (value := cells.value(dataset, learners.named(name), epsilon)) is not None
    }
    if not found:
        return DASH
    name = max(found, key=lambda n: found[n])
    return f"{shown(found[name])} {name}"


# ---------------------------------------------------------------------------------------- rivals
class Rivals:
    """How far the default recipe is ahead of others on the splits that both were run on."""

    def __init__(self, cells: Cells, peers: dict[str, Peer]) -> None:
        self.cells, self.peers = cells, peers
        self.counts = {"clear": 0, "within": 0, "behind": 0}
        self.lower = 0

    def section(self) -> str:
        rows = [
            {"data": learners.TITLES[dataset], "epsilon": epsilon, **self._row(dataset, epsilon)}
            for dataset in learners.DEFAULT_SETS
            for epsilon in learners.EPSILONS
        ]
        table = markdown_table(pd.DataFrame(rows))
        c = self.counts
        return (
            "## Is it ahead of every other?\n\nAUC of the default recipe less the other's, mean "
            "over the splits that both were run on, with the standard error of the paired "
            f"differences. '=': no clear lead (Student's t at {CONFIDENCE:.0%}, both sides); "
            "BEHIND: clearly behind. One split says nothing about scatter and is not counted. "
            f"Of {sum(c.values())} comparisons the default is clearly ahead in {c['clear']}, "
            f"within the scatter in {c['within']} (with the lower mean in {self.lower}) and "
            f"clearly behind in {c['behind']}.\n\n{table}"
        )

    def _row(self, dataset: str, epsilon: float) -> dict[str, str]:
        ours = self.cells.aucs(dataset, learners.DEFAULT, epsilon)
        theirs = {name: peer.aucs(dataset, epsilon) for name, peer in self.peers.items()}
        theirs |= {
            name: self.cells.aucs(dataset, learners.named(name), epsilon) for name in learners.NAMED
        }
        return {name: self._lead((ours - other).dropna()) for name, other in theirs.items()}

    def _lead(self, differences: pd.Series) -> str:
        if differences.empty:
            return DASH
        lead, n = float(differences.mean()), len(differences)
        if n == 1:
            return f"{lead:+.4f} (one split)"
        error = float(differences.std()) / math.sqrt(n)
        if abs(lead) <= error * student(n):
            kind, mark = "within", " ="
            self.lower += lead < 0
        else:
            kind, mark = ("clear", "") if lead > 0 else ("behind", " BEHIND")
        self.counts[kind] += 1
        return f"{lead:+.4f} ± {error:.4f}{mark}"


# ----------------------------------------------------------------------------------- calibration
def calibration(cells: Cells, peers: dict[str, Peer]) -> str:
    measures = ("log_loss", "accuracy", "calibration_error", "seconds", "rounds", "bytes")
    rows = []
    for dataset in learners.DEFAULT_SETS:
        for epsilon in learners.EPSILONS:
            row: dict[str, object] = {"data": learners.TITLES[dataset], "epsilon": epsilon}
            for measure in measures:
                value = cells.value(dataset, learners.DEFAULT, epsilon, measure)
                row[measure.replace("_", " ")] = _plain(value, measure)
            rows.append(row)
    return (
        "## Probabilities and cost of the default recipe\n\nAccuracy at one half; expected "
        "calibration "
        "error over ten bins; processor seconds of the fit on a shared machine; bytes one party "
        f"sends and receives. {_is_calibrated(cells)} {_is_fast(cells, peers)}\n\n"
        + markdown_table(pd.DataFrame(rows))
    )


def _is_calibrated(cells: Cells) -> str:
    found = {m: cells.value("adult", learners.DEFAULT, CALIBRATED_AT, m) for m in CALIBRATED}
    if None in found.values():
        return ""
    said = [
        f"{measure.replace('_', ' ')} {shown(value)} (asked: "
        f"{'at least' if measure == 'accuracy' else 'at most'} {shown(CALIBRATED[measure])})"
        for measure, value in found.items()
    ]
    return f"Adult at epsilon {CALIBRATED_AT:g}: {', '.join(said)}."


def _is_fast(cells: Cells, peers: dict[str, Peer]) -> str:
    mine = cells.seconds("adult", learners.DEFAULT, 1.0)
    theirs = {name: peer.seconds("adult", 1.0) for name, peer in peers.items()}
    if mine is None or None in theirs.values():
        return ""
    said = ", ".join(f"{name} {seconds:.2f}" for name, seconds in theirs.items())
    return f"Median seconds of a fit there: ours {mine:.2f}, {said}."


def _plain(value: float | None, measure: str) -> str:
    if value is None:
        return DASH
    if measure in ("rounds", "bytes"):
        return f"{value:,.0f}"
    return f"{value:.2f}" if measure == "seconds" else shown(value)
