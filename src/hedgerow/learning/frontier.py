"""Which open nodes are split next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol, TypeVar

N = TypeVar("N")
_GAIN = attrgetter("gain")


class Gains(Protocol):
    @property
    def gain(self) -> float: ...


class Frontier(Protocol):
    def is_open(self, n_splits: int) -> bool:
        """Whether a node that is asked now could still be split."""
        ...

    def take(self, pending: Mapping[N, Gains], n_splits: int) -> Sequence[N]: ...


@dataclass(frozen=True, slots=True)
class LevelOrder:
    """All open nodes at once: one round a level."""

    def is_open(self, n_splits: int) -> bool:
        return True

    def take(self, pending: Mapping[N, Gains], n_splits: int) -> Sequence[N]:
        return list(pending)


@dataclass(frozen=True, slots=True)
class BestFirst:
    """The node with the largest gain, while splits are left (DP-TopDown, Algorithm 1).

    Departure: children of the last split are not asked. The paper asks and never uses them,
    which its budget does not cover.
    """

    max_splits: int

    def is_open(self, n_splits: int) -> bool:
        return n_splits < self.max_splits

    def take(self, pending: Mapping[N, Gains], n_splits: int) -> Sequence[N]:
        if not pending or not self.is_open(n_splits):
            return []
        # By items: looking nodes up would hash every path of the tree at every split.
        most = max(map(_GAIN, pending.values()))
        return [next(node for node, gains in pending.items() if gains.gain == most)]
