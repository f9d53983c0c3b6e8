"""What keeps a site's state alive: copies, restores, and a new key when the old one is in doubt."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hedgerow.deployment.site_state import StateFolder, settings_text
from hedgerow.errors import LedgerRolledBack, SpecError
from hedgerow.federation.audit_log import Audit
from hedgerow.federation.store.vault import Vault, backup_vault
from hedgerow.privacy.ledger.store import (
    copy_private,
    make_private,
    sync_directory,
    write_private,
)
from hedgerow.secagg.keys import Identity

_COPIED = ("site.toml", "identity.key", "policy.toml", "audit.jsonl")
_FOLDERS = ("studies", "tls")


def backup(state: StateFolder, target: Path) -> None:
    """A copy of the folder, also while a service runs. The anchor is not in it, on purpose.

    It holds the site's key: keep it as you keep the key.
    """
    if target.exists():
        raise SpecError(f"{target} is there already; name a folder that is new.")
    _require_ledger(state, "copy")
    make_private(target)
    backup_vault(state.vault_file, target / "vault.sqlite")
    for name in _COPIED:
        if (state.root / name).exists():
            copy_private(state.root / name, target / name)
    for name in _FOLDERS:
        shutil.copytree(state.root / name, target / name)
    Audit(state.audit_file).note("backup", what=str(target))


def _require_ledger(state: StateFolder, what: str) -> None:
    """A ledger begins with the first approval; before it a new site is as good as this one."""
    if not state.vault_file.exists():
        raise SpecError(
            f"{state.root} has approved no study yet, so there is no ledger to {what}. Approve one "
            "first, or make another site with `hedgerow site init`."
        )


def restore(
    copy: Path, root: Path, anchor: Path, receipts: Path | None
) -> tuple[StateFolder, bool]:
    """A state folder from a backup, and whether all that it lacks is known from receipts.

    Whatever was charged after the backup is not in it, so studies that were open count as fully
    spent, until receipts tell what each lost entry was. `anchor` is where it always was.
    """
    if not (copy / "vault.sqlite").is_file():
        raise SpecError(f"{copy} is no backup of a site; name a folder that `site backup` made.")
    root = root.expanduser().resolve()
    if root.exists() and any(root.iterdir()):
        raise SpecError(f"{root} is not empty; move away what is there.")
    make_private(root)
    root.chmod(0o700)
    for name in _COPIED:
        if (copy / name).exists():
            copy_private(copy / name, root / name)
    for name in _FOLDERS:
        shutil.copytree(copy / name, root / name)
    state = StateFolder(root)
    for folder in (state.numba, state.run):
        make_private(folder)
    write_private(state.settings_file, settings_text(state.name, anchor))
    held = list(_receipts(receipts))
    vault = Vault.restore(copy / "vault.sqlite", state.vault_file, state.identity(), anchor, held)
    with closing(vault):
        known = _reconciled(vault, held)
    words = "all that was lost is known" if known else "open studies count as fully spent"
    Audit(state.audit_file).note("restored", what=f"from {copy}; {words}")
    return state, known


def _reconciled(vault: Vault, held: list[bytes]) -> bool:
    try:
        vault.reconcile(held)
    except LedgerRolledBack:
        return False
    return True


def _receipts(path: Path | None) -> Iterator[bytes]:
    """One signed header of this site a line, in hexadecimal digits: `hedgerow study receipts`."""
    if path is None:
        return
    for number, line in enumerate(path.read_text(encoding="ascii").split(), start=1):
        try:
            yield bytes.fromhex(line)
        except ValueError:
            raise SpecError(
                f"{path}, line {number} is no receipt; ask the coordinator for what "
                "`hedgerow study receipts` prints."
            ) from None


def rotate_key(state: StateFolder) -> tuple[Identity, Path]:
    """A new identity with a ledger of its own; what the old one had given away stays given away.

    Rosters name the old key, so approved studies must be revoked before. The old key, vault and
    anchor are kept in a folder of their own, since only they show what was spent.

    One step: all that is new is made ready in a folder beside, which then gets its name. From there
    on the new key counts, and whoever opens the state next finishes what was interrupted.
    """
    approved = [folder.path.name for folder in state.study_folders() if folder.is_approved]
    if approved:
        raise SpecError(f"{approved} are approved under the present key; revoke them first.")
    _require_ledger(state, "carry over")
    old, new = state.identity(), Identity.generate()
    retired = state.root / "retired" / old.fingerprint[:16]
    make_private(retired.parent)
    make_private(retired)
    anchor = state.anchor.with_name(f"{state.anchor.name}.{new.fingerprint[:8]}")
    ready = state.next_key.with_name("next.new")
    shutil.rmtree(ready, ignore_errors=True)
    make_private(ready)
    with closing(state.vault()) as vault, vault.ledger.current() as books:
        lifetime, given_away = books.lifetime, books.committed
    fresh = ready / state.vault_file.name
    with closing(Vault.open(fresh, new, anchor)) as vault:
        if lifetime is not None:
            vault.ledger.set_lifetime(lifetime.measure, lifetime.limit, lifetime.delta)
            name = f"all studies under the key {old.fingerprint[:16]}"
            vault.ledger.approve(old.fingerprint, lifetime.measure, given_away, name)
    fresh.with_name(f"{fresh.name}.lock").unlink()
    write_private(ready / state.identity_file.name, new.to_bytes())
    write_private(ready / state.settings_file.name, settings_text(state.name, anchor))
    for source in (state.identity_file, state.vault_file, state.anchor):
        kept = retired / ("anchor" if source == state.anchor else source.name)
        kept.unlink(missing_ok=True)
        copy_private(source, kept)
    ready.rename(state.next_key)
    sync_directory(state.root)
    state.take_next_key()
    return new, retired
