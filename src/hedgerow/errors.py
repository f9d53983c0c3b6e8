"""Everything that can go wrong, as one tree.

HedgerowError
├── ParameterError            what was asked for makes no sense (a parameter, a schema, a study)
├── DataError            rows do not fit the schema (seen only at the site that holds them)
├── BudgetExceeded       the ledger says no; nothing was released
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
    """The root of all that hedgerow raises. Catch it to catch all; print it, since every message
    says what to do.
    """


class PrivacyWarning(UserWarning):
    """Something weakens the guarantee, and the statement says so. Do what the message names, or
    accept the weaker guarantee with open eyes.
    """


class DataWarning(UserWarning):
    """Rows and schema fit badly. Shown to the owner of the rows alone. Look at units, spelling and
    scalers; if the schema is wrong, correct it.
    """


class QualityWarning(UserWarning):
    """A choice costs more accuracy than it has to. The message names the better one."""


class SignalWarning(UserWarning):
    """Noise hides so much of the records that something simpler was trained than was asked for.
    Ask with a larger epsilon, more records or fewer columns.
    """


def warn(words: str, kind: type[Warning]) -> None:
    """Warns at the line that called hedgerow, however deep within it the reason was found."""
    level = 1
    while sys._getframe(level).f_code.co_filename.startswith(PACKAGE_FOLDER):
        level += 1
    warnings.warn(words, kind, stacklevel=level + 1)


class ParameterError(HedgerowError, ValueError):
    """What was asked for makes no sense: a parameter, a schema, a study. Nothing was spent;
    correct what the message names and try again. `problems` are its parts, where it names several.
    """

    problems: list[str]


class DataError(HedgerowError, ValueError):
    """Rows do not fit the schema: correct either. Only the owner of the rows sees this."""


class BudgetExceeded(HedgerowError):
    """The ledger says no, and nothing was released. Ask for less, or have more approved."""


class UnsupportedQuery(HedgerowError):
    """A query that this DP model cannot answer, and nothing was spent. The message names a way
    that can.
    """


class SiteRefused(HedgerowError):
    """A site declined. `code` is one of the constant codes of the secure sum; never free text. Ask
    the people of that site: their own log has the reason.
    """

    def __init__(self, code: str, site: int | str | None = None) -> None:
        who = "a site" if site is None else f"site {site}"
        super().__init__(f"{who} refused with code {code}; its own log says why.")
        self.code = code
        self.site = site


class ComputationFailed(HedgerowError):
    """A site could not compute an answer that it had charged for. Nothing was released, the charge
    stays, and the study is closed at that site: a failure that depended on a record would tell of
    it each time. Find the cause in the site's log; have a new study approved.
    """


class RoundFailed(HedgerowError):
    """A round gave no answer. Its charge stays, since sites may have answered; it is paid from the
    reserve of the study. Find out which site is silent and run again.
    """


class TooFewSites(RoundFailed):
    """Fewer sites survived a round than the guaranteed noise needs. Wait until more are back."""


class EngineLost(HedgerowError):
    """The transport reaches no site at all. Look at the network and ask again later; who
    asks again asks for nothing new.
    """


class RunEnded(HedgerowError):
    """A run cannot go on. The message names who is silent and what was charged. Settle that, then
    `hedgerow study resume` takes the run up where it was.
    """


class LedgerError(HedgerowError):
    """A ledger cannot be trusted or written. Nothing is spent from it until that is settled."""


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
