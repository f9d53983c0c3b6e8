"""`hedgerow study`: write, check and run a study as its coordinator."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.console import (
    STOPPED,
    Latency,
    WatchOption,
    Yes,
    address,
    line_printer,
    say,
    tell,
)
from hedgerow.errors import ParameterError
from hedgerow.privacy.declaration import FIELD_OF, STUDY, TABLES

if TYPE_CHECKING:
    from hedgerow.deployment.progress import Listen
    from hedgerow.deployment.run_folder import RunFolder
    from hedgerow.federation.transports.https import HttpsExchange
    from hedgerow.federation.transports.pipe import PipeExchange

app = typer.Typer(help="Set up, check and run a study as its coordinator.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="Use this folder of the study.")]
Listening = Annotated[
    str | None, typer.Option("--listen", help="Listen for sites on this address and port, HTTPS.")
]
Hosts = Annotated[
    list[str] | None, typer.Option("--host", help="Accept calls to this host name; repeat.")
]
Kit = Annotated[
    Path | None, typer.Option("--flare", help="Use the admin's FLARE kit, instead of --listen.")
]
User = Annotated[str, typer.Option("--flare-user", help="Give the admin's name in FLARE.")]
Superlink = Annotated[
    str | None,
    typer.Option("--flower", help="Use this SuperLink of Flower's config.toml, not --listen."),
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print every event as a line of JSON.")]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Continue although sums are implausible for honest sites.")
]
ADMIN = "admin@coordinator"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds an option for each entry of a study's declaration, passed on by table."""

    @wraps(command)
    def typed(**arguments: Any) -> None:
        from hedgerow.deployment import draft

        declared: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
        for (table, name), of in FIELD_OF.items():
            if (text := arguments.pop(name)) is not None:
                declared[table][name] = (
                    draft.typed_number(text, name)
                    if STUDY[of].is_rational
                    else draft.typed_value(text)
                )
        command(
            **arguments, declared={table: values for table, values in declared.items() if values}
        )

    options = {
        name: Annotated[str | None, typer.Option(help=STUDY[of].brief)]
        for (_, name), of in FIELD_OF.items()
    }
    own = signature(command, eval_str=True).parameters.values()
    keyword = Parameter.KEYWORD_ONLY
    typed.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            *(parameter.replace(kind=keyword) for parameter in own if parameter.name != "declared"),
            *(Parameter(n, keyword, default=None, annotation=o) for n, o in options.items()),
        ]
    )
    typed.__annotations__ = {n: o.annotation for n, o in signature(typed).parameters.items()}
    return typed


@app.command()
@with_options
def init(
    folder: Folder,
    declared: dict[str, dict[str, Any]],
    name: Annotated[str, typer.Option(help="Name the study.")],
    estimator: Annotated[
        str, typer.Option(help="Choose TreeClassifier, papers.AUTHOR.METHOD, ...")
    ],
    schema: Annotated[
        Path, typer.Option(help="Read the schema: public ranges, categories, classes.")
    ],
    site: Annotated[
        list[str], typer.Option(help="Add a site, NAME to invite it or NAME=PUBLIC_KEY; repeat.")
    ],
    parameter: Annotated[
        list[str] | None, typer.Option(help="Set a hyperparameter, name=value; repeat.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Set the public seed; random if absent.")] = None,
) -> None:
    """Write a commented study.toml and the coordinator's key.

    Where noise is added and how often the guarantee may fail are the method's own if not given.
    """
    import secrets

    from hedgerow.deployment import draft

    study_file = draft.draft(
        folder,
        name=name,
        estimator=estimator,
        parameters=dict(draft.typed_parameter(item) for item in parameter or ()),
        schema=schema,
        declarations={"privacy": {}, **declared},
        sites=dict(draft.site(item) for item in site),
        public_seed=secrets.randbelow(2**31) if seed is None else seed,
    )
    if study_file is None:
        tell(f"{folder / 'study.toml'}: read it, then get its keys: hedgerow study invite {folder}")
    else:
        tell(f"{folder / 'study.toml'}: read it, then send it to every site.")
        _print_lines([("study", study_file.study.name), ("hash", study_file.study.account)])


NEEDS = (
    ("coordinator", "pip install 'hedgerow[https]'; one TCP port that sites can call"),
    ("each site", "pip install hedgerow; calls outwards to that port; nothing listens"),
    ("over FLARE", "pip install 'hedgerow[flare]' everywhere; the FLARE server's port instead"),
    ("over Flower", "pip install 'hedgerow[flower]' everywhere; the SuperLink's port instead"),
)
"""What every site must install and open."""


@app.command()
def check(folder: Folder, latency: Latency = None) -> None:
    """Check a study: cost, rounds, bytes, and what every site installs and opens."""
    from hedgerow.deployment.approve import guarantee_words
    from hedgerow.deployment.study_file import StudyFile
    from hedgerow.methods.dry_run import forecast
    from hedgerow.secagg.keys import fingerprint

    study_file = StudyFile.read(folder / "study.toml" if folder.is_dir() else folder)
    study = study_file.study
    _print_lines(
        [
            ("study", f"{study.name}, {study.account}"),
            ("method", study.method),
            ("guarantee", guarantee_words(study)),
            ("sums", f"opened with {study.threshold} of {study.n_sites} sites at least"),
            ("coordinator", fingerprint(study_file.roster.coordinator)),
        ]
    )
    keys = zip(study_file.names, study_file.roster.sites, strict=True)
    _print_lines((f"site {name}", fingerprint(key)) for name, key in keys)
    _print_lines(forecast(study, study_file.method, study_file.influence).lines(latency))
    _print_lines(NEEDS)


def _running(name: str, words: str) -> None:
    """Registers `run` and `resume`, which have the same options."""

    @app.command(name, help=words)
    def command(
        folder: Folder,
        listen: Listening = None,
        host: Hosts = None,
        flare: Kit = None,
        flare_user: User = ADMIN,
        flower: Superlink = None,
        as_json: JsonLines = False,
        watch: WatchOption = False,
        anyway: Anyway = False,
    ) -> None:
        from hedgerow.deployment.run import run_study
        from hedgerow.deployment.run_folder import RunFolder

        run_folder = RunFolder(folder)
        with (
            closing(_exchange(run_folder, listen, host, flare, flare_user, flower)) as exchange,
            _listeners(run_folder, as_json, watch) as heard_by,
        ):
            how = {"resume": name == "resume", "show_trees": watch, "anyway": anyway}
            try:
                model = run_study(run_folder, exchange, listen=heard_by, **how)
            except KeyboardInterrupt:
                tell("interrupted; `hedgerow study resume` goes on with the run.", file=sys.stderr)
                raise typer.Exit(STOPPED) from None
        if not as_json:
            tell(f"{run_folder.model_file} holds the model, with this statement:\n")
            say(str(model.privacy_))


_running("run", "Train over all sites; write the model and its privacy statement.")
_running("resume", "Resume a run that was stopped; what was answered is not charged again.")


@app.command()
def status(folder: Folder) -> None:
    """Show the progress of a run, its cost and its last events."""
    from hedgerow.deployment.run_folder import RunFolder, progress_of

    _print_lines(progress_of(RunFolder(folder)))


@app.command()
def stop(folder: Folder) -> None:
    """Stop a run after the current round; it can be resumed."""
    from hedgerow.deployment.run_folder import RunFolder

    run_folder = RunFolder(folder)
    if not run_folder.is_held():
        raise ParameterError(f"nobody runs the study in {folder} now; there is nothing to stop.")
    run_folder.stop_file.touch()
    tell("the run ends after its round; `hedgerow study resume` goes on with it.")


@app.command()
def invite(
    folder: Folder,
    listen: Annotated[str, typer.Option(help="Listen for sites on this address and port.")],
    host: Hosts = None,
    site: Annotated[
        list[str] | None, typer.Option(help="Invite this site, not those of study.toml; repeat.")
    ] = None,
    days: Annotated[float, typer.Option(help="Let tokens expire after N days.")] = 7.0,
    withdraw: Annotated[
        list[str] | None,
        typer.Option(help="Make a new token for a site; its old token or key becomes invalid."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Invite sites by a token each, wait until all enrolled, write their keys into the study.

    It can be stopped and started again: tokens stay valid until they are used or expire.
    """
    from hedgerow.deployment import draft
    from hedgerow.deployment.enrollment import Enrollment, listening
    from hedgerow.deployment.run_folder import RunFolder

    run_folder, (own, port) = RunFolder(folder), address(listen)
    names = site or draft.site_names(run_folder)
    if len(names) < 2:
        raise ParameterError(f"{len(names)} sites are named; name each with --site.")
    hosts, change = host or [own], threading.Event()
    with run_folder.lock():
        enrollment = Enrollment(run_folder, run_folder.own_identity().public)
        for name in withdraw or ():
            enrollment.withdraw(name)
        enrollment.invite(names, f"https://{hosts[0]}:{port}", days)

        def welcome(name: str) -> None:
            words = enrollment.invitations[name].words
            tell(f"{name} has enrolled: {words}", file=sys.stderr, flush=True)
            change.set()

        with listening(enrollment, own, port, hosts, welcome):
            tell(f"Send each site its line, by a way that nobody else reads ({days:g} days):\n")
            for name in enrollment.missing:
                tell(f"{name}\n  hedgerow site enroll {enrollment.token_of(name)}\n", flush=True)
            while enrollment.missing:
                change.wait(1.0)
                change.clear()
        _print_lines((name, item.words) for name, item in enrollment.invitations.items())
        if not yes:
            words = "Read each site its six words out of band (telephone). Do all agree?"
            typer.confirm(words, abort=True)
        study_file = draft.fill_roster(run_folder, {name: enrollment.keys[name] for name in names})
    tell(f"{run_folder.study_file} names all keys: read it, then send it to every site.")
    _print_lines([("study", study_file.study.name), ("hash", study_file.study.account)])


@app.command()
def receipts(
    folder: Folder, site: Annotated[str, typer.Argument(help="Name a site of the roster.")]
) -> None:
    """Print a site's signed receipts, for `hedgerow site restore --receipts`."""
    from hedgerow.deployment.run_folder import RunFolder
    from hedgerow.federation.journal import receipts_of

    names = RunFolder(folder).read_study().names
    if site not in names:
        raise ParameterError(f"{site!r} is no site of this study; use one of {sorted(names)}.")
    for line in receipts_of(folder, names.index(site)):
        tell(line)


def _exchange(
    folder: RunFolder,
    listen: str | None,
    hosts: list[str] | None,
    flare: Path | None,
    flare_user: str,
    flower: str | None,
) -> HttpsExchange | PipeExchange:
    """The way to the sites that was given on the command line."""
    if sum(way is not None for way in (listen, flare, flower)) != 1:
        raise ParameterError(
            "say how sites are reached: --listen HOST:PORT for HTTPS, --flare KIT or "
            "--flower SUPERLINK; one of them."
        )
    study_file = folder.read_study()
    names, pipe = study_file.names, folder.path / "engine.socket"
    if flare is not None:
        from hedgerow.federation.transports.flare import FlareExchange

        return FlareExchange(flare, flare_user, names, study_file.study.threshold, pipe)
    if flower is not None:
        from hedgerow.federation.transports.flower import FlowerExchange

        return FlowerExchange(flower, names, pipe)
    from hedgerow.federation.transports.certificates import Authority
    from hedgerow.federation.transports.https import HttpsExchange

    host, port = address(listen or "")
    tls = Authority.open(folder.authority).server_context(hosts or [host])
    return HttpsExchange(names, tls, host, port)


@contextmanager
def _listeners(folder: RunFolder, as_json: bool, watch: bool) -> Iterator[Listen]:
    """The listeners to a run's events: terminal, metrics, and with `watch` a browser."""
    from hedgerow.deployment.live import RunTeller, live_view
    from hedgerow.deployment.progress import SITES_EVENT, event_in_words

    terminal, name = line_printer(as_json, event_in_words), folder.read_study().study.name
    with live_view(name, RunTeller(), page=watch, socket=folder.metrics) as view:
        if watch:
            tell(f"watch the run at {view.address}", file=sys.stderr, flush=True)

        def both(event: dict[str, Any]) -> None:
            if event["event"] != SITES_EVENT:
                terminal(event)
            view.tell(event)

        yield both


@app.command()
def watch(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of studies, or one that holds several.")
    ],
    metrics: Annotated[
        Path | None, typer.Option(help="Serve /health and /metrics at this Unix socket too.")
    ] = None,
) -> None:
    """Watch the runs of several studies on one page, whichever process runs each."""
    from hedgerow.deployment.live import Follower, RunTeller, follow, live_view
    from hedgerow.deployment.run_folder import RunFolder

    paths = [own for f in folders for own in ([f] if _is_study(f) else sorted(f.glob("*/")))]
    runs = [RunFolder(path) for path in paths if _is_study(path)]
    if not runs:
        raise ParameterError(f"no study.toml in {folders[0]} nor right below; name its folder.")
    tellers = [RunTeller(run.read_study().study.name, has_tree=False) for run in runs]
    title = f"{len(runs)} {'study' if len(runs) == 1 else 'studies'}"
    with live_view(title, *tellers, socket=metrics) as view:
        tell(f"watch {title} at {view.address} (Ctrl-C ends it)", flush=True)
        follow(view, [Follower(run) for run in runs], threading.Event())


def _is_study(folder: Path) -> bool:
    return (folder / "study.toml").is_file()


def _print_lines(lines: Iterable[tuple[str, Any]]) -> None:
    for title, words in lines:
        tell(f"{title:>16}  {words}")
