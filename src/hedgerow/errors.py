"""Exceptions and warnings of hedgerow.

HedgerowError
├── ParameterError         an invalid parameter, schema or study
├── DataError              rows do not fit the schema (visible only at the site that has them)
├── BudgetExceeded         the ledger refused; nothing was released
├── UnsupportedQuery       this DP model cannot answer this query; the message names one that can
├── SiteRefused            a site declined; others see only a constant code
├── ComputationFailed      a site could not compute what it had charged; its study is closed there
├── RoundFailed            a round got no answer; its charge stays
│   └── TooFewSites        fewer survivors than the guaranteed noise needs
├── EngineLost             the transport reaches no site; try again later
├── RunEnded               a run cannot continue; the message names silent sites and charges
└── LedgerError            the ledger cannot be trusted or written
    ├── LedgerRolledBack   a site or the coordinator has a head that is ahead of this file
    ├── LedgerUnavailable  the charge could not be made durable
    └── LedgerBroken       the chain, a signature or a sum does not verify

A message says what was found, what is allowed and what to do.
"""

import sys
import warnings
from pathlib import Path

PACKAGE_FOLDER = str(Path(__file__).parent)


class HedgerowError(Exception):
    """The base class of all errors of hedgerow. Every message says what to do."""


class PrivacyWarning(UserWarning):
    """Something weakens the guarantee, and the statement says so.

    Follow the advice of the message, or accept the weaker guarantee.
    """


class DataWarning(UserWarning):
    """Rows and schema fit badly; only the owner of the rows sees this.

    Check units, spelling and scalers; if the schema is wrong, correct it.
    """


class QualityWarning(UserWarning):
    """A choice costs more accuracy than necessary. The message names a better one."""


class SignalWarning(UserWarning):
    """The noise is so large that a simpler model was trained than requested.

    Use a larger epsilon, more records or fewer columns.
    """


def warn(words: str, kind: type[Warning]) -> None:
    """Warns at the line that called hedgerow, however deep within it the reason arose."""
    level = 1
    while sys._getframe(level).f_code.co_filename.startswith(PACKAGE_FOLDER):
        level += 1
    warnings.warn(words, kind, stacklevel=level + 1)


class ParameterError(HedgerowError, ValueError):
    """An invalid parameter, schema or study; nothing was spent.

    Correct what the message names and try again. `problems` lists several problems separately.
    """

    problems: list[str]


class DataError(HedgerowError, ValueError):
    """Rows do not fit the schema: correct either. Only the owner of the rows sees this."""


class BudgetExceeded(HedgerowError):
    """The ledger refused, and nothing was released. Ask for less, or get more approved."""


class UnsupportedQuery(HedgerowError):
    """The study's DP model cannot answer the query; nothing was spent.

    The message names a DP model that can.
    """


class SiteRefused(HedgerowError):
    """A site declined; `code` is one of the constant codes of the secure sum, never free text.

    Ask the people of that site: their own log has the reason.
    """

    def __init__(self, code: str, site: int | str | None = None) -> None:
        who = "a site" if site is None else f"site {site}"
        super().__init__(f"{who} refused with code {code}; its own log says why.")
        self.code = code
        self.site = site


class ComputationFailed(HedgerowError):
    """A site could not compute an answer that it had charged for.

    Nothing was released, the charge stays, and the study is closed at that site: a failure that
    depended on a record would reveal it each time. Find the cause in the site's log and get a new
    study approved.
    """


class RoundFailed(HedgerowError):
    """A round got no answer; its charge stays, since sites may have answered.

    It is paid from the study's retry budget. Find out which site is silent and run again.
    """


class TooFewSites(RoundFailed):
    """Fewer sites survived a round than the guaranteed noise needs. Wait until more are back."""


class EngineLost(HedgerowError):
    """The transport reaches no site at all.

    Check the network and try again later; a retry costs nothing new.
    """


class RunEnded(HedgerowError):
    """A run cannot continue; the message names the silent sites and what was charged.

    Resolve that, then `hedgerow study resume` continues the run.
    """


class LedgerError(HedgerowError):
    """A ledger cannot be trusted or written. Nothing is spent from it until that is resolved."""


class LedgerRolledBack(LedgerError):
    """Another site or the coordinator has a newer head: the file is an older copy.

    Reconcile it with the receipts of the other sites before it spends anything.
    """


class LedgerUnavailable(LedgerError):
    """The charge could not be made durable: the disk is full, or another process uses the file.

    Nothing was sent.
    """


class LedgerBroken(LedgerError):
    """The chain, a signature or a sum does not verify: the file was damaged or changed.

    Restore a backup and reconcile it.
    """
