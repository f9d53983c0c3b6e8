"""How long a message may be, whoever carries it: checked before anything is allocated."""

from __future__ import annotations

from hedgerow.study.limits import MOST_BYTES, MOST_INTEGERS

_BESIDE = 1 << 20
"""Room for headers, signatures, and a sealed share from every site."""

LONGEST_LETTER = 2 * MOST_BYTES + _BESIDE
"""To a site: questions and definitions."""
LONGEST_ANSWER = 8 * MOST_INTEGERS + _BESIDE
"""From a site: a masked vector."""
