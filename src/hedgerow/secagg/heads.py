"""Ledgers only grow: what a site knows of the end of its own and of its peers'.

A file that was brought back to an earlier day is a good file, seen from inside. Others remember
how far it had come, and tell; a head counts only with the signature of the site it is of, so
that nobody can stop a site with a head that it never had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import DIGEST
from hedgerow.secagg.envelope import Position, SignedHead, follows
from hedgerow.secagg.epoch import Joining
from hedgerow.secagg.keys import Roster
from hedgerow.secagg.memory import Memory


@dataclass(frozen=True, slots=True)
class Heads:
    """What site `me` of a roster remembers and compares."""

    memory: Memory
    roster: Roster
    me: int

    def meet(self, head: Position) -> None:
        """Somebody holds a head of mine: it must be on my chain, else my file went back."""
        seq, found = head
        mine = bytes(DIGEST) if seq == 0 else self.memory.head_at(seq)
        require(mine == found, Code.LEDGER_ROLLED_BACK)

    def check(self, joining: Iterable[Joining]) -> None:
        """Refuses an epoch in which my ledger, or that of a peer, has gone back."""
        for one in joining:
            told = one.heads.get(self.me)
            if told is not None and told.is_by(self.roster.sites[self.me]):
                self.meet(told.head)
            seen = self.memory.highest_head(self.roster.sites[one.sender])
            require(seen is None or follows(one.head, seen), Code.LEDGER_ROLLED_BACK)

    def keep(self, joining: Iterable[Joining]) -> None:
        for one in joining:
            self.memory.see_head(self.roster.sites[one.sender], one.receipt)

    def told(self) -> dict[int, SignedHead]:
        """The highest head of each peer, in its own words, to be told to all."""
        peers = (site for site in range(len(self.roster.sites)) if site != self.me)
        seen = {peer: self.memory.signed_head(self.roster.sites[peer]) for peer in peers}
        return {peer: head for peer, head in seen.items() if head is not None}
