"""Plants every mutant in turn and says which of them no test saw: `make mutants`.

A copy of the project for each worker, in a temporary folder. First the named tests run on the
sound source and must pass; then each mutant is planted alone and its own test must fail.
Words given as arguments choose the mutants whose names hold them; kept verdicts are then left
alone.
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
from mutants.mutant import Mutant
from mutants.mutants import MUTANTS
from mutants.page import VERDICTS, keep

PROJECT: Final = Path(__file__).parents[2]
WORKERS: Final = 2


def main(words: Sequence[str]) -> int:
    mutants = [mutant for mutant in MUTANTS if all(word in mutant.words for word in words)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        benches = [Bench(PROJECT, Path(folder) / str(k)) for k in range(WORKERS)]
        outcome = baseline(benches, mutants)
        if not outcome.is_clean:
            print("a named test does not pass on the sound source:")
            print(*outcome.failures, *outcome.errors, sep="\n")
            return 1
        print(f"{outcome.passed} tests pass on the sound source", flush=True)
        verdicts = try_all(benches, mutants)
    return finish(verdicts, is_whole=not words)


def baseline(benches: Sequence[Bench], mutants: Sequence[Mutant]) -> Outcome:
    """Every named test once, without any mutant, the work divided among the copies."""
    tests = sorted({mutant.test for mutant in mutants})
    parts = [tests[k :: len(benches)] for k in range(len(benches))]
    with ThreadPoolExecutor(len(benches)) as pool:
        pairs = [(bench, part) for bench, part in zip(benches, parts, strict=True) if part]
        found = list(pool.map(lambda pair: pair[0].passes(pair[1]), pairs))
    return Outcome(
        sum(one.passed for one in found),
        tuple(failure for one in found for failure in one.failures),
        tuple(error for one in found for error in one.errors),
    )


def try_all(benches: Sequence[Bench], mutants: Sequence[Mutant]) -> list[Verdict]:
    free: SimpleQueue[Bench] = SimpleQueue()
    for bench in benches:
        free.put(bench)

    def on_a_free_bench(mutant: Mutant) -> Verdict:
        bench = free.get()
        try:
            return bench.verdict(mutant)
        finally:
            free.put(bench)

    verdicts = list[Verdict]()
    with ThreadPoolExecutor(len(benches)) as pool:
        for verdict in pool.map(on_a_free_bench, mutants):
            verdicts.append(verdict)
            told = "caught" if verdict.caught else f"SURVIVED ({verdict.seen})"
            place = f"{len(verdicts):3d}/{len(mutants)}"
            print(f"{place} {verdict.seconds:5.1f} s  {verdict.mutant.words}: {told}", flush=True)
    return verdicts


def finish(verdicts: Sequence[Verdict], *, is_whole: bool) -> int:
    survived = [verdict for verdict in verdicts if not verdict.caught]
    seconds = sum(verdict.seconds for verdict in verdicts)
    print(f"\n{len(verdicts)} mutants, {len(survived)} survived, {seconds:.0f} s of tests")
    for verdict in survived:
        print(f"  {verdict.mutant.words} ({verdict.mutant.path}): {verdict.seen}")
    if is_whole:
        keep(verdicts)
        print(f"written: {VERDICTS.relative_to(PROJECT)}")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
