"""All mutants there are."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant
from mutants.mutants_of_edges import EDGES
from mutants.mutants_of_estimators import COMPARING, EVALUATING, HOLDING, SEVERAL
from mutants.mutants_of_failures import CHOICES, COINS, DATABASES, FAILURES
from mutants.mutants_of_old_faults import OLD_FAULTS
from mutants.mutants_of_papers import PAPERS
from mutants.mutants_of_privacy import ACCOUNTING, LEDGER, NOISE, REMAINDERS
from mutants.mutants_of_queries import QUERIES
from mutants.mutants_of_secagg import SECAGG
from mutants.mutants_of_shadow import SHADOW
from mutants.mutants_of_site import READING, SITE
from mutants.mutants_of_sizes import LARGE
from mutants.mutants_of_study import COORDINATOR, STUDY
from mutants.mutants_of_transport import ADMITTING, ENDPOINT, READING_MESSAGES

MUTANTS: Final[tuple[Mutant, ...]] = (
    *NOISE, *ACCOUNTING, *REMAINDERS, *LEDGER, *QUERIES, *SITE, *READING, *SECAGG, *STUDY,
    *COORDINATOR, *ENDPOINT, *READING_MESSAGES, *ADMITTING, *PAPERS,
    *SEVERAL, *EVALUATING, *HOLDING, *COMPARING, *LARGE,
    *FAILURES, *DATABASES, *CHOICES, *COINS,
    *EDGES, *OLD_FAULTS, *SHADOW,
)  # fmt: skip
