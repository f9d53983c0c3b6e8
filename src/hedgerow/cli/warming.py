"""Compiles all loops ahead of their first use: for images, services and whoever hates to wait."""

from __future__ import annotations

from hedgerow.cli.console import tell


def warm() -> None:
    """Compile all loops now, so that no first fit waits for them; says where they are kept."""
    from hedgerow.kernels import warming

    warming.warm()
    tell(f"All loops are ready, kept in {warming.place() or 'this process alone'}.")
