"""python deciding.py WORDS...: `hedgerow WORDS`, an approval that waits once it was found allowed.

It says so in a line, and goes on with the next line that it reads: so two of them can both have
looked at the same budget before either takes it.
"""

from __future__ import annotations

import sys

from hedgerow.cli.main import entry
from hedgerow.deployment import approve


def waiting_after(look):
    looked = []

    def look_and_wait(*given):
        look(*given)
        looked.append(given)
        if len(looked) == 2:  # for the person who is asked, and again when that person has said yes
            print("\nallowed", flush=True)
            sys.stdin.readline()

    return look_and_wait


if __name__ == "__main__":
    approve.require_allowed = waiting_after(approve.require_allowed)
    sys.argv = ["hedgerow", *sys.argv[1:]]
    entry()
