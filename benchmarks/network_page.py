"""Pages of rounds between processes, as they go and with faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import results

# --------------------------------------------------------------------------------------------------
# The page of rounds between processes, from what `bench_network` measured.
MOST_RATIO, MOST_OF_BOOSTING = 2.0, 1.5
HEAD = """\
# What a round costs between processes

For engineers who plan a study.

Written by `python -m benchmarks.bench_network`. All processes on one machine ({machine}); each site
has 1,000 rows and a store on disk, the coordinator a journal. The echo sends as many bytes through
the same transport to the same processes and back. CPU seconds are those of all processes together,
FLARE's and Flower's own among them, means of several turns. Wall seconds are medians on a machine
that others use too, and rough, the more so with more processes than cores: thirty sites over FLARE
are 90. So the goal is held against CPU: at most {ratio:g} times the echo.
[The page of rounds](design/rounds.md) says where the rest goes.

"""
ROUND_COLUMNS = (
    *("transport", "sites", "integers", "sends B", "gets B", "round s", "echo s"),
    *("round CPU", "echo CPU", "ratio", "goal"),
)
BOOSTING = """
## A whole model

The default `BoostedTreesClassifier` over three site processes by HTTPS took {rounds} rounds. The
goal is at most {most:g} times one process, plus as many echoes.

| | wall s | CPU s |
|---|---|---|
| one process | {alone:.2f} | {alone_cpu:.2f} |
| {rounds} echoes | {echoes:.2f} | {echoes_cpu:.2f} |
| three sites | {together:.2f} | {together_cpu:.2f} |
| {most:g} x one process + echoes | {goal:.2f} | {goal_cpu:.2f} |
| goal | {met} | {met_cpu} |
"""
LATENCY = """
## Far away

The same model, when every site calls through a TCP proxy that delays: latency is milliseconds there
and back. By default trees share rounds over several sites; `trees_per_round=1` is one tree a round.
Seconds are wall time of one run each, CPU that of four processes on this machine, exchanges those of
rounds. "In two" opens every round in two exchanges, as all rounds were before.

| latency ms | rounds | exchanges | s | CPU s | in two: exchanges | s | CPU s | one tree a round: rounds | s |
|---|---|---|---|---|---|---|---|---|---|
"""
RAISE = """
A round waits for the slowest site once (twice where a site may be lost and the retry budget cannot
pay for a repetition). `hedgerow study check --latency 40` and `hedgerow plan --sites 5 --latency
40` say rounds, round trips and seconds beforehand. Raise `max_rounds` (26 rounds by default) where
sites are close to each other; lower it, down to about a dozen, where they are far apart or people
have to let every message pass.
"""
SOAK = """
## Many rounds in one process

{sites} sites over HTTPS, {rounds:,} rounds of 1,000 integers: {first:.0f} MB resident at the coordinator and
{site_first:.0f} MB at a site after {early:,} rounds, {last:.0f} MB and {site_last:.0f} MB at the end. The file of a site
had grown to {store:.1f} MB. The coordinator grew by {soon:.1f} kB a round in the first half, while its cache of checked
signatures filled, and by {late:.1f} kB in the second: what each round asked and cost, which its statement lists.
"""
TRANSCRIPTS = """
## Transcripts

Of the default `BoostedTreesClassifier`: what is published for `hedgerow verify --transcript`, without the
sites' last words.

| sites | rounds | MB | of these questions | MB deflated |
|---|---|---|---|---|
"""
MEMORY = """
## Memory of a site

`hedgerow site serve` with one study of boosted trees on {rows:,} rows and {columns} columns, read
from a Parquet file of {file:.0f} MB: {resident:.0f} MB resident once it serves, {highest:.0f} MB at
the highest while it read.
"""


def network_page() -> str:
    parts = results.read("network")
    text = HEAD.format(machine=parts["machine"], ratio=MOST_RATIO)
    text += "".join(map(_row, (ROUND_COLUMNS, ["---"] * len(ROUND_COLUMNS), *_rounds(parts))))
    if "boosting" in parts:
        text += _boosting(parts["boosting"])
    far = [parts[name] for name in parts if name.startswith("latency:")]
    if far:
        text += LATENCY + "".join(map(_far, sorted(far, key=lambda one: one["latency"]))) + RAISE
    for one in (parts[name] for name in parts if name.startswith("soak:")):
        text += _soak(one)
    transcripts = [parts[name] for name in parts if name.startswith("transcript:")]
    if transcripts:
        text += TRANSCRIPTS + "".join(map(_size, sorted(transcripts, key=lambda one: one["sites"])))
    if "memory" in parts:
        found = parts["memory"]
        sizes = {name: found[name] / 1e6 for name in ("resident", "highest")}
        text += MEMORY.format(
            rows=found["rows"], columns=found["columns"], file=found["file_bytes"] / 1e6, **sizes
        )
    return text


def _soak(one: Mapping[str, Any]) -> str:
    first, middle, last = (one["looks"][k] for k in (0, len(one["looks"]) // 2 - 1, -1))

    def rise(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
        return float((b["coordinator"] - a["coordinator"]) / (b["rounds"] - a["rounds"]) / 1e3)

    return SOAK.format(
        sites=one["sites"],
        rounds=one["rounds"],
        early=first["rounds"],
        first=first["coordinator"] / 1e6,
        site_first=first["site"] / 1e6,
        last=last["coordinator"] / 1e6,
        site_last=last["site"] / 1e6,
        store=last["store"] / 1e6,
        soon=rise(first, middle),
        late=rise(middle, last),
    )


def _size(one: Mapping[str, Any]) -> str:
    sizes = (f"{one[name] / 1e6:.2f}" for name in ("bytes", "questions", "deflated"))
    return _row((one["sites"], one["rounds"], *sizes))


def _far(one: Mapping[str, Any]) -> str:
    names = (
        "default_rounds default_exchanges default default_cpu in_two_exchanges in_two in_two_cpu"
    )
    cells = (one[name] for name in (*names.split(), "single_rounds", "single"))
    numbers = (f"{n:.1f}" if isinstance(n, float) else n for n in cells)
    return _row((f"{one['latency']:g}", *numbers))


def _row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _rounds(parts: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    lines = [line for found in parts.values() if isinstance(found, list) for line in found]
    for one in sorted(lines, key=_order):
        ratio = one["round_cpu"] / one["echo_cpu"]
        yield (
            one["transport"], one["sites"], one["integers"], one["bytes_out"], one["bytes_in"],
            f"{one['round']:.3f}", f"{one['echo']:.3f}", f"{one['round_cpu']:.3f}",
            f"{one['echo_cpu']:.3f}", f"{ratio:.1f}", "met" if ratio <= MOST_RATIO else "NO",
        )  # fmt: skip


def _order(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return line["transport"] != "HTTPS", line["transport"], line["sites"], line["integers"]


def _boosting(found: Mapping[str, Any]) -> str:
    goal = MOST_OF_BOOSTING * found["alone"] + found["echoes"]
    goal_cpu = MOST_OF_BOOSTING * found["alone_cpu"] + found["echoes_cpu"]
    return BOOSTING.format(
        most=MOST_OF_BOOSTING,
        goal=goal,
        goal_cpu=goal_cpu,
        met="met" if found["together"] <= goal else "NO",
        met_cpu="met" if found["together_cpu"] <= goal_cpu else "NO",
        **found,
    )


# --------------------------------------------------------------------------------------------------
# The page of faults: what happens, what to do, and what came of every play.
# ruff: noqa: E501


FAULTS_HEAD = """\
# When something goes wrong

For engineers of sites and coordinators: what happens, and what to do.

| what | what happens | what to do |
|---|---|---|
| a site is silent | it is asked the same again, at no charge; with enough others the run goes on without it, and takes it back later | start its process again |
| too few are there | the run waits as long as `[timing]` says, then ends and names the silent | `hedgerow study resume` once they are back: the same round, at no charge |
| the coordinator dies | nothing is lost: what was answered is on disk before it is used | `hedgerow study resume` |
| a site's process dies in a round | if its answer was stored, it is sent again; if not, the others paid for that round, and it is asked once more out of `retry_budget` | start it again |
| a site refuses | the run ends and names the site and a constant code; the reason is in the site's own log | ask the site, then `resume` |
| a site lost its file | it refuses until it knows what it forgot | `hedgerow site restore`, with what `hedgerow study receipts` prints for it |

Why in this order: [rounds](design/rounds.md).

## Played with real processes

Three site processes and a coordinator on one machine, over HTTPS, grow one tree in three rounds;
nobody may be missing when a sum is opened. In each line one process fails once: killed by
SIGKILL before or after it did its part of an exchange (JOIN and OPEN begin a key session, ROUND asks,
UNMASK opens), stopped for ten seconds (`frozen`), unable to write (`full`), cut off by a rule in its
own network namespace until the others have waited in vain (`cut`), or killed and started again with
a clock that is a day behind (`clock`) or ahead (`ahead`). A killed process is started again at once.

Without noise the model must be, bit for bit, that of a run that nobody disturbed. `charged` counts
the rounds in each site's own ledger, which is verified; the second site is the one that fails. A
void round is one that could not be opened any more: a site had died in it before its answer was
stored. Seconds include the restart, on a machine with other work to do.

Played by `python tests/support/play_faults.py`; `tests/deployment/test_faults.py` plays the same.

"""
FAULTS_COLUMNS = ("play", "same model", "rounds", "void", "charged", "each round once", "seconds")
FLARE = """
## Over FLARE

The same study through a FLARE network of one server and three clients. Killed by SIGKILL, before or
after an exchange: the job process of the first site (`job`), FLARE's server with its own job
(`server`), the service of the first site (`site`), or the coordinator (`coordinator`), whose run
`hedgerow study resume --flare` takes up. `during` is in the middle of an exchange, when the first site
has just stored its answer. `unmask-3` is the last exchange of the run. If a job is lost another one
is submitted by itself; `jobs` counts them. Before the first exchange there is no job that could die.
`tests/federation/test_flare.py` plays the same.

"""
FLOWER = """
## Over Flower

The same study through a SuperLink and three SuperNodes with our executors. Killed by SIGKILL: the ServerApp
(`job`), the SuperLink with all it runs (`server`), the SuperNode of the first site (`node`), its executor
(`executor`), or ours as above. Started again at once are all; a SuperNode is refused for a while until the
SuperLink believes that the one before is dead. `tests/federation/test_flower_network.py` plays the same.

"""


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def cells(name: str, play: dict[str, Any]) -> list[str]:
    yes = {True: "yes", False: "NO"}
    return [
        f"`{name}`",
        yes[play["same_model"]],
        str(play["rounds"]),
        str(play["void"]),
        ", ".join(map(str, play["charged"])),
        yes[play["charged_once"]],
        f"{play['seconds']:.0f}",
    ]


def faults_page() -> str:
    plays = results.read("faults")
    https = [cells(name, play) for name, play in plays.items() if "jobs" not in play]
    text = FAULTS_HEAD + "".join(map(row, [FAULTS_COLUMNS, ["---"] * len(FAULTS_COLUMNS), *https]))
    return text + FLARE + _engine("flare", plays) + FLOWER + _engine("flower", plays)


def _engine(engine: str, plays: Mapping[str, dict[str, Any]]) -> str:
    columns = [*FAULTS_COLUMNS, "jobs"]
    of = [name for name, play in plays.items() if "jobs" in play and name.startswith(engine)]
    lines = [[*cells(name, plays[name]), plays[name]["jobs"]] for name in of]
    return "".join(map(row, [columns, ["---"] * len(columns), *lines]))
