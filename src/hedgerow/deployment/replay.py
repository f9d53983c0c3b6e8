"""Replay of a transcript: recompute its sums and run the method over them to the same model.

No rows and no sites are needed. Every message is verified against the signature of its site, every
sum is opened from masked vectors, and the method, started with the public seed, must ask exactly
what the transcript shows. The result must be the model and its statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import HedgerowError, ParameterError, RoundFailed
from hedgerow.federation.exchange import LeftOut, RoundSum
from hedgerow.federation.plausibility import Influence, Plausibility
from hedgerow.federation.server import Server
from hedgerow.federation.transcript import Transcript, TranscriptRound
from hedgerow.federation.wire import Sender
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.training import Circumstances, train
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.ledger.charges import ENTRY_ID, MemoryLedger
from hedgerow.privacy.ledger.events import cost_of_text
from hedgerow.privacy.pricing import Priced, entry_charges
from hedgerow.privacy.statement.record import silent
from hedgerow.privacy.study import Study
from hedgerow.secagg.closing import UNASKED, LastWord
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.envelope import NO_SESSION, Envelope, Header, MessageKind, open_shown
from hedgerow.secagg.keys import COORDINATOR, Roster
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.opening import OpenedSum
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.secure_sum import SecureSum
from hedgerow.secagg.session import Graph, KeySession


class TranscriptError(ParameterError):
    """A transcript that is not of this study, not whole, or not what its sites have signed."""


@dataclass(frozen=True)
class TranscriptRun:
    """Reads the messages of one key session in place of a coordinator; writes none."""

    study_hash: bytes
    roster: Roster
    parameters: Parameters
    session: KeySession

    def message(self, kind: MessageKind, site: int, round: int, body: bytes) -> bytes:
        return b""

    def read(self, message: bytes, kind: MessageKind, round: int) -> Envelope:
        envelope = open_shown(message, self.study_hash, self.roster)
        header = envelope.header
        there = (header.kind, header.session_id, header.round, header.receiver)
        require(
            there == (kind, self.session.id, round, COORDINATOR), Code.BAD_MESSAGE, header.sender
        )
        require(header.sender in self.session.ephemerals, Code.UNKNOWN_KEY, header.sender)
        return envelope


@dataclass
class TranscriptSites:
    """The sites of a run according to its transcript, which answers the method's queries."""

    study_file: StudyFile
    transcript: Transcript
    bundles: dict[int, Sequence[Priced]] = field(default_factory=dict)
    _sender: Sender = field(default_factory=Sender)
    _attempt: int = -1
    _largest: Cost = Fraction(0)
    runs: set[bytes] = field(default_factory=set)

    def round(self, number: int, bundle: Sequence[Priced], without: LeftOut = ()) -> RoundSum:
        entry = self.transcript.rounds.get(number)
        if entry is None:
            raise TranscriptError(f"the method asks a round {number}, which is not shown.")
        if entry.attempt != self._attempt:
            self._sender, self._attempt = Sender(), entry.attempt
        if self._sender.encode([item.query for item in bundle]).questions != entry.questions:
            raise TranscriptError(
                f"the method asks something else in round {number} than is shown."
            )
        self.bundles[number] = bundle
        secure = self._sum(entry, bundle)
        if entry.is_void:
            raise RoundFailed(f"round {number} was void.")
        total = self._open(entry, secure)
        selections = tuple(total.selections[place] for place in total.members)
        return RoundSum(total.values, selections, 0, 0, total.members)

    def spent(self) -> Cost:
        """The largest spending that a site reported in its messages."""
        return self._largest

    def _sum(self, entry: TranscriptRound, bundle: Sequence[Priced]) -> SecureSum:
        """The sum with all messages of the round, each verified by signature and context."""
        selections = sum(item.noise is None for item in bundle)
        size = max(sum(item.size for item in bundle), 1)
        place = entry.questions, size, selections, entry.participants, entry.mode
        secure = SecureSum(self._run(entry), entry.number, *place)
        try:
            for message in self._of_kind(entry, MessageKind.MASKED):
                secure.accept_masked(message)
        except HedgerowError as error:
            raise TranscriptError(
                f"round {entry.number}: a message is not right ({error})"
            ) from None
        return secure

    def _open(self, entry: TranscriptRound, secure: SecureSum) -> OpenedSum:
        try:
            secure.close()
            if entry.mode is Mode.IN_TWO:
                for message in self._of_kind(entry, MessageKind.SIGNED_SET):
                    secure.accept_signature(message)
                secure.unmask()
                for message in self._of_kind(entry, MessageKind.SHARES):
                    secure.accept_shares(message)
            return secure.opened()
        except HedgerowError as error:
            raise TranscriptError(f"round {entry.number} does not open: {error}") from None

    def _of_kind(self, entry: TranscriptRound, kind: MessageKind) -> Iterator[bytes]:
        study = self.study_file.study
        for message in entry.messages:
            header = open_shown(message, study.hash, self.study_file.roster).header
            if header.kind is kind:
                self.runs.add(header.run_id)
                spent = cost_of_text(header.ledger.spent)
                self._largest = max(self._largest, spent)
                yield message

    def _run(self, entry: TranscriptRound) -> TranscriptRun:
        """Keys are not signed here: the context that every site has signed is a hash of them."""
        study = self.study_file.study
        if entry.attempt not in self.transcript.key_sessions:
            raise TranscriptError(f"the keys of round {entry.number} are not shown.")
        session_id, keys = self.transcript.key_sessions[entry.attempt]
        parameters = study.parameters
        run_id = next(iter(self.runs), bytes(16))
        session = KeySession(run_id, session_id, keys, {}, Graph.of(parameters, session_id))
        return TranscriptRun(study.hash, self.study_file.roster, parameters, session)


@dataclass(frozen=True)
class ReplayedRun:
    """A run, made again from what its sites answered; nobody is asked."""

    model: PrivateEstimator
    sites: TranscriptSites
    plausibility: Plausibility
    influence: Influence | None

    @property
    def study(self) -> Study:
        return self.sites.study_file.study

    @property
    def rounds(self) -> tuple[Sequence[Priced], ...]:
        return tuple(self.sites.bundles.values())

    @property
    def has_failures(self) -> bool:
        """Then some sites may have been charged for rounds that others never saw."""
        return any(entry.is_void for entry in self.sites.transcript.rounds.values())


def replay_transcript(study_file: StudyFile, transcript: Transcript) -> ReplayedRun:
    """The model that the method learns from these sums; refuses a round that nobody asked for."""
    study, sites = study_file.study, TranscriptSites(study_file, transcript)
    plausibility = Plausibility(study, study_file.rows_at_most, goes_on=True)
    checks = plausibility, study_file.influence
    federation = Server(study, sites, MemoryLedger(study.limit), silent, *checks)
    model = study_file.estimator()
    circumstances = Circumstances(simulated=False, persons_declared=study.by_person)
    train(model, study, study_file.method, federation, circumstances)
    left = sorted(set(transcript.rounds) - set(sites.bundles))
    if left:
        raise TranscriptError(f"the method never asks rounds {left}, which are shown.")
    if len(sites.runs) > 1:
        raise TranscriptError("the messages are of more than one run.")
    model.privacy_ = replace(model.privacy_, about=study_file.about)
    model._name_classes()
    return ReplayedRun(model, sites, *checks)


# The sites' last messages, compared with the transcript.


@dataclass(frozen=True)
class SiteClosing:
    """The CLOSED of one site with both signatures verified."""

    header: Header
    body: LastWord
    digest: bytes


def last_words(study_file: StudyFile, transcript: Transcript) -> dict[int, SiteClosing]:
    """By site; raises for one that is invalid, or of another transcript."""
    closings: dict[int, SiteClosing] = {}
    for message in transcript.last_words:
        try:
            envelope = open_shown(message, study_file.study.hash, study_file.roster)
            header, body = envelope.header, LastWord.read(envelope.body)
            place = header.kind, header.session_id, header.round, header.receiver
            require(place == (MessageKind.CLOSED, NO_SESSION, 0, COORDINATOR), Code.BAD_MESSAGE)
            body.verify(study_file.roster.key_of(header.sender), header)
        except HedgerowError as error:
            raise TranscriptError(f"a CLOSED is not right: {error}") from None
        name = study_file.names[header.sender]
        if body.root not in (transcript.root, UNASKED):
            raise TranscriptError(f"{name} closed another transcript than this one.")
        closings[header.sender] = SiteClosing(header, body, digest("message", message))
    return closings


def problems_of_releases(
    study_file: StudyFile, transcript: Transcript, words: dict[int, SiteClosing]
) -> list[str]:
    """Messages that were changed, that the site never sent, or whose rounds are missing."""
    flaws = []
    for site, word in sorted(words.items()):
        digests = {(release.round, release.kind): release.digest for release in word.body.releases}
        for number, entry in transcript.rounds.items():
            for message in entry.messages:
                header = open_shown(message, study_file.study.hash, study_file.roster).header
                mine = header.sender == site
                if mine and digests.get((number, header.kind)) != digest("message", message):
                    flaws.append(
                        f"{study_file.names[site]} never sent the {header.kind.name} of {number}"
                    )
        hidden = {round for round, _ in digests} - set(transcript.rounds)
        if hidden:
            flaws.append(f"{study_file.names[site]} answered rounds {sorted(hidden)}, not shown")
    return flaws


def problems_of_charges(
    study_file: StudyFile, sites: TranscriptSites, words: dict[int, SiteClosing]
) -> list[str]:
    """Sites whose charges differ from those computed from the queries they answered."""
    flaws, study = [], study_file.study
    for site, word in sorted(words.items()):
        ledger = MemoryLedger(math.inf)
        if entry := entry_charges(study):
            ledger.reserve_once(entry, ENTRY_ID)
        rounds = [item.round for item in word.body.releases if item.kind is MessageKind.MASKED]
        for number in rounds:
            if number in sites.bundles:
                ledger.reserve([item.charge for item in sites.bundles[number]], f"round {number}")
        shown, cost = ledger.spent(study.account), cost_of_text(word.header.ledger.spent)
        if word.body.rounds != len(rounds) or cost > shown:
            part = "" if math.inf in (cost, shown) else f"{float((cost - shown) / study.total):.1%}"
            more = f" cost {part} of the budget and" if part else ""
            extra = word.body.rounds - len(rounds)
            flaws.append(
                f"another run of this study{more} is not shown: {study_file.names[site]} was "
                f"charged {extra} rounds more"
            )
        elif cost != shown:
            flaws.append(f"{study_file.names[site]} says that it was charged less than it answered")
    return flaws
