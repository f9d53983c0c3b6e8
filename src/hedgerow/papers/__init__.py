"""Every method of the five papers under the paper's own name, with the paper's own numbers.

    hr.papers.gubler.algorithm_5(schema, epsilon=1.0).fit(X, y, party=hospital)

Each function returns an ordinary estimator. The table of all of them: `hedgerow.papers.METHODS`.
"""

from __future__ import annotations

from hedgerow.methods import consul as consul
from hedgerow.methods import gubler as gubler
from hedgerow.methods import liu as liu
from hedgerow.methods import maddock as maddock
from hedgerow.methods import wang as wang
from hedgerow.papers.table import METHODS as METHODS
