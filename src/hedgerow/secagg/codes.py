"""Codes of refusal: a site that refuses sends a constant code and nothing else.

A refusal with free text could contain a count, a column name or a value. Outside a site only these
words are seen; its own log has the traceback.
"""

from __future__ import annotations

from enum import Enum

from hedgerow.errors import SiteRefused


class Code(Enum):
    NOT_APPROVED = "NotApproved"
    STUDY_CLOSED = "StudyClosed"
    POLICY_REFUSED = "PolicyRefused"
    BUDGET_REFUSED = "BudgetRefused"
    BAD_MESSAGE = "BadMessage"
    BAD_SIGNATURE = "BadSignature"
    UNKNOWN_KEY = "UnknownKey"
    UNKNOWN_NAME = "UnknownName"
    DUPLICATE_KEY = "DuplicateKey"
    WEAK_KEY = "WeakKey"
    BAD_KEY = "BadKey"
    ROUND_ID_USED = "RoundIdUsed"
    OLD_ROUND = "OldRound"
    TOO_FEW = "TooFew"
    BAD_SET = "BadSet"
    SECOND_SET = "SecondSet"
    BAD_CERTIFICATE = "BadCertificate"
    STALE = "Stale"
    BAD_SHARE = "BadShare"
    BAD_SHARES = "BadShares"
    RUN_SUPERSEDED = "RunSuperseded"
    LEDGER_ROLLED_BACK = "LedgerRolledBack"
    LEDGER_FORKED = "LedgerForked"
    LEDGER_UNAVAILABLE = "LedgerUnavailable"
    INTERNAL = "Internal"


def require(condition: bool, code: Code, site: int | None = None) -> None:
    """Refuses with `code` unless `condition` holds; `site` is named by the coordinator only."""
    if not condition:
        raise SiteRefused(code.value, site)
