"""How cost grows with rows, columns, sites, classes and splits: a table and a figure.

python -m benchmarks.growth               into results.json
python -m benchmarks.growth sites splits  some of them; the others stay
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hedgerow as hr
from benchmarks import results
from benchmarks.works import cpu, normals, schema_of
from hedgerow.data.reading import encoding
from hedgerow.data.rows import Rows
from hedgerow.data.site_rows import draws_of_sites
from hedgerow.federation.transports import in_process
from hedgerow.methods.training import Circumstances, agree, train
from hedgerow.secagg.parameters import Sparse

# --------------------------------------------------------------------------------------------------
# A whole consortium in one process: every site has its own keys, masks and ledger.
ROWS_OF_A_SITE, FEATURES = 20, 8


def tree_over(sites: int, sparse: bool) -> hr.TreeClassifier:
    """Our tree by so many sites of twenty rows; a tenth may collude, a tenth may be lost."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sites * ROWS_OF_A_SITE, FEATURES))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    columns = tuple(hr.Numeric(f"x{j}", -6.0, 6.0) for j in range(FEATURES))
    given = hr.Schema(columns, classes=("0", "1"))
    lost = max(1, sites // 10)
    model = hr.TreeClassifier(
        given, 1.0, 1e-6, random_state=0, colluders=lost, threshold=sites - lost
    )
    study, method = agree(model, given, sites, {"graph": Sparse() if sparse else None})
    site_rows = [
        Rows(encoding.encode(X[k::sites], study.schema, y=y[k::sites]), study.schema, draws)
        for k, draws in enumerate(draws_of_sites(study))
    ]
    train(model, study, method, in_process.open_federation(study, site_rows), Circumstances())
    return model


PART = "growth"


@dataclass(frozen=True)
class Curve:
    grows: str
    work: str
    sizes: Sequence[int]
    seconds: Sequence[float]

    @property
    def name(self) -> str:
        return f"{self.work}, by {self.grows}"

    @property
    def exponent(self) -> float:
        """Of the power of the size that fits best, in logarithms."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])


Prepared = Callable[[], object]
"""A work whose rows are there, so that making them is not timed."""


def boosted(rows: int, columns: int, classes: int = 2, **how: Any) -> Prepared:
    X, y, _ = normals(rows, columns, classes)
    schema = schema_of(columns, classes)
    return partial(hr.BoostedTreesClassifier(schema, 1.0, 1e-6, random_state=0, **how).fit, X, y)


def of_classes(estimator: type[Any], rows: int, **how: Any) -> Prepared:
    X, y, _ = normals(rows, 30)
    return partial(estimator(schema_of(30), 1.0, 1e-6, random_state=0, **how).fit, X, y)


def extra_trees_of_numbers(rows: int) -> Prepared:
    X, _, y = normals(rows, 30)
    model = hr.ExtraTreesRegressor(
        schema_of(30, None), 1.0, 1e-6, n_estimators=5, max_depth=20, random_state=0
    )
    return partial(model.fit, X, y)


def bins(count: int) -> Prepared:
    X, y, _ = normals(50_000, 30)
    schema = schema_of(30).with_grid(bins=count)
    return partial(hr.HistogramTreeClassifier(schema, 1.0, 1e-6, random_state=0).fit, X, y)


def splits(count: int) -> Prepared:
    X, y, _ = normals(20_000, 10)
    model = hr.TopDownTreeClassifier(
        schema_of(10).with_grid(bins=11),
        epsilon=float(count),
        max_splits=count,
        budget="even",
        min_gain=0.0,
        min_fraction_split=0.0,
    )
    return partial(model.fit, X, y, site=np.arange(len(y)) % 2)


MANY, FEW = (62_500, 250_000, 1_000_000), (4_000, 16_000)
Work = Callable[[int], Prepared]
CURVES: dict[tuple[str, str], tuple[Work, tuple[int, ...], tuple[int, ...]]] = {
    ("rows", "default boosted classifier, 30 columns"): (lambda n: boosted(n, 30), MANY, FEW),
    ("columns", "default boosted classifier, 10,000 rows"): (
        *(lambda n: boosted(10_000, n), (30, 100, 300, 1_000), (10, 30)),
    ),
    ("classes", "default boosted classifier, 20,000 x 10"): (
        *(lambda n: boosted(20_000, 10, n), (2, 4, 8, 16), (2, 4)),
    ),
    ("trees", "extra-trees of depth 20, 20,000 x 30"): (
        lambda n: of_classes(hr.ExtraTreesClassifier, 20_000, n_estimators=n),
        *((5, 20, 80), (2, 4)),
    ),
    ("rows", "5 extra-trees of depth 20, 30 columns"): (
        *(lambda n: of_classes(hr.ExtraTreesClassifier, n, n_estimators=5), MANY, FEW),
    ),
    ("rows", "5 extra-trees of numbers, depth 20, 30 columns"): (extra_trees_of_numbers, MANY, FEW),
    ("rows", "tree of private medians, depth 7, 30 columns"): (
        lambda n: of_classes(hr.MedianForestClassifier, n, max_depth=7),
        *((10_000, 40_000, 160_000), (1_000, 4_000)),
    ),
    ("bins", "histogram tree, 50,000 x 30"): (bins, (16, 64, 254), (8, 16)),
    ("sites", "our tree, 20 rows a site, full graph"): (
        *(lambda n: partial(tree_over, n, sparse=False), (10, 30, 90), (3, 9)),
    ),
    ("splits", "best-first tree, 20,000 x 10, 2 sites"): (splits, (32, 128, 512), (8, 32)),
}
"""What grows and the work; its sizes, and such as only show that it runs (`run.py --quick`)."""


def curves(names: Sequence[str]) -> list[Curve]:
    found = []
    for (grows, words), (work, sizes, _) in CURVES.items():
        if names and grows not in names:
            continue
        work(sizes[0])()  # imports and tables of noise laws are paid once a process
        found.append(Curve(grows, words, sizes, [cpu(work(size)) for size in sizes]))
        print(f"{grows}: {words}: exponent {found[-1].exponent:.2f}", found[-1].seconds, flush=True)
    return found


def draw(path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "benchmarks"  # the same numbers, the same bytes
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for curve in kept():
        label = f"{curve.name}: {curve.exponent:.2f}"
        axes.loglog(curve.sizes, curve.seconds, marker="o", label=label)
    axes.set_xlabel("size")
    axes.set_ylabel("CPU seconds")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    found = {curve.name: curve for curve in [*kept(), *curves(sys.argv[1:])]}
    names = [f"{words}, by {grows}" for grows, words in CURVES]
    results.write(PART, {name: asdict(found[name]) for name in names if name in found})


def kept() -> list[Curve]:
    """Those of earlier runs; what is measured again takes their place."""
    return [Curve(**line) for line in results.read(PART).values()]


if __name__ == "__main__":
    main()
