"""What carries letters to sites and answers back: all that an engine must offer.

A letter is a signed message of the secure sum, and so is its answer. A carrier understands
neither; it may lose, repeat, delay and reorder them, and who asks again asks for nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from hedgerow.kernels.threads import each


class Carrier(Protocol):
    """The way to the sites of one study; sites go by their names in the roster."""

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        """Answers that came within `timeout` seconds; silence is absence.

        Returns as soon as everybody has answered. Never raises for one site. May deliver a letter
        twice. Raises EngineLost only if no site can be reached. A refusal is an answer (a constant
        code), and an empty answer is one too.
        """
        ...


class Direct:
    """Sites in this process, on threads if there are several: each maps a letter to its answer."""

    def __init__(self, sites: Mapping[str, Callable[[bytes], bytes]]) -> None:
        self._sites = dict(sites)

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        answers = each(lambda name: self._sites[name](letters[name]), letters)
        return dict(zip(letters, answers, strict=True))
