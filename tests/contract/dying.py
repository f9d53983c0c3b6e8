"""python dying.py KIND NUMBER before|after|full WORDS...: `hedgerow WORDS`, hurt in one exchange.

`before` and `after`: the process kills itself with SIGKILL; nothing is flushed, nothing is said,
no handler runs. `full`: during the exchange no file of the process can grow, as on a full disk.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

from hedgerow.cli.main import entry
from hedgerow.secagg.envelope import Envelope
from hedgerow.transport.endpoint import Endpoint
from hedgerow.transport.post import Post

kind, number, when, *words = sys.argv[1:]
met = 0


def counted(letter: bytes) -> bool:
    """Whether this is the letter to die at."""
    global met
    met += Envelope.parse(letter).header.kind.name == kind
    return met == int(number) and Envelope.parse(letter).header.kind.name == kind


def dying(step, letter_of):
    def killed(self, *given):
        here = counted(letter_of(*given))
        if here and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if here and when == "full":
            return with_full_disk(step, self, *given)
        done = step(self, *given)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return killed


def with_full_disk(step, *given):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        return step(*given)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


Endpoint.step = dying(Endpoint.step, lambda kind, message: message)
if words[0] == "study":
    Post.once = dying(Post.once, lambda letters, *seconds: next(iter(letters.values())))
sys.argv = ["hedgerow", *words]
entry()
