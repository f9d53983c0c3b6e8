"""A whole consortium in one process: every site has its own keys, masks and ledger."""

from __future__ import annotations

import numpy as np

import hedgerow as hr
from hedgerow.data.reading import encoding
from hedgerow.data.rows import Rows
from hedgerow.data.site_rows import draws_of_sites
from hedgerow.federation.transports import in_process
from hedgerow.methods.training import Circumstances, agree, train
from hedgerow.secagg.parameters import Sparse

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
