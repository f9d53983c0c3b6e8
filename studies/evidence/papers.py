"""The claims of five papers, as entries: what holds of each, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.claims import Claim
from studies.evidence.entries import PROGRAM, VERDICT, Entry, Source
from studies.harness import Computation
from studies.kept import archived


@dataclass(frozen=True)
class Paper:
    """A page of claims: its name and title, the study behind it, and where its numbers lie."""

    page: str
    title: str
    cited: str
    study: str
    command: str
    claims: Callable[[], list[Claim]]
    tables: Sequence[tuple[str, str, str]]
    """Words of a claim or of its place in the paper, table, unit; the first that fits counts."""

    def entries(self) -> Iterator[Entry]:
        for claim in self.claims():
            words = f"{claim.where}: {claim.says}"
            table, unit = next((t, u) for part, t, u in self.tables if part in words)
            source = Source(self.study, table, f"python -m studies {self.command} --data DIR")
            for entry in source.claim(self.page, claim, unit):
                if entry.unit in (VERDICT, PROGRAM) or not _is_second(claim):
                    yield entry


def _is_second(claim: Claim) -> bool:
    """A claim of Wang et al. without our repairs, beside the same: its numbers: the full page."""
    return claim.where in ("Figure 2", "Figure 5") and claim.says.endswith(": as printed")


def kept(study: str) -> Computation:
    """A study that computes nothing and reads its archive alone."""
    return Computation(Path(), archived(study), page_only=True)


def _gubler() -> list[Claim]:
    from studies.gubler.claims import claims
    from studies.gubler.run import collected

    return claims(collected(kept("gubler")).mixture)


def _wang() -> list[Claim]:
    from studies.topdown.claims import claims
    from studies.topdown.run import collected

    return claims(collected(kept("topdown")))


def _maddock() -> list[Claim]:
    from studies.boosted.cells import Cells
    from studies.boosted.claims import claims
    from studies.boosted.published import Published
    from studies.boosted.run import collected

    tables = collected(kept("boosted"))
    return claims(Cells(tables["cells"]), Published(tables["published"]))


def _liu() -> list[Claim]:
    from studies.extra_trees.claims import claims
    from studies.extra_trees.run import collected

    tables = collected(kept("extra-trees"))
    return claims(tables["table2"], tables["figure3"])


def _consul() -> list[Claim]:
    from studies.diprime.claims import claims
    from studies.diprime.run import collected

    return claims(collected(kept("diprime")))


ACCURACY, PER_CENT = "accuracy", "% of accuracy"
ERROR = "error, in the paper's units"
PAPERS = (
    Paper(
        "gubler",
        "Gubler's private tree",
        "H. Gubler, *Secure and Interpretable: Federated Differentially Private Decision Trees*, "
        "EPFL 2023",
        "gubler",
        "gubler",
        _gubler,
        (("depth", "shallow, deep", PER_CENT), ("", "shallow", PER_CENT)),
    ),
    Paper(
        "wang",
        "DP-TopDown: best-first trees",
        "Wang, Dick and Balcan, *Scalable and Provably Accurate Algorithms for Differentially "
        "Private Distributed Decision Tree Learning*, 2020",
        "topdown",
        "topdown",
        _wang,
        (
            ("leaves get", "leaf_fraction", ACCURACY),
            ("little for leaves", "leaf_fraction", ACCURACY),
            ("decaying budget is", "leaf_fraction", ACCURACY),
            ("levels at a smaller epsilon: as printed", "printed", "levels"),
            ("leaves at a smaller epsilon: as printed", "printed", "leaves"),
            ("trees: as printed", "printed", "levels"),
            ("as printed", "printed", ACCURACY),
            ("levels at a smaller", "curves", "levels"),
            ("leaves at a smaller", "curves", "leaves"),
            ("deepest", "curves", "levels"),
            ("shallowest", "curves", "levels"),
            ("Figure 3", "training_size", ACCURACY),
            ("Figure 6", "training_size", ACCURACY),
            ("", "curves", ACCURACY),
        ),
    ),
    Paper(
        "maddock",
        "Boosted trees",
        "Maddock, Cormode, Wang, Maple and Jha, *Federated Boosted Decision Trees with "
        "Differential Privacy*, CCS 2022",
        "boosted",
        "boosted",
        _maddock,
        (
            ("ranks first", "cells", "ranks"),
            ("Tables 3", "published", "AUC"),
            ("", "cells", "AUC"),
        ),
    ),
    Paper(
        "liu",
        "Federated extra-trees",
        "Liu et al., *Federated Extra-Trees with Privacy Preserving*, 2020",
        "extra-trees",
        "extra-trees",
        _liu,
        (("F1", "table2", "F1"), ("Figure 3", "figure3", ACCURACY), ("", "table2", ACCURACY)),
    ),
    Paper(
        "consul",
        "Median forests",
        "Consul and Williamson, *Differentially Private Median Forests for Regression and "
        "Classification*, 2020",
        "diprime",
        "diprime",
        _consul,
        (
            ("Table 1", "table1", ERROR),
            ("Table 2", "table2", ACCURACY),
            ("Figure 2", "figure2", ACCURACY),
            ("Figure 1 (a)", "figure1_depth", ERROR),
            ("Figure 1 (b)", "figure1_trees", ERROR),
            ("Figure 1 (c)", "figure1_epsilon", ERROR),
            ("Figure 5", "figure1_depth, figure5_depth", "levels"),
            ("Figure 7", "figure7_8_rho", ERROR),
            ("Figure 8", "figure7_8_rho", ERROR),
            ("", "balance", "part of leaves or nodes"),
        ),
    ),
)
