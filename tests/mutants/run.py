"""Plants every slip in turn and says which of them no test saw: `make mutants`.

A copy of the project for each worker, in a temporary folder. First the named tests run on the
sound source and must pass; then each slip is planted alone and its own test must fail.
Words given as arguments choose the slips whose names hold them; kept verdicts are then left alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from mutants.bench import Bench, Outcome, Verdict
from mutants.page import VERDICTS, keep
from mutants.slip import Slip
from mutants.slips import SLIPS

PROJECT: Final = Path(__file__).parents[2]
WORKERS: Final = 2


def main(words: Sequence[str]) -> int:
    slips = [slip for slip in SLIPS if all(word in slip.words for word in words)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        benches = [Bench(PROJECT, Path(folder) / str(k)) for k in range(WORKERS)]
        outcome = baseline(benches, slips)
        if not outcome.is_clean:
            print("a named test does not pass on the sound source:")
            print(*outcome.failures, *outcome.errors, sep="\n")
            return 1
        print(f"{outcome.passed} tests pass on the sound source", flush=True)
        verdicts = try_all(benches, slips)
    return finish(verdicts, is_whole=not words)


def baseline(benches: Sequence[Bench], slips: Sequence[Slip]) -> Outcome:
    """Every named test once, without any slip, the work divided among the copies."""
    tests = sorted({slip.test for slip in slips})
    parts = [tests[k :: len(benches)] for k in range(len(benches))]
    with ThreadPoolExecutor(len(benches)) as pool:
        pairs = [(bench, part) for bench, part in zip(benches, parts, strict=True) if part]
        found = list(pool.map(lambda pair: pair[0].passes(pair[1]), pairs))
    return Outcome(
        sum(one.passed for one in found),
        tuple(failure for one in found for failure in one.failures),
        tuple(error for one in found for error in one.errors),
    )


def try_all(benches: Sequence[Bench], slips: Sequence[Slip]) -> list[Verdict]:
    free: SimpleQueue[Bench] = SimpleQueue()
    for bench in benches:
        free.put(bench)

    def on_a_free_bench(slip: Slip) -> Verdict:
        bench = free.get()
        try:
            return bench.verdict(slip)
        finally:
            free.put(bench)

    verdicts = list[Verdict]()
    with ThreadPoolExecutor(len(benches)) as pool:
        for verdict in pool.map(on_a_free_bench, slips):
            verdicts.append(verdict)
            told = "caught" if verdict.caught else f"SURVIVED ({verdict.seen})"
            place = f"{len(verdicts):3d}/{len(slips)}"
            print(f"{place} {verdict.seconds:5.1f} s  {verdict.slip.words}: {told}", flush=True)
    return verdicts


def finish(verdicts: Sequence[Verdict], *, is_whole: bool) -> int:
    survived = [verdict for verdict in verdicts if not verdict.caught]
    seconds = sum(verdict.seconds for verdict in verdicts)
    print(f"\n{len(verdicts)} slips, {len(survived)} survived, {seconds:.0f} s of tests")
    for verdict in survived:
        print(f"  {verdict.slip.words} ({verdict.slip.path}): {verdict.seen}")
    if is_whole:
        keep(verdicts)
        print(f"written: {VERDICTS.relative_to(PROJECT)}")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
