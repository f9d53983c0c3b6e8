"""`hedgerow site`: commands of an institution that holds rows and approves studies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.console import Person, PushDown, Sql, WatchOption, Yes, line_printer, tell
from hedgerow.errors import ParameterError

if TYPE_CHECKING:
    from hedgerow.deployment.site_state import DataPlace, StateFolder
    from hedgerow.deployment.study_file import StudyFile
    from hedgerow.federation.audit_log import Audit, AuditLine
    from hedgerow.secagg.keys import Identity

app = typer.Typer(help="Run a site: set up, approve, serve, back up.", no_args_is_help=True)
State = Annotated[Path, typer.Argument(help="Use this state folder of the site.")]
StudyPath = Annotated[Path, typer.Argument(help="Read the study file, study.toml.")]
Data = Annotated[
    str,
    typer.Option(
        help="Read a .csv, .parquet or .arrow file, folder or pattern; with --sql a DuckDB "
        "file or postgresql://..."
    ),
]
TargetColumn = Annotated[str, typer.Option(help="Name the column of labels or targets.")]
Here = Annotated[
    Path | None,
    typer.Option(
        "--state", envvar="HEDGEROW_STATE", help="Use this state folder, not the one found here."
    ),
]
Wanted = Annotated[str, typer.Argument(help="Name a study, or give the first digits of its hash.")]


def _open(state: Path) -> StateFolder:
    from hedgerow.deployment.site_state import StateFolder

    return StateFolder.open(state)


def _audit(folder: StateFolder) -> Audit:
    from hedgerow.federation.audit_log import Audit

    return Audit(folder.audit_file)


@app.command()
def init(
    state: State,
    name: Annotated[str, typer.Option(help="Name the site.")],
    anchor: Annotated[
        Path, typer.Option(help="Keep the rollback anchor here: a file that is not backed up.")
    ],
) -> None:
    """Create a site: a key, a policy that allows nothing, no budget."""
    from hedgerow.deployment.site_state import StateFolder

    folder = StateFolder.create(state, name, anchor)
    _show_identity(folder.name, folder.identity())
    tell(f"\nNow write down what this site allows: {folder.policy_file}")


@app.command()
def enroll(
    token: Annotated[str, typer.Argument(help="The coordinator's token; - reads it from a pipe.")],
    state: Here = None,
    anchor: Annotated[
        Path | None,
        typer.Option(help="For a new site: a file for the rollback anchor, not backed up."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Enroll at a coordinator by one token; the first time the site and its key are made.

    The private key stays here. Compare the six words with the coordinator before you say yes.
    """
    from hedgerow.deployment.enrollment import SiteToken
    from hedgerow.deployment.enrollment import enroll as ask
    from hedgerow.deployment.site_state import StateFolder

    invitation = SiteToken.read(sys.stdin.read() if token == "-" else token)
    root = state or Path(invitation.name)
    if (root / "site.toml").exists():
        folder = StateFolder.open(root)
    else:
        place = anchor or _default_anchor(invitation.name)
        folder = StateFolder.create(root, invitation.name, place)
    enrolled = ask(folder, invitation)
    _show_identity(folder.name, folder.identity())
    tell(f"{'called':>14}  {invitation.url}")
    tell(f"{'coordinator':>14}  {enrolled.words}")
    if not yes:
        words = "Does the coordinator read these last six words to you (telephone)?"
        typer.confirm(words, abort=True)
    enrolled.keep(folder)
    tell(f"enrolled: {root}. Next: hedgerow site approve STUDY --data ROWS")


def _default_anchor(name: str) -> Path:
    """A place outside the state folder, so that copies do not include it; never one in use."""
    import os

    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    anchor = Path(home) / "hedgerow/anchors" / name
    if anchor.exists():
        raise ParameterError(
            f"{anchor} is the anchor of another site of that name; give --state its folder, or "
            "--anchor another file."
        )
    return anchor


@app.command()
def approve(
    study: StudyPath,
    data: Data,
    state: Here = None,
    target: TargetColumn = "target",
    person: Person = None,
    sql: Sql = None,
    push_down: PushDown = False,
    by: Annotated[
        str | None, typer.Option(help="Who decides; written into the policy.", show_default=False)
    ] = None,
    extend_policy: Annotated[
        bool,
        typer.Option("--extend-policy", help="Write all missing lines unasked: for rehearsals."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Approve a study: show what leaves and what it costs, ask, charge the whole cap.

    If the policy does not allow it, each missing line is proposed. Nothing is written unless every
    question is answered with yes; with --yes alone such a study is refused.
    """
    import getpass

    from hedgerow.deployment import approve as approving
    from hedgerow.deployment.enrollment import enrolled_at
    from hedgerow.deployment.study_file import StudyFile
    from hedgerow.privacy.ledger.store import write_private

    folder, study_file = _open(state or _state_here()), StudyFile.read(study)
    url, authority = enrolled_at(folder, study_file.roster.coordinator)
    place = _rows_at(data, target, person, sql, push_down)
    place = replace(place, coordinator=url, authority=authority)
    for title, words in approving.what_leaves(study_file):
        tell(f"{title:>14}  {words}")
    tell(f"{'calls':>14}  {url or 'nobody: FLARE or Flower brings messages, or enroll first'}")
    rows, report = approving.check(study_file, place)
    tell(f"{'rows':>14}  {rows} can be used")
    for complaint in report.complaints:
        tell(f"{'look at this':>14}  {complaint}")
    audit, note = _audit(folder), f"for the study {study_file.name}"
    lines = [] if yes and not extend_policy else approving.missing_lines(folder, study_file)
    if lines:
        tell(f"\n{folder.policy_file} does not allow this yet. It lacks:")
    for line in lines:
        tell(f"\n  {line}\n      {line.why}")
        if not extend_policy and not typer.confirm("Write this line?"):
            approving.decline(study_file, audit)
            raise typer.Abort
    note = f"not confirmed, {note}" if extend_policy else note
    before = approving.write_lines(folder, lines, by or getpass.getuser(), note)
    try:
        approving.require_allowed(folder, study_file, audit)
        _decide(folder, study_file, place, audit, yes)
    except BaseException:
        write_private(folder.policy_file, before)
        raise
    tell(f"Next: hedgerow site serve {folder.root} (again, if it runs: it reads policies first)")


def _state_here() -> Path:
    """The only state folder in the current folder or directly below it."""
    found = [path.parent for path in (Path("site.toml"), *Path().glob("*/site.toml"))]
    existing = [path for path in found if (path / "site.toml").is_file()]
    if len(existing) != 1:
        raise ParameterError(
            f"there are {len(existing)} state folders of sites here; name one with --state or "
            "HEDGEROW_STATE, or make one with `hedgerow site enroll`."
        )
    return existing[0]


@app.command()
def check(
    study: StudyPath,
    data: Data,
    target: TargetColumn = "target",
    person: Person = None,
    sql: Sql = None,
    push_down: PushDown = False,
) -> None:
    """Check the rows against a study. Spends, writes and sends nothing."""
    from hedgerow.deployment.approve import check as find
    from hedgerow.deployment.study_file import StudyFile

    rows, report = find(StudyFile.read(study), _rows_at(data, target, person, sql, push_down))
    tell(report)
    tell(f"rows that can be used: {rows}")
    for complaint in report.complaints:
        tell(f"look at this: {complaint}")
    if not rows:
        tell("look at this: no row can be used; compare the column to predict with the schema")
    raise typer.Exit(1 if report.complaints or not rows else 0)


def _decide(
    folder: StateFolder, study_file: StudyFile, place: DataPlace, audit: Audit, yes: bool
) -> None:
    """Shows the price, asks, and approves the study that was shown."""
    from hedgerow.deployment import approve as approving

    costs = approving.lifetime_words(folder, study_file.study)
    tell(f"{'costs':>14}  {costs} of this site's lifetime")
    if not yes and not typer.confirm("Compare the hash with the other sites. Approve?"):
        approving.decline(study_file, audit)
        raise typer.Abort
    approving.approve(folder, study_file, place, audit)
    tell(f"approved: {study_file.study.name}, {study_file.study.account}")


@app.command()
def revoke(state: State, study: Wanted, yes: Yes = False) -> None:
    """Revoke a study for good; what it did not spend is free again."""
    from hedgerow.deployment.approve import revoke as end

    words = "ends here for good and cannot be approved again. End?"
    tell(f"revoked: {_end(state, study, yes, words, end)}")


@app.command()
def close(state: State, study: Wanted, yes: Yes = False) -> None:
    """Close a study for good with this site's last word: what it was charged, signed."""
    from hedgerow.deployment.approve import close as say_last_word

    words = "ends here for good; no run of it goes on. Close?"
    tell(f"closed: {_end(state, study, yes, words, say_last_word)}")


def _end(
    state: Path, study: str, yes: bool, words: str, end: Callable[[StateFolder, str, Audit], str]
) -> str:
    from hedgerow.deployment.approve import find_study

    folder = _open(state)
    name = find_study(folder, study).path.name
    if not yes:
        typer.confirm(f"{name} {words}", abort=True)
    return end(folder, name, _audit(folder))


@app.command()
def verify(
    state: State,
    model: Annotated[Path, typer.Argument(help="Read this model file; the vouch is added to it.")],
    transcript: Annotated[Path, typer.Option(help="Read the run's transcript.bin.")],
    study: Annotated[
        Path | None, typer.Option(help="Use this study file, instead of the approved one.")
    ] = None,
) -> None:
    """Compute a model anew from its transcript and, if all is right, vouch for it.

    The study is the one that was approved here. Exit code 1 if a check failed; nothing is signed
    then.
    """
    from hedgerow.cli.models import tell_checks
    from hedgerow.deployment.approve import study_of_model
    from hedgerow.deployment.verify import add_vouch

    folder = _open(state)
    roster = study or study_of_model(folder, model)
    tell_checks(add_vouch(model, roster, transcript, folder.identity()))


@app.command()
def serve(
    state: State,
    as_json: Annotated[bool, typer.Option("--json", help="Print every line as JSON.")] = False,
    socket: Annotated[
        Path | None, typer.Option(help="Listen on this socket, instead of run/socket.")
    ] = None,
    socket_group: Annotated[
        str | None, typer.Option(help="Let users of this group connect too.")
    ] = None,
    watch: WatchOption = False,
) -> None:
    """Serve all approved studies until stopped. Only outbound connections, no open port."""
    import os
    import signal
    import threading
    from contextlib import closing

    # Arrow's own allocator takes megabytes that a small site never uses; read as Arrow is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from hedgerow.deployment.serve import Service, prepare

    folder = _open(state)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # as from the keyboard, until it serves
    prepare(folder)
    stop_event = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop_event.set())
    with (
        _listeners(folder, as_json, watch) as heard_by,
        closing(
            Service(folder, tell=heard_by, socket=socket, group=socket_group, stop_event=stop_event)
        ) as serving,
    ):
        serving.run()


@app.command()
def status(state: State) -> None:
    """Show the site's identity, spent budget, studies and last events."""
    from hedgerow.deployment.approve import ledger_of, printed_cost
    from hedgerow.federation.audit_log import in_words, lines_of

    folder = _open(state)
    _show_identity(folder.name, folder.identity())
    with ledger_of(folder) as ledger, ledger.current() as books:
        if books.lifetime is not None:
            words = f"{printed_cost(books.committed)} of {printed_cost(books.lifetime.limit)}"
            tell(f"{'lifetime':>14}  {books.lifetime.measure.value} {words} is given away")
        rows = [("study", "hash", "state", "spent", "cap", "counted in")] + [
            (a.name or "-", study[:16], "open" if a.open else "ended",
             printed_cost(a.spent), printed_cost(a.cap), a.measure.value)
            for study, a in books.accounts.items()
        ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        tell("  ".join(cells).rstrip())
    for line in list(lines_of(folder.audit_file))[-5:]:
        tell(in_words(line))


@app.command()
def backup(
    state: State, target: Annotated[Path, typer.Argument(help="Create this folder.")]
) -> None:
    """Back up the state folder, also while the site serves. The anchor stays out."""
    from hedgerow.deployment.site_state import backup as copy

    copy(_open(state), target)
    tell(f"{target} holds a copy, the site's key included; keep it as you keep the key.")


@app.command()
def restore(
    copy: Annotated[Path, typer.Argument(help="Read a folder that `site backup` wrote.")],
    state: State,
    anchor: Annotated[Path, typer.Option(help="Use the rollback anchor at its present place.")],
    receipts: Annotated[
        Path | None,
        typer.Option(help="Read what coordinators print with `hedgerow study receipts`."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Restore a state folder from a backup; what it may lack counts as spent."""
    from hedgerow.deployment.site_state import restore as bring_back

    if not yes:
        typer.confirm(
            f"The anchor {anchor} will follow {state}: the folder that was backed up, if it is "
            "still there, can never answer again. Restore?",
            abort=True,
        )
    _, is_complete = bring_back(copy, state, anchor, receipts)
    if is_complete:
        tell(f"restored; {'receipts tell all that' if receipts else 'nothing'} was lost.")
    else:
        tell(
            "restored; studies that were open count as fully spent. Ask coordinators for the "
            "receipts they hold of this site, or revoke these studies and approve new ones."
        )


@app.command("rotate-key")
def rotate_key(state: State) -> None:
    """Rotate the site's key; what was spent under the old one stays spent."""
    from hedgerow.deployment.site_state import rotate_key as rotate

    folder = _open(state)
    new, old_folder = rotate(folder)
    _show_identity(folder.name, new)
    tell(f"The old key and its ledger are in {old_folder}; keep them.")


@app.command("lock-flare")
def lock_flare(
    kit: Annotated[Path, typer.Argument(help="Lock this start-up kit of a FLARE participant.")],
    socket: Annotated[
        Path | None, typer.Option(help="Give the site's socket (sites only).")
    ] = None,
) -> None:
    """Lock a FLARE kit: refuse shipped code, shells and log streaming."""
    from hedgerow.federation.transports.flare_locks import TRIED, lock, untried_version

    for path in lock(kit, socket):
        tell(path)
    if (found := untried_version()) is not None:
        tell(f"look at this: FLARE {found} is here; that these locks hold was tried with {TRIED}.")


@app.command()
def flower(
    site: Annotated[str, typer.Option(help="The site's name in rosters.")],
    socket: Annotated[Path, typer.Option(help="Where `hedgerow site serve` listens.")],
    secret: Annotated[
        Path, typer.Option(help="The SuperNode's file --superexec-auth-secret-file.")
    ],
    runtime: Annotated[
        str, typer.Option(help="Where the SuperNode listens on this machine.")
    ] = "127.0.0.1:9094",
) -> None:
    """Do the tasks of a Flower SuperNode with --isolation process; no shipped code runs."""
    if not secret.is_file():
        raise ParameterError(
            f"{secret} is no file; write 32 random bytes there, for both processes."
        )
    try:
        from hedgerow.federation.transports.flower import serve_tasks

        serve_tasks(runtime, secret, site, socket)
    except ModuleNotFoundError as error:
        raise ParameterError(f"{error}; install it: pip install 'hedgerow[flower]'") from error


def _rows_at(
    data: str, target: str, person: str | None, sql: str | None, push_down: bool
) -> DataPlace:
    """Paths are stored as absolute ones: a service may run in another folder."""
    from hedgerow.deployment.site_state import DataPlace

    place = data if "://" in data else str(Path(data).expanduser().resolve())
    return DataPlace(place, target, person, sql=sql, push_down=push_down)


def _show_identity(name: str, identity: Identity) -> None:
    from hedgerow.secagg.keys import spoken_words

    tell(f"{'site':>14}  {name}")
    tell(f"{'public key':>14}  {identity.public.hex()}")
    tell(f"{'fingerprint':>14}  {identity.fingerprint}")
    tell(f"{'own words':>14}  {spoken_words(identity.public)}")


@contextmanager
def _listeners(
    folder: StateFolder, as_json: bool, watch: bool
) -> Iterator[Callable[[AuditLine], None]]:
    """The listeners to a site's events: terminal, metrics, and with `watch` a browser."""
    from hedgerow.deployment.live import SiteTeller, live_view
    from hedgerow.federation.audit_log import LOG, in_words

    terminal, socket = line_printer(as_json, in_words), folder.socket.with_name("metrics")
    with live_view(folder.name, SiteTeller(), page=watch, socket=socket) as view:
        if watch:
            tell(f"watch the site at {view.address}", file=sys.stderr, flush=True)

        def both(line: AuditLine) -> None:
            terminal(line)
            try:
                view.tell(line)
            except Exception as error:  # an error of the page must not stop a round
                LOG.error("the live page lacks a line", exc_info=error)

        yield both
