"""Everything that can go wrong, as one tree.

HedgerowError
├── SpecError            what was asked for makes no sense (a parameter, a schema, a study)
├── DataError            rows do not fit the schema (seen only at the site that holds them)
├── BudgetExceeded       the ledger says no; nothing was released
├── UnsupportedQuery     this placement cannot answer this query; the message names one that can
├── PartyRefused         a site declined; outside it only a constant code is seen
├── RoundFailed          a round gave no answer; its charge stays
│   └── TooFewParties    fewer survivors than the promised noise needs
├── EngineLost           whatever carries letters reaches no site at all; ask again later
├── RunEnded             a run cannot go on; the message names who is silent and what was charged
└── LedgerError          the ledger cannot be trusted or written
    ├── LedgerRolledBack   somebody holds a head that is ahead of this file
    ├── LedgerUnavailable  the charge could not be made durable
    └── LedgerBroken       the chain, a signature or a sum does not verify

A message says what was found, what is allowed and what to do.
"""


class HedgerowError(Exception):
    """The root: catch this to catch all of hedgerow's own errors."""


class PrivacyWarning(UserWarning):
    """Something weakens the promise and is said so in the statement."""


class SignalWarning(UserWarning):
    """Noise hides so much of the records that something simpler was trained than was asked for."""


class SpecError(HedgerowError, ValueError):
    pass


class DataError(HedgerowError, ValueError):
    pass


class BudgetExceeded(HedgerowError):
    pass


class UnsupportedQuery(HedgerowError):
    pass


class PartyRefused(HedgerowError):
    """A site declined. `code` is one of the constant codes of the secure sum; never free text."""

    def __init__(self, code: str, party: int | None = None) -> None:
        who = "a site" if party is None else f"site {party}"
        super().__init__(f"{who} refused with code {code}; its own log says why.")
        self.code = code
        self.party = party


class RoundFailed(HedgerowError):
    pass


class TooFewParties(RoundFailed):
    pass


class EngineLost(HedgerowError):
    pass


class RunEnded(HedgerowError):
    pass


class LedgerError(HedgerowError):
    pass


class LedgerRolledBack(LedgerError):
    pass


class LedgerUnavailable(LedgerError):
    pass


class LedgerBroken(LedgerError):
    pass
