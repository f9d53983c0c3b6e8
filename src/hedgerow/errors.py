"""All exceptions, as one tree.

HedgerowError
├── ParameterError            an invalid request (a parameter, a schema, a study)
├── DataError            rows do not fit the schema (seen only at the site that holds them)
├── BudgetExceeded       the ledger refused the charge; nothing was released
├── UnsupportedQuery     this DP model cannot answer this query; the message names one that can
├── SiteRefused         a site declined; outside it only a constant code is seen
├── ComputationFailed    a site could not compute what it had charged; its study is closed there
├── RoundFailed          a round gave no answer; its charge stays
│   └── TooFewSites    fewer survivors than the guaranteed noise needs
├── EngineLost           the transport reaches no site at all; ask again later
├── RunEnded             a run cannot go on; the message names who is silent and what was charged
└── LedgerError          the ledger cannot be trusted or written
    ├── LedgerRolledBack   somebody holds a head that is ahead of this file
    ├── LedgerUnavailable  the charge could not be made durable
    └── LedgerBroken       the chain, a signature or a sum does not verify

A message says what was found, what is allowed and what to do.
"""

import sys
import warnings
from pathlib import Path

PACKAGE_FOLDER = str(Path(__file__).parent)


class HedgerowError(Exception):
    """The base class of all hedgerow exceptions. Every message says what to do."""


class PrivacyWarning(UserWarning):
    """Something weakens the guarantee, and the statement says so. Follow the message, or accept the
    weaker guarantee.
    """


class DataWarning(UserWarning):
    """Rows and schema fit badly; shown only to the owner of the rows. Check units, spelling and
    scaling, and correct the schema if it is wrong.
    """


class QualityWarning(UserWarning):
    """A choice costs more accuracy than it has to. The message names the better one."""


class SignalWarning(UserWarning):
    """The noise is so large that a simpler model was trained than requested. Use a larger epsilon,
    more records or fewer columns.
    """


def warn(words: str, kind: type[Warning]) -> None:
    """Warns at the user's line that called hedgerow, however deep the cause is."""
    level = 1
    while sys._getframe(level).f_code.co_filename.startswith(PACKAGE_FOLDER):
        level += 1
    warnings.warn(words, kind, stacklevel=level + 1)


class ParameterError(HedgerowError, ValueError):
    """An invalid request: a parameter, a schema, a study. Nothing was spent; correct what the
    message names and try again. `problems` lists the parts of a message that names several.
    """

    problems: list[str]


class DataError(HedgerowError, ValueError):
    """Rows do not fit the schema: correct either. Only the owner of the rows sees this."""


class BudgetExceeded(HedgerowError):
    """The ledger refused the charge. Nothing was released: ask for less, or have more approved."""


class UnsupportedQuery(HedgerowError):
    """The query does not fit the DP model; the message names one that does. Nothing was spent."""


class SiteRefused(HedgerowError):
    """A site declined. `code` is one of the constant codes of the secure sum, never free text. Ask
    the people of that site: their own log has the reason.
    """

    def __init__(self, code: str, site: int | str | None = None) -> None:
        who = "a site" if site is None else f"site {site}"
        super().__init__(f"{who} refused with code {code}; its own log says why.")
        self.code = code
        self.site = site


class ComputationFailed(HedgerowError):
    """A site could not compute an answer that it had charged for. Nothing was released, the charge
    stays, and the study is closed at that site: if the failure depended on a record, every
    repetition would reveal it. Find the cause in the site's log; have a new study approved.
    """


class RoundFailed(HedgerowError):
    """A round gave no answer. Its charge stays, since sites may have answered; the study's retry
    budget pays for it. Find out which site is silent and run again.
    """


class TooFewSites(RoundFailed):
    """Fewer sites survived a round than the guaranteed noise needs. Wait until more are back."""


class EngineLost(HedgerowError):
    """The transport reaches no site at all. Check the network and repeat the request later; a
    repeated request is not charged again.
    """


class RunEnded(HedgerowError):
    """A run cannot go on. The message names the silent sites and what was charged. Resolve that,
    then `hedgerow study resume` continues the run.
    """


class LedgerError(HedgerowError):
    """A ledger cannot be trusted or written. Nothing is spent from it until that is resolved."""


class LedgerRolledBack(LedgerError):
    """Somebody holds a head that is ahead of this file: it is an older copy. Reconcile it with the
    receipts of the other sites before it spends anything.
    """


class LedgerUnavailable(LedgerError):
    """The charge could not be made durable: the disk is full, or another process serves from the
    file. Nothing was sent.
    """


class LedgerBroken(LedgerError):
    """The chain, a signature or a sum does not verify: the file was damaged or changed. Restore a
    backup and reconcile it.
    """
