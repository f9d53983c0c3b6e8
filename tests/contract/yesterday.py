"""python yesterday.py WORDS...: `hedgerow WORDS` on a machine whose clock is a day behind."""

from __future__ import annotations

import sys
import time

from hedgerow.cli.main import entry

if __name__ == "__main__":
    real = time.time
    time.time = lambda: real() - 86_400.0
    sys.argv = ["hedgerow", *sys.argv[1:]]
    entry()
