"""python dying.py KIND NUMBER before|after|full WORDS...: `hedgerow WORDS`, hurt in one exchange.

`before` and `after`: the process kills itself with SIGKILL; nothing is flushed, nothing is said,
no handler runs. `full`: during the exchange no file of the process can grow, as on a full disk.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import dataclass

from hedgerow.cli.main import entry
from hedgerow.federation.client import STEPS
from hedgerow.federation.exchange import _ReplyCollector
from hedgerow.secagg.envelope import Envelope


@dataclass
class Moment:
    """The message to die at: the so-manyth of its kind."""

    kind: str
    number: int
    met: int = 0

    def has_come(self, message: bytes) -> bool:
        mine = Envelope.parse(message).header.kind.name == self.kind
        self.met += mine
        return mine and self.met == self.number


def dying(step, message_of, moment, when):
    def killed(self, *given):
        here = moment.has_come(message_of(self, *given))
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


def main(kind: str, number: str, when: str, *words: str) -> None:
    moment = Moment(kind, int(number))
    for kind_of_message, step in STEPS.items():
        STEPS[kind_of_message] = dying(step, lambda client, message: message, moment, when)
    if words[0] == "study":
        first = lambda asked: next(iter(asked.waiting.values()))  # noqa: E731
        _ReplyCollector._once = dying(_ReplyCollector._once, first, moment, when)
    sys.argv = ["hedgerow", *words]
    entry()


if __name__ == "__main__":
    main(*sys.argv[1:])
