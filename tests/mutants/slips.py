"""All slips there are."""

from __future__ import annotations

from typing import Final

from mutants.slip import Slip
from mutants.slips_of_edges import EDGES
from mutants.slips_of_estimators import COMPARING, EVALUATING, HOLDING, SEVERAL
from mutants.slips_of_failures import CHOICES, COINS, DATABASES, FAILURES
from mutants.slips_of_papers import PAPERS
from mutants.slips_of_privacy import ACCOUNTING, LEDGER, NOISE
from mutants.slips_of_queries import QUERIES
from mutants.slips_of_secagg import SECAGG
from mutants.slips_of_site import READING, SITE
from mutants.slips_of_sizes import LARGE
from mutants.slips_of_study import COORDINATOR, STUDY
from mutants.slips_of_transport import ADMITTING, ENDPOINT, READING_LETTERS

SLIPS: Final[tuple[Slip, ...]] = (
    *NOISE, *ACCOUNTING, *LEDGER, *QUERIES, *SITE, *READING, *SECAGG, *STUDY, *COORDINATOR,
    *ENDPOINT, *READING_LETTERS, *ADMITTING, *PAPERS,
    *SEVERAL, *EVALUATING, *HOLDING, *COMPARING, *LARGE,
    *FAILURES, *DATABASES, *CHOICES, *COINS,
    *EDGES,
)  # fmt: skip
