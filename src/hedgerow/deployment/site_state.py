"""A site's state folder, readable by its owner alone.

    site.toml           the site's name, and where the anchor is
    identity.key        signs for the site; never leaves the machine
    policy.toml         what the site allows: nothing, until somebody writes it down
    store.sqlite        ledger, answers, opened sets
    studies/<name>-<hash>/
        study.toml      as it was approved
        data.toml       where its rows are, and whom to call
        approval.json   who said yes, when, to how much; without it nothing is served
    tls/                key and certificates for the HTTPS transport
    audit.jsonl         what was done, in words
    site.log            details, for whoever looks for a fault
    run/socket          where a network engine on the same machine connects
    run/metrics         health and metrics while it serves, for its owner alone
    next/               a new key with its store, while `rotate-key` puts them in place
    retired/            keys, stores and anchors of before

The anchor lies elsewhere, where a restored backup of this folder does not bring it back.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgerow.data.prepared import Held
from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.reading.sources import Source, give_room_back
from hedgerow.data.rows import Draws, Rows
from hedgerow.errors import LedgerRolledBack, LedgerUnavailable, ParameterError
from hedgerow.federation.audit_log import Audit
from hedgerow.federation.policy import TEMPLATE, SitePolicy
from hedgerow.federation.site_store import SiteStore, backup_store
from hedgerow.privacy.ledger.store import copy_private, make_private, sync_directory, write_private
from hedgerow.privacy.study import Study
from hedgerow.schema.schema import Schema
from hedgerow.secagg.keys import Identity

if TYPE_CHECKING:
    from hedgerow.data.engines.database import InDatabase

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_KEY_BYTES = 32
_OTHERS = 0o077


@dataclass(frozen=True)
class DataPlace:
    """The place of a study's rows and its coordinator's address: known to the site alone."""

    data: str
    target: str
    person: str | None = None
    coordinator: str | None = None
    """https://host:port; None if a network engine brings the messages."""
    authority: str | None = None
    """Which certificate to show there."""
    sql: str | None = None
    """The query for a database at `data`; None if `data` names files."""
    push_down: bool = False
    """Whether that database also computes the sums."""

    @property
    def source(self) -> Source:
        return self.data if self.sql is None else Selected(self.data, self.sql)

    def label(self, schema: Schema) -> str:
        """The column of the outcome; the schema names that of times."""
        return schema.label_columns(self.target)[0]

    def to_toml(self) -> str:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return "".join(
            f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
            for name, value in fields.items()
            if value is not None and value is not False
        )

    @classmethod
    def read(cls, path: Path) -> DataPlace:
        raw = read_toml(path)
        texts = set(cls.__dataclass_fields__) - {"push_down"}
        for name, value in raw.items():
            if not isinstance(value, str if name in texts else bool):
                raise ParameterError(
                    f"{path}: {name} is {value!r}; write a text in quotes, or for push_down true "
                    "or false."
                )
        if not {"data", "target"} <= set(raw) <= texts | {"push_down"}:
            raise ParameterError(
                f"{path} says {sorted(raw)}; it needs data and target, and may name person, "
                "coordinator, authority, sql and push_down."
            )
        return cls(**raw)


def held_rows(study: Study, place: DataPlace, draws: Draws) -> Held:
    """The rows of a run: in memory, or in their database."""
    if place.push_down:
        return in_database(study, place, draws)
    rows = Rows(read_rows(study, place), study.schema, draws)
    give_room_back()
    return rows


def read_rows(study: Study, place: DataPlace) -> Encoded:
    """Reads the rows as a run does: no single row is an error."""
    if (study.by_person or study.records_per_person > 1) and place.person is None:
        raise ParameterError(
            f"the study keeps {study.records_per_person} records of each person; name the column "
            "that says whose record it is (--person)."
        )
    label = place.label(study.schema)
    return encode(place.source, study.schema, target=label, person=place.person)


def in_database(study: Study, place: DataPlace, draws: Draws | None = None) -> InDatabase:
    """Rows in a database; raises before approval if it cannot answer the study."""
    if not isinstance(place.source, Selected):
        raise ParameterError(
            "a database that makes the sums must be asked for something; give --sql."
        )
    if place.person is not None:
        raise ParameterError(
            "a database that makes the sums knows no persons; leave --person or --push-down out."
        )
    from hedgerow.data.engines.database import InDatabase

    database_rows = InDatabase(place.source, study.schema, place.label(study.schema), draws)
    database_rows.answering(study)
    return database_rows


@dataclass(frozen=True)
class StudyFolder:
    """One study's folder in the state folder."""

    path: Path

    @property
    def study_file(self) -> Path:
        return self.path / "study.toml"

    @property
    def content_file(self) -> Path:
        """The study in plain values: a service needs no estimator to read it."""
        return self.path / "study.json"

    @property
    def data_file(self) -> Path:
        return self.path / "data.toml"

    @property
    def approval_file(self) -> Path:
        return self.path / "approval.json"

    @property
    def is_approved(self) -> bool:
        return self.approval_file.exists()

    def approval(self) -> dict[str, Any]:
        return dict(json.loads(self.approval_file.read_text(encoding="utf-8")))

    @property
    def file_digest(self) -> str:
        return hashlib.sha256(self.study_file.read_bytes()).hexdigest()

    def approved_study(self) -> Study:
        """The approved study; raises if one of its files was changed since."""
        approval = self.approval()
        study = Study.from_dict(json.loads(self.content_file.read_text(encoding="utf-8")))
        if (study.account, self.file_digest) != (approval.get("study"), approval.get("file")):
            raise ParameterError(
                f"{self.study_file} was changed after it was approved; bring the approved file "
                "back, or revoke and approve anew."
            )
        return study

    def revoke(self) -> None:
        self.approval_file.replace(self.path / "revoked.json")


class StateFolder:
    """The paths of a site's state, and readers of its files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings_file, self.identity_file = root / "site.toml", root / "identity.key"
        self.policy_file, self.store_file = root / "policy.toml", root / "store.sqlite"
        self.audit_file, self.log_file = root / "audit.jsonl", root / "site.log"
        self.studies, self.tls, self.run = root / "studies", root / "tls", root / "run"
        self.socket, self.next_key = self.run / "socket", root / "next"

    @classmethod
    def create(cls, root: Path, name: str, anchor: Path) -> StateFolder:
        """A new site: its own key, a policy that allows nothing, no budget."""
        root, anchor = root.expanduser().resolve(), anchor.expanduser().resolve()
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"a site cannot be called {name!r}; use letters, digits, dots, dashes and "
                "underscores, 63 at most, beginning with a letter or a digit."
            )
        if anchor.is_relative_to(root):
            raise ParameterError(
                f"the anchor {anchor} lies in the state folder; a restored backup would bring it "
                "back with the ledger, and nobody would see that entries are missing. Put it "
                "on another disk, or at least in a folder that is not backed up with this one."
            )
        if root.exists() and any(root.iterdir()):
            raise ParameterError(f"{root} is not empty; give a folder that is new or empty.")
        root.parent.mkdir(parents=True, exist_ok=True)
        anchor.parent.mkdir(parents=True, exist_ok=True)
        make_private(root)
        root.chmod(0o700)
        state = cls(root)
        for folder in (state.studies, state.tls, state.run):
            make_private(folder)
        write_private(state.policy_file, TEMPLATE.encode())
        write_private(state.identity_file, Identity.generate().to_bytes())
        state.write_settings(name, anchor)
        return state

    @classmethod
    def open(cls, root: Path) -> StateFolder:
        """Opens a state folder; raises if others than its owner can read it."""
        root = root.expanduser().resolve()
        state = cls(root)
        if not state.settings_file.is_file():
            raise ParameterError(
                f"{root} is no state folder of a site; make one with `hedgerow site enroll TOKEN`, "
                "or over FLARE or Flower with `hedgerow site init`."
            )
        for path in (root, state.identity_file):
            state._check_private(path)
        state.take_next_key()
        return state

    def take_next_key(self) -> None:
        """Completes a change of the key, from wherever it was interrupted."""
        if not self.next_key.is_dir():
            return
        for path in (self.store_file, self.identity_file, self.settings_file):
            with suppress(FileNotFoundError):  # taken before
                os.replace(self.next_key / path.name, path)
        sync_directory(self.root)
        words = f"{self.identity().fingerprint}; what belongs to the old one is in retired"
        Audit(self.audit_file).note("new key", what=words)
        with suppress(FileNotFoundError):
            self.next_key.rmdir()

    def _check_private(self, path: Path) -> None:
        status = path.stat()
        if status.st_mode & _OTHERS or status.st_uid != os.geteuid():
            raise ParameterError(
                f"{path} can be read by others, or belongs to another user; make it this user's "
                f"own with `chmod go= {path}`, and think of who may have read it."
            )

    @property
    def secrets(self) -> tuple[Path, ...]:
        """Files that no command may overwrite."""
        return self.identity_file, self.store_file, self.settings_file, self.policy_file

    @property
    def name(self) -> str:
        return self._setting("name")

    @property
    def anchor(self) -> Path:
        return Path(self._setting("anchor"))

    def _setting(self, key: str) -> str:
        setting = read_toml(self.settings_file).get(key)
        if not isinstance(setting, str):
            raise ParameterError(f'{self.settings_file} names no {key}; write {key} = "...".')
        return setting

    def write_settings(self, name: str, anchor: Path) -> None:
        settings = {"name": name, "anchor": str(anchor.resolve())}
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        write_private(self.settings_file, text.encode())

    def identity(self) -> Identity:
        secret = self.identity_file.read_bytes()
        if len(secret) != _KEY_BYTES:
            raise ParameterError(
                f"{self.identity_file} holds {len(secret)} bytes and no key; bring the old one "
                "back."
            )
        return Identity.from_bytes(secret)

    def policy(self) -> SitePolicy:
        return SitePolicy.read(self.policy_file)

    def site_store(self) -> SiteStore:
        """The store, held by this process alone until it is closed."""
        if not self.anchor.parent.is_dir():
            raise LedgerUnavailable(
                f"the folder of the anchor, {self.anchor.parent}, is not there; nothing was sent. "
                "Mount it, or make it if it is lost and the ledger is not."
            )
        return SiteStore.open(self.store_file, self.identity(), self.anchor)

    def study_folder(self, name: str, account: str) -> StudyFolder:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "study"
        return StudyFolder(self.studies / f"{plain}-{account[:16]}")

    def study_folders(self) -> Iterator[StudyFolder]:
        """All studies that were ever approved or revoked here, by name."""
        for path in sorted(self.studies.iterdir()):
            if path.is_dir():
                yield StudyFolder(path)


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ParameterError(f"{path} cannot be read ({error}); correct it.") from None


# What keeps a site's state alive: copies, restores, and a new key when the old one is in doubt.

_COPIED = ("site.toml", "identity.key", "policy.toml", "audit.jsonl")
_FOLDERS = ("studies", "tls")


def backup(state: StateFolder, target: Path) -> None:
    """Copies the folder, also while a service runs; the anchor is left out on purpose.

    The copy has the site's key: protect it like the key.
    """
    if target.exists():
        raise ParameterError(f"{target} is there already; name a folder that is new.")
    _require_ledger(state, "copy")
    make_private(target)
    backup_store(state.store_file, target / "store.sqlite")
    for name in _COPIED:
        if (state.root / name).exists():
            copy_private(state.root / name, target / name)
    for name in _FOLDERS:
        shutil.copytree(state.root / name, target / name)
    Audit(state.audit_file).note("backup", what=str(target))


def _require_ledger(state: StateFolder, purpose: str) -> None:
    """A ledger begins with the first approval; before it, a new site is as good."""
    if not state.store_file.exists():
        raise ParameterError(
            f"{state.root} has approved no study yet, so there is no ledger to {purpose}. Approve "
            "one first, or make another site with `hedgerow site enroll`."
        )


def restore(
    copy: Path, root: Path, anchor: Path, receipts: Path | None
) -> tuple[StateFolder, bool]:
    """Restores a state folder from a backup; also returns whether receipts cover all losses.

    Charges after the backup are not in it, so studies that were open count as fully spent until
    receipts show what each lost entry was. `anchor` is its unchanged place.
    """
    if not (copy / "store.sqlite").is_file():
        raise ParameterError(
            f"{copy} is no backup of a site; name a folder that `site backup` made."
        )
    root = root.expanduser().resolve()
    if root.exists() and any(root.iterdir()):
        raise ParameterError(f"{root} is not empty; move away what is there.")
    make_private(root)
    root.chmod(0o700)
    for name in _COPIED:
        if (copy / name).exists():
            copy_private(copy / name, root / name)
    for name in _FOLDERS:
        shutil.copytree(copy / name, root / name)
    state = StateFolder(root)
    make_private(state.run)
    state.write_settings(state.name, anchor)
    receipt_list = [] if receipts is None else _receipts_in(receipts)
    site_store = SiteStore.restore(
        copy / "store.sqlite", state.store_file, state.identity(), anchor, receipt_list
    )
    is_complete = True
    with closing(site_store):
        try:
            site_store.reconcile(receipt_list)
        except LedgerRolledBack:
            is_complete = False
    words = "all that was lost is known" if is_complete else "open studies count as fully spent"
    Audit(state.audit_file).note("restored", what=f"from {copy}; {words}")
    return state, is_complete


def _receipts_in(path: Path) -> list[bytes]:
    """Signed headers of this site, one per line, in hexadecimal: `hedgerow study receipts`."""
    try:
        return list(map(bytes.fromhex, path.read_text(encoding="ascii").split()))
    except ValueError as error:
        raise ParameterError(
            f"{path} holds a line that is no receipt ({error}); ask the coordinator for what "
            "`hedgerow study receipts` prints."
        ) from None


def rotate_key(state: StateFolder) -> tuple[Identity, Path]:
    """A new identity with its own ledger, which carries over what the old one has spent.

    Rosters name the old key, so approved studies must be revoked before. The old key, store and
    anchor are kept in a separate folder, since only they show what was spent.

    Everything new is prepared in a folder beside, which is then renamed in one step. From then on
    the new key counts, and whoever opens the state next completes an interrupted change.
    """
    study_names = [folder.path.name for folder in state.study_folders() if folder.is_approved]
    if study_names:
        raise ParameterError(
            f"{study_names} are approved under the present key; revoke them first."
        )
    _require_ledger(state, "carry over")
    old, new = state.identity(), Identity.generate()
    old_folder = state.root / "retired" / old.fingerprint[:16]
    make_private(old_folder.parent)
    make_private(old_folder)
    anchor = state.anchor.with_name(f"{state.anchor.name}.{new.fingerprint[:8]}")
    ready = state.next_key.with_name("next.new")
    shutil.rmtree(ready, ignore_errors=True)
    make_private(ready)
    with closing(state.site_store()) as site_store, site_store.ledger.current() as books:
        lifetime, given_away = books.lifetime, books.committed
    fresh = ready / state.store_file.name
    with closing(SiteStore.open(fresh, new, anchor)) as site_store:
        if lifetime is not None:
            site_store.ledger.set_lifetime(lifetime.measure, lifetime.limit, lifetime.delta)
            name = f"all studies under the key {old.fingerprint[:16]}"
            site_store.ledger.approve(old.fingerprint, lifetime.measure, given_away, name)
    fresh.with_name(f"{fresh.name}.lock").unlink()
    write_private(ready / state.identity_file.name, new.to_bytes())
    StateFolder(ready).write_settings(state.name, anchor)
    for source in (state.identity_file, state.store_file, state.anchor):
        copy_path = old_folder / ("anchor" if source == state.anchor else source.name)
        copy_path.unlink(missing_ok=True)
        copy_private(source, copy_path)
    ready.rename(state.next_key)
    sync_directory(state.root)
    state.take_next_key()
    return new, old_folder
