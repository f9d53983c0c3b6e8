"""`hedgerow study`: what a consortium agrees on, and the coordinator who runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.console import STOPPED, say, tell
from hedgerow.cli.writing import Force, check_output
from hedgerow.privacy.declaration import FIELD_OF, STUDY, TABLES, Entry

if TYPE_CHECKING:
    from hedgerow.deployment.progress import Listen
    from hedgerow.deployment.run_folder import RunFolder
    from hedgerow.federation.exchange import Carrier
    from hedgerow.methods.base import PrivateEstimator

app = typer.Typer(
    help="What several sites agree on, and the coordinator who runs it.", no_args_is_help=True
)
Folder = Annotated[Path, typer.Argument(help="The study's folder.")]
Listening = Annotated[
    str | None, typer.Option("--listen", help="Address and port that sites call, over HTTPS.")
]
Hosts = Annotated[
    list[str] | None, typer.Option("--host", help="A name under which sites call; may be repeated.")
]
Kit = Annotated[
    Path | None, typer.Option("--flare", help="The admin's FLARE kit, instead of --listen.")
]
User = Annotated[str, typer.Option("--flare-user", help="The admin's name in FLARE.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Every event as a line of JSON.")]
Watching = Annotated[
    bool, typer.Option("--watch", help="Also show the run to a browser of this machine.")
]
ADMIN = "admin@coordinator"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds an option for each entry of a study's declaration; they reach it table by table."""

    @wraps(command)
    def typed(**given: Any) -> None:
        declared: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
        for (table, name), of in FIELD_OF.items():
            if (text := given.pop(name)) is not None:
                declared[table][name] = _typed(STUDY[of], text)
        command(**given, declared={table: said for table, said in declared.items() if said})

    options = {
        name: Annotated[str | None, typer.Option(help=STUDY[of].brief)]
        for (_, name), of in FIELD_OF.items()
    }
    own = signature(command, eval_str=True).parameters.values()
    keyword = Parameter.KEYWORD_ONLY
    typed.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            *(one.replace(kind=keyword) for one in own if one.name != "declared"),
            *(Parameter(n, keyword, default=None, annotation=o) for n, o in options.items()),
        ]
    )
    typed.__annotations__ = {n: o.annotation for n, o in signature(typed).parameters.items()}
    return typed


def _typed(one: Entry, text: str) -> Any:
    from hedgerow.deployment import draft

    return draft.typed_number(text) if one.is_rational else draft.typed_value(text)


@app.command()
@with_options
def init(
    folder: Folder,
    declared: dict[str, dict[str, Any]],
    name: Annotated[str | None, typer.Option(help="The study's name.")] = None,
    estimator: Annotated[
        str | None, typer.Option(help="Such as TreeClassifier, or papers.AUTHOR.METHOD.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="A schema file: public ranges, categories, classes.")
    ] = None,
    site: Annotated[
        list[str] | None, typer.Option(help="name=PUBLIC_KEY, once for each site.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="name=value of the estimator; may be repeated.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Public randomness; drawn if not given.")] = None,
) -> None:
    """Writes a commented study.toml and a key for the coordinator; asks for what is missing.

    Where noise is added and how often the promise may fail are the method's own if not given.
    """
    import secrets

    from hedgerow.deployment import draft
    from hedgerow.deployment.study_file import PRINTED

    parameters = dict(draft.typed_parameter(one) for one in parameter or ())
    promise = declared.setdefault("privacy", {})
    if "epsilon" not in promise and PRINTED not in parameters:
        promise["epsilon"] = draft.typed_number(_asked("epsilon", "The promise, epsilon"))
    agreed = draft.draft(
        folder,
        name=name or _asked("name", "Name of the study"),
        estimator=estimator or _asked("estimator", "Estimator, for example TreeClassifier"),
        parameters=parameters,
        schema=schema or Path(_asked("schema", "Schema file")),
        declared=declared,
        sites=dict(draft.site(one) for one in site or _asked_sites()),
        public_seed=secrets.randbelow(2**31) if seed is None else seed,
    )
    tell(f"{folder / 'study.toml'}: read it, then send it to every site.")
    _shown([("study", agreed.study.name), ("hash", agreed.study.account)])


@app.command()
def check(folder: Folder) -> None:
    """What the study will cost, rounds and bytes, and what every party installs and opens."""
    from hedgerow.deployment.dry_run import NEEDS, rehearse
    from hedgerow.deployment.study_file import StudyFile
    from hedgerow.secagg.keys import fingerprint

    agreed = StudyFile.read(folder / "study.toml" if folder.is_dir() else folder)
    study = agreed.study
    _shown(
        [
            ("study", f"{study.name}, {study.account}"),
            ("method", f"{agreed.model.estimator}: {study.recipe}"),
            ("promise", f"epsilon {study.epsilon}, delta {study.delta}: {study.placement.value}"),
            ("sums", f"opened with {study.threshold} of {study.parties} sites at least"),
            ("coordinator", fingerprint(agreed.roster.coordinator)),
        ]
    )
    keys = zip(agreed.names, agreed.roster.sites, strict=True)
    _shown((f"site {name}", fingerprint(key)) for name, key in keys)
    _shown(rehearse(agreed).lines())
    _shown(NEEDS)


def _add_running(name: str, words: str) -> None:
    """`run` and `resume`: the same options, and the same way to the sites."""

    @app.command(name, help=words)
    def command(
        folder: Folder,
        listen: Listening = None,
        host: Hosts = None,
        flare: Kit = None,
        flare_user: User = ADMIN,
        as_json: JsonLines = False,
        watch: Watching = False,
    ) -> None:
        resume = name == "resume"
        _run(folder, listen, host, flare, flare_user, as_json, watch=watch, resume=resume)


_add_running("run", "Trains over all sites; the folder then holds the model and its statement.")
_add_running(
    "resume",
    "Goes on with a run that was stopped; what was answered is not asked, or charged, again.",
)


@app.command()
def status(folder: Folder) -> None:
    """How far a run is, what it has cost, and what happened last."""
    from hedgerow.deployment.run_folder import RunFolder, progress_of

    _shown(progress_of(RunFolder(folder)))


@app.command()
def stop(folder: Folder) -> None:
    """Ends a run after the round that is under way; it can be resumed."""
    from hedgerow.deployment.run_folder import RunFolder
    from hedgerow.errors import SpecError

    found = RunFolder(folder)
    if not found.is_held():
        raise SpecError(f"nobody runs the study in {folder} now; there is nothing to stop.")
    found.stop_file.touch()
    tell("the run ends after its round; `hedgerow study resume` goes on with it.")


@app.command()
def sign(
    folder: Folder,
    request: Annotated[Path, typer.Argument(help="What `hedgerow site request` wrote.")],
    out: Annotated[Path | None, typer.Option(help="The file to send back.")] = None,
    force: Force = False,
) -> None:
    """Certifies a site of the roster for HTTPS; its key never leaves it."""
    from hedgerow.deployment.run_folder import RunFolder
    from hedgerow.federation.transports.certificates import Authority, Request

    found = RunFolder(folder)
    agreed = found.agreed()
    asked = Request.read(request)
    keys = dict(zip(agreed.names, agreed.roster.sites, strict=True))
    authority = Authority.open(found.authority)
    path = out or Path(f"{asked.name}.certificate.pem")
    check_output(path, request, found.study_file, found.key_file, found.authority, force=force)
    path.write_bytes(authority.sign(asked, keys.get(asked.name)))
    tell(f"{path}: send it back. Tell the site this fingerprint by telephone:")
    tell(authority.fingerprint)


@app.command()
def receipts(
    folder: Folder, site: Annotated[str, typer.Argument(help="The site's name in the roster.")]
) -> None:
    """A site's own signed receipts, one a line: for `hedgerow site restore --receipts`."""
    from hedgerow.deployment.run_folder import RunFolder
    from hedgerow.errors import SpecError
    from hedgerow.federation.journal import receipts_of

    names = RunFolder(folder).agreed().names
    if site not in names:
        raise SpecError(f"{site!r} is no site of this study; use one of {sorted(names)}.")
    for line in receipts_of(folder, names.index(site)):
        tell(line)


# ----------------------------------------------------------------------------------------- running
def _run(
    path: Path,
    listen: str | None,
    hosts: list[str] | None,
    kit: Path | None,
    user: str,
    as_json: bool,
    *,
    watch: bool,
    resume: bool,
) -> None:
    from hedgerow.deployment.run import run_study as train
    from hedgerow.deployment.run_folder import RunFolder

    folder = RunFolder(path)
    with (
        _carrier(folder, listen, hosts, kit, user) as carrier,
        _told(folder, as_json, watch) as heard_by,
    ):
        try:
            model = train(folder, carrier, resume=resume, listen=heard_by, show_trees=watch)
        except KeyboardInterrupt:
            tell("interrupted; `hedgerow study resume` goes on with the run.", file=sys.stderr)
            raise typer.Exit(STOPPED) from None
    if not as_json:
        _show_result(folder, model)


@contextmanager
def _carrier(
    folder: RunFolder, listen: str | None, hosts: list[str] | None, kit: Path | None, user: str
) -> Iterator[Carrier]:
    from contextlib import closing

    from hedgerow.errors import SpecError

    agreed = folder.agreed()
    if (listen is None) == (kit is None):
        raise SpecError(
            "say how sites are reached: --listen HOST:PORT for HTTPS, or --flare KIT; one of them."
        )
    if kit is not None:
        from hedgerow.federation.transports.flare import FlareCarrier

        pipe = folder.path / "flare.socket"
        flare = FlareCarrier(kit, user, agreed.names, agreed.study.threshold, pipe)
        with closing(flare):
            yield flare
        return
    from hedgerow.federation.transports.certificates import Authority
    from hedgerow.federation.transports.https import HttpsCarrier

    address, port = _address(listen or "")
    tls = Authority.open(folder.authority).server_context(hosts or [address])
    with closing(HttpsCarrier(agreed.names, tls, address, port)) as door:
        yield door


def _address(text: str) -> tuple[str, int]:
    from hedgerow.errors import SpecError

    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise SpecError(f"--listen is {text!r}; write an address and a port, 0.0.0.0:8443.")
    return host.strip("[]"), int(port)


@contextmanager
def _told(folder: RunFolder, as_json: bool, watch: bool) -> Iterator[Listen]:
    """Whoever listens to the run: the terminal, and with `watch` a browser."""
    terminal = _listener(as_json)
    if not watch:
        yield terminal
        return
    from hedgerow.deployment.live import RunTeller, live_view

    with live_view(folder.agreed().study.name, RunTeller()) as view:
        tell(f"watch the run at {view.address}", file=sys.stderr, flush=True)

        def both(event: dict[str, Any]) -> None:
            terminal(event)
            view.tell(event)

        yield both


def _listener(as_json: bool) -> Listen:
    """JSON for programs, words for a terminal, nothing where nobody looks."""
    import json

    from hedgerow.deployment.progress import event_in_words, ignore

    if as_json:
        return lambda event: tell(json.dumps(event), flush=True)
    if sys.stdout.isatty():
        return lambda event: tell(event_in_words(event), flush=True)
    return ignore


def _show_result(folder: RunFolder, model: PrivateEstimator) -> None:
    tell(f"{folder.model_file} holds the model, with this statement:\n")
    say(str(model.privacy_))


# ------------------------------------------------------------------------------------------ asking
def _asked(option: str, words: str) -> str:
    from hedgerow.errors import SpecError

    if not sys.stdin.isatty():
        raise SpecError(f"--{option} is missing; give it, or run this in a terminal to be asked.")
    return str(typer.prompt(words))


def _asked_sites() -> list[str]:
    found: list[str] = []
    while True:
        words = f"Site {len(found) + 1}, name=PUBLIC_KEY (empty when all are there)"
        answer = _asked("site", words) if len(found) < 2 else typer.prompt(words, default="")
        if not answer:
            return found
        found.append(answer)


def _shown(lines: Iterable[tuple[str, Any]]) -> None:
    for title, words in lines:
        tell(f"{title:>16}  {words}")
