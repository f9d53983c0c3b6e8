"""A mutant: one plausible mistake in the source, and the test that has to see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class NoPlace(ValueError):
    """The text that a mutant replaces is not in its file exactly once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`words` are its name; `path` is below src/hedgerow, `test` a pytest id below tests."""

    words: str
    path: str
    old: str
    new: str
    test: str

    def file(self, root: Path) -> Path:
        return root / "src" / "hedgerow" / self.path

    def planted(self, source: str) -> str:
        """The source with the mistake in it."""
        found = source.count(self.old)
        if found != 1:
            raise NoPlace(
                f"mutant {self.words!r}: its old text is {found} times in {self.path}; quote a "
                "text "
                "that is there once."
            )
        return source.replace(self.old, self.new)
