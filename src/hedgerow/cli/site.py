"""`hedgerow site`: an institution that holds rows, says yes or no, and answers what it allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.console import tell
from hedgerow.cli.writing import Force, check_output

if TYPE_CHECKING:
    from hedgerow.deployment.site_state import DataPlace, StateFolder
    from hedgerow.federation.audit_log import AuditLine
    from hedgerow.secagg.keys import Identity

app = typer.Typer(
    help="An institution that holds rows: what it allows, what it serves.", no_args_is_help=True
)
State = Annotated[Path, typer.Argument(help="The site's state folder.")]
StudyPath = Annotated[Path, typer.Argument(help="The study file, study.toml.")]
Data = Annotated[
    str,
    typer.Option(
        help="A .csv, .parquet or .arrow file, a folder or a pattern of them; with --sql a DuckDB "
        "file or postgresql://..."
    ),
]
Sql = Annotated[str | None, typer.Option(help="What to select, where --data is a database.")]
PushDown = Annotated[
    bool, typer.Option("--push-down", help="The database makes the sums; integers come back.")
]
TargetColumn = Annotated[str, typer.Option(help="The column of labels or targets.")]
Person = Annotated[str | None, typer.Option(help="The column that says whose record a row is.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; somebody has read it.")]
Wanted = Annotated[str, typer.Argument(help="A study's name, or how its hash begins.")]


@app.command()
def init(
    state: State,
    name: Annotated[str, typer.Option(help="The site's name in rosters.")],
    anchor: Annotated[
        Path,
        typer.Option(help="A file elsewhere that remembers the ledger's end; not backed up."),
    ],
) -> None:
    """Makes a new site: a key, a policy that allows nothing, no budget."""
    from hedgerow.deployment.site_state import StateFolder

    made = StateFolder.create(state, name, anchor)
    _show_identity(made.name, made.identity())
    tell(f"\nNow write down what this site allows: {made.policy_file}")


@app.command()
def check(
    study: StudyPath,
    data: Data,
    target: TargetColumn = "target",
    person: Person = None,
    sql: Sql = None,
    push_down: PushDown = False,
) -> None:
    """Reads the rows against a study. Spends nothing, writes nothing, sends nothing."""
    from hedgerow.deployment.approve import check as find
    from hedgerow.deployment.study_file import StudyFile

    rows, report = find(StudyFile.read(study), _rows_at(data, target, person, sql, push_down))
    tell(report)
    tell(f"rows that can be used: {rows}")
    for complaint in report.complaints:
        tell(f"look at this: {complaint}")
    if not rows:
        tell(f"look at this: no row can be used; compare the column {target!r} with the classes")
    raise typer.Exit(1 if report.complaints or not rows else 0)


@app.command()
def approve(
    state: State,
    study: StudyPath,
    data: Data,
    target: TargetColumn = "target",
    person: Person = None,
    sql: Sql = None,
    push_down: PushDown = False,
    coordinator: Annotated[
        str | None,
        typer.Option(help="Whom to call, https://host:port; none if FLARE brings the letters."),
    ] = None,
    authority: Annotated[
        str | None, typer.Option(help="Whose certificate to show, if there are several.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Shows what will leave and what it costs, asks, and reserves the whole cap."""
    from hedgerow.deployment import approve as approving
    from hedgerow.deployment.site_state import StateFolder
    from hedgerow.deployment.study_file import StudyFile
    from hedgerow.federation.audit_log import Audit

    folder = StateFolder.open(state)
    agreed = StudyFile.read(study)
    place = _rows_at(data, target, person, sql, push_down)
    place = _called(folder, place, coordinator, authority)
    for what, words in approving.what_leaves(agreed):
        tell(f"{what:>14}  {words}")
    audit = Audit(folder.audit_file)
    approving.require_allowed(folder, agreed, audit)
    costs = approving.lifetime_words(folder, agreed.study)
    tell(f"{'costs':>14}  {costs} of this site's lifetime")
    approving.check(agreed, place)
    if not yes and not typer.confirm("Compare the hash with the other sites. Approve?"):
        approving.decline(agreed, audit)
        raise typer.Abort
    approving.approve(folder, agreed, place, audit)
    tell(f"approved: {agreed.study.name}, {agreed.study.account}")


@app.command()
def revoke(state: State, study: Wanted, yes: Yes = False) -> None:
    """Ends a study here for good; what it did not spend is free again."""
    from hedgerow.deployment.approve import find_study
    from hedgerow.deployment.approve import revoke as end
    from hedgerow.deployment.site_state import StateFolder
    from hedgerow.federation.audit_log import Audit

    folder = StateFolder.open(state)
    name = find_study(folder, study).path.name
    if not yes:
        typer.confirm(f"{name} ends here for good and cannot be approved again. End?", abort=True)
    tell(f"revoked: {end(folder, name, Audit(folder.audit_file))}")


@app.command()
def join(
    state: State,
    as_json: Annotated[bool, typer.Option("--json", help="Every line as JSON.")] = False,
    socket: Annotated[
        Path | None, typer.Option(help="Where network engines knock, instead of run/socket.")
    ] = None,
    socket_group: Annotated[
        str | None, typer.Option(help="Users of this group may knock there too.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Also show it to a browser of this machine.")
    ] = False,
) -> None:
    """Serves all approved studies until stopped. Calls outwards; nothing listens on a network."""
    import signal
    import threading
    from contextlib import closing

    from hedgerow.deployment.serve import Serving, prepare
    from hedgerow.deployment.site_state import StateFolder

    folder = StateFolder.open(state)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as from the keyboard, until served
    prepare(folder)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with (
        _told(folder, as_json, watch) as heard_by,
        closing(
            Serving(folder, tell=heard_by, socket=socket, group=socket_group, stopped=stopped)
        ) as serving,
    ):
        serving.run()


@app.command()
def status(state: State) -> None:
    """Who this site is, what it has given away, what it serves, what happened last."""
    from hedgerow.deployment.approve import ledger_of, printed_cost
    from hedgerow.deployment.site_state import StateFolder
    from hedgerow.federation.audit_log import in_words, lines_of

    folder = StateFolder.open(state)
    _show_identity(folder.name, folder.identity())
    with ledger_of(folder) as ledger, ledger.current() as books:
        if books.lifetime is not None:
            words = f"{printed_cost(books.committed)} of {printed_cost(books.lifetime.limit)}"
            tell(f"{'lifetime':>14}  {books.lifetime.measure.value} {words} is given away")
        rows = [
            (
                a.name or "-",
                study[:16],
                "open" if a.open else "ended",
                printed_cost(a.spent),
                printed_cost(a.cap),
                a.measure.value,
            )
            for study, a in books.accounts.items()
        ]
    _table(("study", "hash", "state", "spent", "cap", "counted in"), rows)
    for line in list(lines_of(folder.audit_file))[-5:]:
        tell(in_words(line))


@app.command()
def backup(
    state: State, target: Annotated[Path, typer.Argument(help="A folder that is new.")]
) -> None:
    """Copies the state folder, also while the site serves. The anchor stays where it is."""
    from hedgerow.deployment.backup import backup as copy
    from hedgerow.deployment.site_state import StateFolder

    copy(StateFolder.open(state), target)
    tell(f"{target} holds a copy, the site's key included; keep it as you keep the key.")


@app.command()
def restore(
    copy: Annotated[Path, typer.Argument(help="A folder that `site backup` made.")],
    state: State,
    anchor: Annotated[Path, typer.Option(help="The anchor, where it always was.")],
    receipts: Annotated[
        Path | None,
        typer.Option(help="What coordinators print of this site with `hedgerow study receipts`."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Makes a state folder from a backup; what it may have forgotten counts as spent."""
    from hedgerow.deployment.backup import restore as bring_back

    if not yes:
        typer.confirm(
            f"The anchor {anchor} will follow {state}: the folder that was backed up, if it is "
            "still there, can never answer again. Restore?",
            abort=True,
        )
    _, known = bring_back(copy, state, anchor, receipts)
    if known:
        tell(f"restored; {'receipts tell all that' if receipts else 'nothing'} was lost.")
    else:
        tell(
            "restored; studies that were open count as fully spent. Ask coordinators for the "
            "receipts they hold of this site, or revoke these studies and approve new ones."
        )


@app.command("rotate-key")
def rotate_key(state: State) -> None:
    """A new identity; what was given away under the old one stays given away."""
    from hedgerow.deployment.backup import rotate_key as rotate
    from hedgerow.deployment.site_state import StateFolder

    folder = StateFolder.open(state)
    new, retired = rotate(folder)
    _show_identity(folder.name, new)
    tell(f"The old key and its ledger are in {retired}; keep them.")


@app.command()
def request(
    state: State,
    out: Annotated[Path | None, typer.Option(help="The file to send to the coordinator.")] = None,
    force: Force = False,
) -> None:
    """Asks a coordinator for a certificate; the key that it is for stays here."""
    from hedgerow.deployment.site_state import StateFolder
    from hedgerow.federation.transports.certificates import Request, key_bytes, load_key, new_key
    from hedgerow.privacy.ledger.store import write_private

    folder = StateFolder.open(state)
    key_file = folder.tls / "site.key"
    if not key_file.exists():
        write_private(key_file, key_bytes(new_key()))
    made = Request.make(folder.name, folder.identity(), load_key(key_file))
    path = out or Path(f"{folder.name}.request.json")
    check_output(path, *folder.secrets, key_file, force=force)
    path.write_text(made.to_text(), encoding="utf-8")
    tell(f"{path}: send it to the coordinator, who answers with a certificate.")


@app.command()
def certify(
    state: State,
    reply: Annotated[Path, typer.Argument(help="What the coordinator signed.")],
    fingerprint: Annotated[
        str, typer.Option(help="The authority's fingerprint, as it was told by telephone.")
    ],
) -> None:
    """Keeps a certificate, if it comes from the authority that was told of."""
    from hedgerow.deployment.site_state import StateFolder
    from hedgerow.federation.transports.certificates import (
        accept_certificate,
        authority_id,
        load_key,
    )
    from hedgerow.privacy.ledger.store import make_private, write_private

    folder = StateFolder.open(state)
    key = load_key(folder.tls / "site.key")
    own, authority = accept_certificate(reply.read_bytes(), fingerprint, key, folder.name)
    place = folder.tls / authority_id(authority)
    make_private(place)
    write_private(place / "site.crt", own)
    write_private(place / "authority.crt", authority)
    tell(f"kept: this site may call coordinators of the authority {place.name}.")


@app.command("lock-flare")
def lock_flare(
    kit: Annotated[Path, typer.Argument(help="The start-up kit of a FLARE participant.")],
    socket: Annotated[
        Path | None, typer.Option(help="Where the site's service is knocked at (sites only).")
    ] = None,
) -> None:
    """Writes the files by which a FLARE kit refuses shipped code, shells and log streaming."""
    from hedgerow.federation.transports.flare_locks import lock

    for path in lock(kit, socket):
        tell(path)


def _rows_at(
    data: str, target: str, person: str | None, sql: str | None, push_down: bool
) -> DataPlace:
    """Paths are kept whole: a service may run in another folder."""
    from hedgerow.deployment.site_state import DataPlace

    place = data if "://" in data else str(Path(data).expanduser().resolve())
    return DataPlace(place, target, person, sql=sql, push_down=push_down)


def _called(
    folder: StateFolder, place: DataPlace, coordinator: str | None, authority: str | None
) -> DataPlace:
    """With whom to call, and which certificate to show there."""
    from dataclasses import replace

    from hedgerow.errors import SpecError
    from hedgerow.federation.transports.https import address_of

    if coordinator is None:
        return place
    address_of(coordinator)
    known = sorted(path.name for path in folder.tls.iterdir() if path.is_dir())
    if not known:
        raise SpecError(
            "this site has no certificate to show; get one with `hedgerow site request` and "
            "`hedgerow site certify`."
        )
    chosen = authority or (known[0] if len(known) == 1 else None)
    if chosen not in known:
        raise SpecError(
            f"this site has certificates of the authorities {known}; name one of them with "
            "--authority."
        )
    return replace(place, coordinator=coordinator, authority=chosen)


def _show_identity(name: str, identity: Identity) -> None:
    tell(f"{'site':>14}  {name}")
    tell(f"{'public key':>14}  {identity.public.hex()}")
    tell(f"{'fingerprint':>14}  {identity.fingerprint}")


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    lines = [tuple(map(str, row)) for row in (head, *rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    for line in lines:
        first, *rest = (cell.ljust(w) for cell, w in zip(line, widths, strict=True))
        tell("  ".join([first, *rest]).rstrip())


@contextmanager
def _told(folder: StateFolder, as_json: bool, watch: bool) -> Iterator[Callable[[AuditLine], None]]:
    """Whoever hears what the site does: the terminal, and with `watch` a browser."""
    import sys

    terminal = _teller(as_json)
    if not watch:
        yield terminal
        return
    from hedgerow.deployment.live import SiteTeller, live_view
    from hedgerow.federation.audit_log import LOG

    with live_view(folder.name, SiteTeller()) as view:
        tell(f"watch the site at {view.address}", file=sys.stderr, flush=True)

        def both(line: AuditLine) -> None:
            terminal(line)
            try:
                view.tell(line)
            except Exception as error:  # a page that stumbles must not keep a round from leaving
                LOG.error("the live page lacks a line", exc_info=error)

        yield both


def _teller(as_json: bool) -> Callable[[AuditLine], None]:
    """JSON for programs, words for a terminal, nothing where nobody looks."""
    import json
    import sys

    from hedgerow.federation.audit_log import in_words, untold

    if as_json:
        return lambda line: tell(json.dumps(line), flush=True)
    if sys.stdout.isatty():
        return lambda line: tell(in_words(line), flush=True)
    return untold
