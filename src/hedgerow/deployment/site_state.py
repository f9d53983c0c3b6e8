"""A site's state folder: one owner, nobody else looks in.

    site.toml           the site's name, and where the anchor is
    identity.key        signs for the site; never leaves the machine
    policy.toml         what the site allows: nothing, until somebody writes it down
    vault.sqlite        ledger, answers, opened sets
    studies/<name>-<hash>/
        study.toml      as it was approved
        data.toml       where its rows are, and whom to call
        approval.json   who said yes, when, to how much; without it nothing is served
    tls/                key and certificates for the HTTPS carrier
    audit.jsonl         what was done, in words
    site.log            details, for whoever looks for a fault
    numba/              compiled loops
    run/socket          where a network engine on the same machine knocks
    next/               a new key with its vault, while `rotate-key` puts them in place
    retired/            keys, vaults and anchors of before

The anchor lies elsewhere, where a restored backup of this folder does not bring it back.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.sources import Source
from hedgerow.errors import LedgerUnavailable, SpecError
from hedgerow.federation.audit_log import Audit
from hedgerow.federation.policy import TEMPLATE, SitePolicy
from hedgerow.federation.store.vault import Vault
from hedgerow.privacy.ledger.store import make_private, sync_directory, write_private
from hedgerow.secagg.keys import Identity

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_KEY_BYTES = 32
_OTHERS = 0o077


@dataclass(frozen=True)
class DataPlace:
    """Where a study's rows are at this site, and whom to call: known to the site alone."""

    data: str
    target: str
    person: str | None = None
    coordinator: str | None = None
    """https://host:port; None if a network engine brings the letters."""
    authority: str | None = None
    """Which certificate to show there."""
    sql: str | None = None
    """What a database at `data` is asked for; None if `data` names files."""
    push_down: bool = False
    """Whether that database makes the sums, too."""

    @property
    def source(self) -> Source:
        return self.data if self.sql is None else Selected(self.data, self.sql)

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
        strange = set(raw) - set(cls.__dataclass_fields__)
        if strange or not {"data", "target"} <= set(raw):
            raise SpecError(
                f"{path} says {sorted(raw)}; it needs data and target, and may name person, "
                "coordinator, authority, sql and push_down."
            )
        texts = {name: value for name, value in raw.items() if name != "push_down"}
        if not isinstance(raw.get("push_down", False), bool):
            raise SpecError(f"{path}: push_down is {raw['push_down']!r}; write true or false.")
        if not all(isinstance(value, str) for value in texts.values()):
            raise SpecError(f"{path} holds something else than texts; put values in quotes.")
        return cls(**raw)


@dataclass(frozen=True)
class StudyFolder:
    """One study's place in the state folder."""

    path: Path

    @property
    def study_file(self) -> Path:
        return self.path / "study.toml"

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
        found = json.loads(self.approval_file.read_text(encoding="utf-8"))
        return dict(found)

    def revoke(self) -> None:
        self.approval_file.replace(self.path / "revoked.json")


@dataclass(frozen=True)
class StateFolder:
    root: Path

    # -------------------------------------------------------------------------- making, opening
    @classmethod
    def create(cls, root: Path, name: str, anchor: Path) -> StateFolder:
        """A new site: a key of its own, a policy that allows nothing, no budget."""
        root, anchor = root.expanduser().resolve(), anchor.expanduser().resolve()
        if not _NAME.fullmatch(name):
            raise SpecError(
                f"a site cannot be called {name!r}; use letters, digits, dots, dashes and "
                "underscores, 63 at most, beginning with a letter or a digit."
            )
        if anchor.is_relative_to(root):
            raise SpecError(
                f"the anchor {anchor} lies in the state folder; a restored backup would bring it "
                "back with the ledger, and nobody would see that entries are missing. Put it "
                "on another disk, or at least in a folder that is not backed up with this one."
            )
        if root.exists() and any(root.iterdir()):
            raise SpecError(f"{root} is not empty; give a folder that is new or empty.")
        root.parent.mkdir(parents=True, exist_ok=True)
        anchor.parent.mkdir(parents=True, exist_ok=True)
        make_private(root)
        root.chmod(0o700)
        state = cls(root)
        for folder in (state.studies, state.tls, state.numba, state.run):
            make_private(folder)
        write_private(state.policy_file, TEMPLATE.encode())
        write_private(state.identity_file, Identity.generate().to_bytes())
        write_private(state.settings_file, settings_text(name, anchor))
        return state

    @classmethod
    def open(cls, root: Path) -> StateFolder:
        """An existing one; refused if others than its owner can look in."""
        root = root.expanduser().resolve()
        state = cls(root)
        if not state.settings_file.is_file():
            raise SpecError(
                f"{root} is no state folder of a site; make one with `hedgerow site init`."
            )
        for path in (root, state.identity_file):
            state._check_private(path)
        state.take_next_key()
        return state

    def take_next_key(self) -> None:
        """Finishes a change of the key that was begun, from wherever it was interrupted."""
        if not self.next_key.is_dir():
            return
        for path in (self.vault_file, self.identity_file, self.settings_file):
            with suppress(FileNotFoundError):  # taken before
                os.replace(self.next_key / path.name, path)
        sync_directory(self.root)
        what = f"{self.identity().fingerprint}; what belongs to the old one is in retired"
        Audit(self.audit_file).note("new key", what=what)
        with suppress(FileNotFoundError):
            self.next_key.rmdir()

    def _check_private(self, path: Path) -> None:
        found = path.stat()
        if found.st_mode & _OTHERS or found.st_uid != os.geteuid():
            raise SpecError(
                f"{path} can be read by others, or belongs to another user; make it this user's "
                f"own with `chmod go= {path}`, and think of who may have read it."
            )

    # ----------------------------------------------------------------------------------- places
    @property
    def settings_file(self) -> Path:
        return self.root / "site.toml"

    @property
    def identity_file(self) -> Path:
        return self.root / "identity.key"

    @property
    def next_key(self) -> Path:
        """Key, vault and settings that count as soon as they stand here."""
        return self.root / "next"

    @property
    def policy_file(self) -> Path:
        return self.root / "policy.toml"

    @property
    def vault_file(self) -> Path:
        return self.root / "vault.sqlite"

    @property
    def audit_file(self) -> Path:
        return self.root / "audit.jsonl"

    @property
    def log_file(self) -> Path:
        return self.root / "site.log"

    @property
    def studies(self) -> Path:
        return self.root / "studies"

    @property
    def tls(self) -> Path:
        return self.root / "tls"

    @property
    def numba(self) -> Path:
        return self.root / "numba"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def secrets(self) -> tuple[Path, ...]:
        """What no command may write over."""
        return self.identity_file, self.vault_file, self.settings_file, self.policy_file

    @property
    def socket(self) -> Path:
        return self.run / "socket"

    # ---------------------------------------------------------------------------------- content
    @property
    def name(self) -> str:
        return self._setting("name")

    @property
    def anchor(self) -> Path:
        return Path(self._setting("anchor"))

    def _setting(self, key: str) -> str:
        found = read_toml(self.settings_file).get(key)
        if not isinstance(found, str):
            raise SpecError(f'{self.settings_file} names no {key}; write {key} = "...".')
        return found

    def identity(self) -> Identity:
        secret = self.identity_file.read_bytes()
        if len(secret) != _KEY_BYTES:
            raise SpecError(
                f"{self.identity_file} holds {len(secret)} bytes and no key; bring the old one "
                "back."
            )
        return Identity.from_bytes(secret)

    def policy(self) -> SitePolicy:
        return SitePolicy.read(self.policy_file)

    def vault(self) -> Vault:
        """Held by this process alone until it is closed."""
        if not self.anchor.parent.is_dir():
            raise LedgerUnavailable(
                f"the folder of the anchor, {self.anchor.parent}, is not there; nothing was sent. "
                "Mount it, or make it if it is lost and the ledger is not."
            )
        return Vault.open(self.vault_file, self.identity(), self.anchor)

    # ---------------------------------------------------------------------------------- studies
    def study_folder(self, name: str, account: str) -> StudyFolder:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "study"
        return StudyFolder(self.studies / f"{plain}-{account[:16]}")

    def study_folders(self) -> Iterator[StudyFolder]:
        """All that were ever approved or revoked here, by name."""
        for path in sorted(self.studies.iterdir()):
            if path.is_dir():
                yield StudyFolder(path)


def settings_text(name: str, anchor: Path) -> bytes:
    return f"name = {json.dumps(name)}\nanchor = {json.dumps(str(anchor.resolve()))}\n".encode()


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{path} cannot be read ({error}); correct it.") from None
