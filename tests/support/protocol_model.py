"""The secure sum in symbols: every strategy of a lying coordinator with its colluders, few sites.

The rules of an honest site are those of `hedgerow.secagg.client.Site` and of proofs/Protocol.v.
In symbols a signature cannot be forged, a self-mask is known from `threshold` shares and not from
fewer, a pair mask is known to its two ends and to those to whom one of them reveals it. A search
visits every reachable state of one round and finds the least number of honest summands of any sum
that can be computed then. Rules can be weakened one by one: each weaker site must be found out.

A mode of the protocol is a class with `starts`, `successors` and `computable`; see MODES.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random
from typing import Any

Members = frozenset[int]


def subsets(members: Iterable[int], least: int = 1) -> list[Members]:
    ordered = sorted(members)
    sizes = range(least, len(ordered) + 1)
    return [frozenset(some) for size in sizes for some in combinations(ordered, size)]


@dataclass(frozen=True)
class World:
    """`sites` sites of which the last `colluders` work with the coordinator."""

    sites: int
    colluders: int
    threshold: int

    @property
    def honest(self) -> tuple[int, ...]:
        return tuple(range(self.sites - self.colluders))

    @property
    def friends(self) -> Members:
        return frozenset(range(self.sites - self.colluders, self.sites))

    @property
    def least_honest(self) -> int:
        return self.threshold - self.colluders

    def least_witnesses(self, participants: Members) -> int:
        return len(participants) - self.threshold + self.colluders + 1


@dataclass(frozen=True)
class Rules:
    """What a site checks and does; a field changed is a weaker site."""

    one_set: bool = True
    certificate: bool = True
    missing_signatures: int = 0
    stores_before_sending: bool = True
    remembers_after_restart: bool = True
    is_member: bool = True
    binds_participants: bool = True
    one_answer: bool = True
    falls_back: bool = False
    asks_witnesses: bool = True
    missing_witnesses: int = 0
    witnesses_after_restart: bool = False
    witnesses_are_bound: bool = True


SOUND = Rules()


@dataclass(frozen=True)
class View:
    """What an honest site was asked: participants, and whatever else binds its keys."""

    participants: Members
    context: Hashable = None


@dataclass(frozen=True)
class Deed:
    """What a site has done about a set."""

    members: Members
    signed: bool = False
    opened: bool = False


@dataclass(frozen=True)
class Known:
    """One honest site: the set its memory binds it to, and all that ever left it.

    `proven` is the process that made the vector; `past` are sets that older files of it hold.
    """

    bound: Members | None = None
    deeds: frozenset[Deed] = frozenset()
    proven: bool = True
    past: frozenset[Members] = frozenset()

    def after(
        self, members: Members, *, signed: bool, opened: bool, bound: Members | None
    ) -> Known:
        old = next((deed for deed in self.deeds if deed.members == members), Deed(members))
        new = Deed(members, old.signed or signed, old.opened or opened)
        return replace(self, bound=bound, deeds=frozenset(self.deeds - {old} | {new}))


State = tuple[Known, ...]


def allowed(
    world: World,
    view: View,
    me: int,
    bound: Members | None,
    members: Members,
    signers: Members | None,
    rules: Rules = SOUND,
    witnesses: int | None = None,
) -> bool:
    """Whether a site signs (`signers` None) or opens a set; it was given these signatures.

    `witnesses` counts those of the set that were shown to a process that was started since.
    """
    if witnesses is not None and bound is None and rules.asks_witnesses:
        least = world.least_witnesses(view.participants) - rules.missing_witnesses
        if witnesses < least:
            return False
    fits = len(members) >= world.threshold and members <= view.participants
    fits = fits and (me in members or not rules.is_member)
    fits = fits and (bound in (None, members) or not rules.one_set)
    if not fits or signers is None:
        return fits
    if members == view.participants:
        return not signers
    enough = len(signers) >= world.threshold - rules.missing_signatures
    return not rules.certificate or (enough and signers <= members)


class InTwo:
    """Version 2: masked vectors first, then signatures on the survivors, then shares."""

    def __init__(self, world: World, rules: Rules = SOUND, other_views: bool = False) -> None:
        self.world, self.rules, self.other_views = world, rules, other_views

    def starts(self) -> Iterator[tuple[tuple[View, ...], State]]:
        """One for every way in which the coordinator may name participants."""
        everyone = frozenset(range(self.world.sites))
        lists = subsets(everyone, self.world.threshold) if self.other_views else [everyone]
        named = [[View(some) for some in lists if me in some] for me in self.world.honest]
        empty = tuple(Known() for _ in self.world.honest)
        for views in product(*named):
            yield views, empty

    def successors(self, views: tuple[View, ...], state: State) -> Iterator[State]:
        for k, me in enumerate(self.world.honest):
            for known in self._after_one(views, state, k, me):
                if known != state[k]:
                    yield (*state[:k], known, *state[k + 1 :])

    def _after_one(self, views: tuple[View, ...], state: State, k: int, me: int) -> Iterator[Known]:
        known, rules = state[k], self.rules
        if not rules.remembers_after_restart:
            yield Known(None, known.deeds)
        for members in subsets(views[k].participants, self.world.threshold):
            signers = self._signers(views, state, views[k], members)
            shown = frozenset() if members == views[k].participants else signers
            for signed in (True, False):
                asked = None if signed else shown
                if not allowed(self.world, views[k], me, known.bound, members, asked, rules):
                    continue
                bounds = [members] if rules.stores_before_sending else [members, known.bound]
                for bound in bounds:
                    yield known.after(members, signed=signed, opened=not signed, bound=bound)

    def _signers(
        self, views: tuple[View, ...], state: State, view: View, members: Members
    ) -> Members:
        """All whose signatures on the set the coordinator has, under this view."""
        honest = (
            me
            for k, me in enumerate(self.world.honest)
            if me in members
            and (views[k] == view or not self.rules.binds_participants)
            and any(deed.members == members and deed.signed for deed in state[k].deeds)
        )
        return frozenset(honest) | self.world.friends & members

    def computable(self, views: tuple[View, ...], state: State) -> Iterator[Members]:
        yield from computable(self.world, views, state, self.rules)


def computable(
    world: World, views: tuple[View | None, ...], state: State, rules: Rules = SOUND
) -> Iterator[Members]:
    """The least sums that can be computed, as sets of honest sites.

    A site without a view has sent no vector: masks towards it stay, unless they were revealed.
    """
    honest, n = world.honest, len(world.honest)

    def same(a: int, b: int) -> bool:
        return views[a] == views[b] or not rules.binds_participants

    def names(a: int, b: int) -> bool:
        view = views[a]
        return view is not None and honest[b] in view.participants

    def revealed(a: int, b: int) -> bool:
        return any(d.opened and names(a, b) and honest[b] not in d.members for d in state[a].deeds)

    def shared(a: int, b: int) -> bool:
        return a != b and names(a, b) and names(b, a) and same(a, b)

    def stays(a: int, b: int) -> bool:
        """A mask towards somebody who made another one, or none, and that nobody revealed."""
        return a != b and names(a, b) and not shared(a, b) and not revealed(a, b)

    def gave_share(b: int, a: int) -> bool:
        return any(deed.opened and honest[a] in deed.members for deed in state[b].deeds)

    def shares(a: int) -> int:
        view = views[a]
        friends = len(world.friends & view.participants) if view else 0
        given = (
            same(a, b) and any(d.opened and honest[a] in d.members for d in state[b].deeds)
            for b in range(n)
        )
        return friends + sum(given)

    left = {a for a in range(n) if views[a] is not None}
    while left:
        part, todo = set(), [left.pop()]
        while todo:
            a = todo.pop()
            part.add(a)
            near = {b for b in left if shared(a, b) and not revealed(a, b) and not revealed(b, a)}
            left -= near
            todo += near
        closed = all(not stays(a, b) for a in part for b in range(n))
        if closed and all(shares(a) >= world.threshold for a in part):
            yield frozenset(honest[a] for a in part)


class RolledBack(InTwo):
    """Rounds in two exchanges, when machines are brought back to an earlier day, anchor and all.

    A process that was started after the vector was made needs witnesses for a set that its file
    does not hold. A witness is bound by its word; it is a process that made its vector itself.
    """

    def _after_one(self, views: tuple[View, ...], state: State, k: int, me: int) -> Iterator[Known]:
        known, view = state[k], views[k]
        past = known.past if known.bound is None else known.past | {known.bound}
        for bound in (None, *past):
            yield replace(known, bound=bound, proven=False, past=past)
        may_witness = known.proven or self.rules.witnesses_after_restart
        for members in subsets(view.participants, self.world.threshold):
            if may_witness and known.bound is None and me in members:
                yield replace(known, bound=members)
            signers = self._signers(views, state, view, members)
            shown = frozenset() if members == view.participants else signers
            words = None if known.proven else self._witnesses(state, k, members)
            for signed in (True, False):
                asked = None if signed else shown
                rules = self.rules
                if allowed(self.world, view, me, known.bound, members, asked, rules, words):
                    yield known.after(members, signed=signed, opened=not signed, bound=members)

    def _witnesses(self, state: State, k: int, members: Members) -> int:
        """All that the coordinator can get: of honest sites, those bound to the set."""
        rules, friends = self.rules, len(self.world.friends)
        honest = (
            (other.proven or rules.witnesses_after_restart)
            and self.world.honest[i] in members
            and (other.bound == members or not rules.witnesses_are_bound)
            for i, other in enumerate(state)
            if i != k
        )
        return friends + sum(honest)


class AtOnce:
    """Version 3, rounds in one exchange: pair masks under the participants that a site was named.

    A state is, for each honest site, the lists under which it has answered. When all honest sites
    of a list have, their masks cancel and their sum is open; no signature and no share is needed.
    A site that would fall back to a smaller set of the same vector is a weaker one.
    """

    def __init__(self, world: World, rules: Rules = SOUND, other_views: bool = True) -> None:
        self.world, self.rules = world, rules

    def starts(self) -> Iterator[tuple[Any, Any]]:
        yield (), tuple(frozenset() for _ in self.world.honest)

    def successors(self, views: Any, state: Any) -> Iterator[Any]:
        lists = subsets(range(self.world.sites), self.world.threshold)
        for k, me in enumerate(self.world.honest):
            if state[k] and self.rules.one_answer and not self.rules.falls_back:
                continue
            for some in lists:
                fits = not state[k] or not self.rules.one_answer or some < min(state[k], key=len)
                if me in some and some not in state[k] and fits and len(state[k]) < 2:
                    yield (*state[:k], state[k] | {some}, *state[k + 1 :])

    def computable(self, views: Any, state: Any) -> Iterator[Members]:
        """Open sums and, of two of the same vectors, what the larger has more."""
        answered = {some for lists in state for some in lists}
        honest = frozenset(self.world.honest)
        opened = [
            some & honest
            for some in answered
            if all(some in state[k] for k, me in enumerate(self.world.honest) if me in some)
        ]
        yield from opened
        for small, large in product(opened, opened):
            if small < large:
                yield large - small


MODES = {"in two": InTwo, "at once": AtOnce, "rolled back": RolledBack}


@dataclass(frozen=True)
class Found:
    """What a search saw; `broken` is the first state with a sum of too few honest sites."""

    states: int
    least: int
    whole: bool
    broken: Any = None


def search(mode: InTwo | AtOnce, limit: int = 400_000) -> Found:
    """All states of all starts; stops at the first sum with too few honest summands."""
    states, least = 0, mode.world.sites
    for views, start in mode.starts():
        seen, todo = {start}, [start]
        while todo:
            state = todo.pop()
            least = min((least, *map(len, mode.computable(views, state))))
            if least < mode.world.least_honest or len(seen) > limit:
                return Found(states + len(seen), least, False, state)
            for new in mode.successors(views, state):
                if new not in seen:
                    seen.add(new)
                    todo.append(new)
        states += len(seen)
    return Found(states, least, True)


def play(mode: InTwo | AtOnce, draw: Random, steps: int) -> int:
    """The least sum of one random strategy from the first start."""
    views, state = next(mode.starts())
    least = mode.world.sites
    for _ in range(steps):
        state = draw.choice(list(mode.successors(views, state)) or [state])
        least = min((least, *map(len, mode.computable(views, state))))
    return least
