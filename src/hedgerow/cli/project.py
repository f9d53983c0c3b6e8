"""`hedgerow new` and `hedgerow rehearse`: a project folder, and a study run on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.console import Quiet, show_page, tell
from hedgerow.errors import ParameterError

SITES = ("north", "south", "west")
ROWS_PER_SITE = 3000
EPSILON, DELTA = 2, 1e-6

README = """\
# {name}

A study of three sites that hold rows and one coordinator, made by `hedgerow new`.

| file | whose | what to do with it |
|---|---|---|
| study/study.toml | all | what is trained, with which guarantee; change it until everybody agrees |
| study/schema.toml | all | public ranges and categories: known without looking at a row |
| sites/NAME/rows.csv | one site | made-up patients, or the site's own; they never leave |
| sites/NAME/policy.toml | one site | what this site allows, whoever asks |
| compose.yaml | each | the services, for those who run containers |
| Makefile, .github/ | all | the rehearsal for people and for a CI |

Rehearse it: `hedgerow rehearse`. With your own rows: `hedgerow rehearse --data a.csv --data b.csv`.

For real, each on a machine of its own:

    coordinator   hedgerow study invite study --listen 0.0.0.0:8443 --host coordinator.example.org
                  hedgerow study check study
                  hedgerow study run study --listen 0.0.0.0:8443 --host coordinator.example.org
    each site     hedgerow site enroll TOKEN
                  hedgerow site approve study.toml --data rows.csv --target outcome
                  hedgerow site serve NAME
"""
POLICY_TEXT = """\
# What {name} allows, whoever asks. Anything else is refused. `hedgerow site approve` proposes what
# a study lacks here, and asks for each line.

methods = ["{method}"]           # as a study names them; "papers.wang.*" or "any" too
features = "any"                 # columns that studies may use: a list, or "any"
dp_models = ["distributed"]      # where noise is added
epsilon_per_study = "{epsilon}"
delta_per_study = "{delta}"
fewest_sites = 3                 # of two sites each knows the other's part but for its noise

[lifetime]                       # all studies of this site together
epsilon = "8"
delta = "1e-5"

[trusted_sites]                  # fingerprints, confirmed out of band (telephone)
"""
MAKEFILE = """\
# The whole study on this machine; what it wrote stays in rehearsal-1, rehearsal-2, ...
rehearse:
\thedgerow rehearse --no-browser

.PHONY: rehearse
"""
WORKFLOW = """\
# Every change of the study, the schema or a policy is rehearsed, with the made-up rows.
name: rehearse
on: [push, pull_request]
jobs:
  rehearse:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install "hedgerow[https]"
      - run: hedgerow rehearse --no-browser
"""
IGNORED = """\
# Keys, tokens, ledgers and real rows are nobody's but their owner's.
*.key
authority/
enrollment.json
rehearsal-*/
"""
COMPOSE = """\
# Each institution runs its own service on its own machine; the image is that of examples/containers
# (docs: Run it in containers). Commands before the first start, at a site:
#   docker compose run --rm north site enroll TOKEN --state /srv/hedgerow/site \\
#     --anchor /srv/anchor/north
#   docker compose run --rm north site approve /srv/data/study.toml --state /srv/hedgerow/site \\
#     --data /srv/data/rows.csv --target outcome
x-hedgerow: &hedgerow
  image: localhost/hedgerow
  user: "10001:10001"
  read_only: true
  tmpfs: ["/tmp:size=256m"]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  stop_grace_period: 30s
  restart: unless-stopped

services:
{sites}  coordinator:
    <<: *hedgerow
    restart: "no"
    command: [study, run, /srv/hedgerow/study, --listen, "0.0.0.0:8443", --host, coordinator]
    ports: ["8443:8443"]
    volumes: ["coordinator:/srv/hedgerow"]

volumes:
{volumes}  coordinator: {{}}
"""
SITE_SERVICE = """\
  {name}:
    <<: *hedgerow
    volumes: ["{name}:/srv/hedgerow", "{name}-anchor:/srv/anchor", "./sites/{name}:/srv/data:ro"]
"""
METHOD = "BoostedTreesClassifier"


def new(
    name: Annotated[Path, typer.Argument(help="Create this folder; the study takes its name.")],
) -> None:
    """Make a project folder: study, schema, three sites with rows and policies, compose, CI."""
    if name.exists() and any(name.iterdir()):
        raise ParameterError(f"{name} is not empty; name a folder that is new.")
    study = _study_text(name.resolve().name)
    name.mkdir(parents=True, exist_ok=True)
    services = "".join(SITE_SERVICE.format(name=site) for site in SITES)
    volumes = "".join(f"  {site}: {{}}\n  {site}-anchor: {{}}\n" for site in SITES)
    files = {
        "README.md": README.format(name=name.resolve().name),
        "Makefile": MAKEFILE,
        ".github/workflows/rehearse.yml": WORKFLOW,
        ".gitignore": IGNORED,
        "compose.yaml": COMPOSE.format(sites=services, volumes=volumes),
        "study/study.toml": study,
        **{
            f"sites/{site}/policy.toml": POLICY_TEXT.format(
                name=site, method=METHOD, epsilon=EPSILON, delta="1e-6"
            )
            for site in SITES
        },
    }
    for path, text in files.items():
        (name / path).parent.mkdir(parents=True, exist_ok=True)
        (name / path).write_text(text, encoding="utf-8")
    _write_rows(name)
    tell(f"{name}: study/study.toml is what all agree on. Next:\n  cd {name}\n  hedgerow rehearse")


def _study_text(name: str) -> str:
    """The commented study, with a schema in its own file and without keys."""
    from hedgerow.cli.demo import SCHEMA
    from hedgerow.deployment.draft import study_text
    from hedgerow.deployment.study_file import VERSION

    content = {
        "version": VERSION,
        "name": name,
        "public_seed": 7,
        "model": {"estimator": METHOD, "parameters": {"n_estimators": 20}},
        "schema": SCHEMA.to_dict(),
        "privacy": {"epsilon": EPSILON, "delta": DELTA},
        "evaluation": {"hold_out": 5},
        "coordinator": {"key": ""},
        "site": [{"name": site, "key": ""} for site in SITES],
    }
    text = study_text(content, Path("study.toml"))
    own_file = '[schema]\nfile = "schema.toml"\n\n'
    text = re.sub(r"\[schema\]\n.*?(?=\[privacy\])", own_file, text, flags=re.S)
    return re.sub(r"(?m)^(threshold|colluders) = ", r"# \1 = ", text)  # derived from the sites


def _write_rows(folder: Path) -> None:
    """Writes simulated patients and their common schema."""
    import numpy as np

    from hedgerow.cli.demo import SCHEMA, patients, write_table

    rng = np.random.default_rng(0)
    (folder / "study/schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    for site in SITES:
        write_table(folder / f"sites/{site}/rows.csv", *patients(ROWS_PER_SITE, rng))


def rehearse(
    study: Annotated[Path, typer.Argument(help="Use this project, or folder of a study.")] = Path(),
    data: Annotated[
        list[Path] | None,
        typer.Option(help="Read one site's rows from this file, named after the site; repeat."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Name the predicted column, if it is not the only other.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this folder instead of rehearsal-1."),
    ] = None,
    browser: Annotated[
        bool, typer.Option(help="Open the live page and the report in a browser.")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Rehearse a whole study here: real processes, keys, certificates and HTTPS; then stop all.

    Keys, ledgers, logs, the model and its report stay in one folder. Budgets are the rehearsal's.
    """
    import time

    from hedgerow.deployment.rehearsal import RehearsalPlan
    from hedgerow.deployment.rehearsal import rehearse as run

    plan = RehearsalPlan.of(study, data or (), target)
    numbered = (study / f"rehearsal-{k}" for k in range(1, 10_000))
    folder = output or next(path for path in numbered if not path.exists())
    if folder.exists():
        raise ParameterError(f"{folder} is there already; name a folder that is new.")
    begun = time.monotonic()

    def say(line: str) -> None:
        if not quiet and line.startswith("$ "):
            tell(re.sub(r"(hr1-\S{8})\S+", r"\1...", line), flush=True)

    def show(address: str) -> None:
        tell(f"live: {address}", flush=True)
        if browser:
            show_page(address)

    result = run(plan, folder, say, show)
    if browser:
        show_page(str(result.report_file))
    tell(
        f"\nAll processes are stopped, after {time.monotonic() - begun:.0f} s. {folder} keeps all: "
        f"transcript.txt, every site's folder, and in study/ the model and its report\n"
        f"  {result.report_file}"
    )
