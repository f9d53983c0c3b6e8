"""A consortium of three on one machine, by the commands that its people would type.

`make demo-network` walks it and shows the result; docs/network_walk.md is its transcript, and a
test walks it again.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from hedgerow.deployment.rehearsal import Walk, enroll_all, free_port, walking

ROOT = Path(__file__).parents[2]
SITES = ("north", "south", "west")
POLICY = """\
methods = ["{method}"]
features = "any"
dp_models = ["distributed"]
epsilon_per_study = "2"
delta_per_study = "1e-5"
fewest_sites = 3

[lifetime]
epsilon = "4"
delta = "1e-5"

[trusted_sites]
{pins}"""
METHOD = "HistogramTreeClassifier"


# ---------------------------------------------------------------------------------- the consortium
ROWS = 10_000
"""Of each hospital: enough that the tree says more than the more frequent answer."""


def write_rows(walk: Walk) -> None:
    """What each hospital has already: a table of its own, and a schema on which all agree."""
    import numpy as np
    import pandas as pd

    from hedgerow.cli.demo import SCHEMA, patients

    rng = np.random.default_rng(0)
    write(walk, "schema.toml", SCHEMA.to_toml())
    for name, n in {**dict.fromkeys(SITES, ROWS), "test": 5000}.items():
        X, y = patients(n, rng)
        table = pd.DataFrame(X, columns=list(SCHEMA.names)).infer_objects().assign(outcome=y)
        table.to_csv(walk.folder / f"{name}.csv", index=False, float_format="%.2f")
    with (walk.folder / f"{SITES[0]}.csv").open(encoding="utf-8") as file:
        walk.keep(f"head -4 {SITES[0]}.csv", "".join(islice(file, 4)))


def write(walk: Walk, name: str, text: str) -> None:
    """A file that somebody edits by hand."""
    (walk.folder / name).write_text(text, encoding="utf-8")
    walk.keep(f"cat {name}", text)


def make_sites(walk: Walk) -> dict[str, dict[str, str]]:
    """Each site makes its folder and its key; what it prints is what it tells the others."""
    said = walk.do_all(
        [f"hedgerow site init {name} --name {name} --anchor anchors/{name}" for name in SITES]
    )
    return _identities(said)


def _identities(said: Sequence[str]) -> dict[str, dict[str, str]]:
    found = [dict(re.findall(r"(public key|fingerprint)\s+(\w+)", text)) for text in said]
    return dict(zip(SITES, found, strict=True))


def draft(walk: Walk, sites: Iterable[str]) -> None:
    """The coordinator writes the study."""
    walk.do(
        "hedgerow study init study --name readmission --estimator HistogramTreeClassifier "
        "--parameter max_depth=3 --schema schema.toml --epsilon 2 --delta 1e-6 --seed 7 "
        + " ".join(f"--site {site}" for site in sites)
    )


def agree(walk: Walk, told: dict[str, dict[str, str]]) -> None:
    """Every site writes down what it allows, looks at its rows, and approves."""
    walk.do("hedgerow study check study")
    for name in SITES:
        peers = [peer for peer in SITES if peer != name]
        pins = "".join(f'{peer} = "{told[peer]["fingerprint"]}"\n' for peer in peers)
        write(walk, f"{name}/policy.toml", POLICY.format(method=METHOD, pins=pins))
    rows = {name: f"study/study.toml --data {name}.csv --target outcome" for name in SITES}
    walk.do_all([f"hedgerow site check {rows[name]}" for name in SITES])
    walk.do_all([f"hedgerow site approve {rows[name]} --state {name} --yes" for name in SITES])


def join(walk: Walk) -> None:
    for name in SITES:
        walk.leave_running(f"hedgerow site serve {name}")
    walk.wait_for([walk.folder / name / "run/socket" for name in SITES])


def look_back(walk: Walk) -> None:
    """The model, and what a site's own people can see afterwards."""
    walk.do("hedgerow show study/model.json")
    walk.do("hedgerow study status study")
    walk.do("hedgerow site status north")
    walk.do("hedgerow ledger verify north")


def over_https(walk: Walk, port: int) -> None:
    """From nothing to a model."""
    write_rows(walk)
    draft(walk, SITES)
    agree(walk, _identities(enroll_all(walk, SITES, port)))
    join(walk)
    walk.do(f"hedgerow study run study --listen 127.0.0.1:{port} --host localhost")
    look_back(walk)


# ----------------------------------------------------------------------------------------- the demo
def show(folder: Path) -> None:
    """How good the model is, and the last lines of one site's audit log."""
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    import hedgerow as hr
    from hedgerow.federation.audit_log import in_words, lines_of

    model = hr.load(folder / "study/model.json")
    test = pd.read_csv(folder / "test.csv")
    accuracy = model.score(test.drop(columns="outcome"), test["outcome"])
    usual = test["outcome"].value_counts(normalize=True).max()
    table = Table("who says whether a patient returns", "accuracy on new patients")
    table.add_row("one tree over three hospitals, rows stay", f"{accuracy:.3f}")
    table.add_row("always the more frequent answer", f"{usual:.3f}")
    Console().print(table)
    print(f"\nThe audit log of {SITES[0]}:")
    for line in list(lines_of(folder / SITES[0] / "audit.jsonl"))[-8:]:
        print(in_words(line))


def demo(steps: Callable[[Walk], None]) -> None:
    """The steps in a folder that is thrown away, and what came of them."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with walking(folder, say=lambda text: print(text, flush=True)) as walk:
            steps(walk)
            show(folder)
    print(f"\nAll processes are stopped. {time.monotonic() - begun:.0f} s.")


# ----------------------------------------------------------------------------------- the transcript
HEAD = """\
# Three sites on one machine, word for word

For engineers who want to see every command and its answer before they type it.

Each hospital has a table of 10,000 invented patients, and all agree on a schema; both are shown
first. Made by `python -m examples.network.walk docs/network_walk.md`; a test walks it again. Keys,
hashes, tokens and times are other ones each time and stand here as `<128 digits>`, `<64 digits>`,
`<16 digits>`, `<token>`, `<six words>` and `<time>`. What ends in `&` goes on running. What each
step is for: [network.md](network.md).

"""
LONG = 10
"""Lines of one command's output that are shown."""


def transcript(walk: Walk, port: int) -> str:
    parts = []
    for command, output in walk.steps:
        lines = masked(output.replace(f"{walk.folder.resolve()}/", ""), port).rstrip().splitlines()
        more = [f"... {len(lines) - LONG} lines more"] if len(lines) > LONG else []
        said = "\n".join([f"$ {masked(command, port)}", *lines[:LONG], *more])
        parts.append(f"```\n{said}\n```\n")
    return HEAD + "\n".join(parts)


def masked(text: str, port: int) -> str:
    """What is another thing each time gets a word instead: keys, hashes, times."""
    text = re.sub(r"\bhr1-[\w-]{20,}", "<token>", text)
    text = re.sub(r"\b[0-9a-f]{128}\b", "<128 digits>", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "<64 digits>", text)
    text = re.sub(r"\b[0-9a-f]{16}\b", "<16 digits>", text)
    word = "[bdfghjklmnprstvz][aiou][bdfghjklmnprstvz][aiou][bdfghjklmnprstvz]"
    text = re.sub(rf"\b{word}( {word}){{5}}\b", "<six words>", text)
    text = re.sub(r"\b\d\d:\d\d:\d\d\b", "<time>", text)
    text = re.sub(r"\b\d+\.\d\d s\b", "<seconds>", text)
    return text.replace(f":{port}", ":8443")


def main(page: str = "") -> None:
    """The demo, or the transcript of a walk as a page."""
    if not page:
        demo(lambda walk: over_https(walk, free_port()))
        return
    with tempfile.TemporaryDirectory() as name, walking(Path(name)) as walk:
        port = free_port()
        over_https(walk, port)
        Path(page).write_text(transcript(walk, port), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
