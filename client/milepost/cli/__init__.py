"""The ``milepost`` command: a look at stores, handles, sessions and epochs. Needs the extra ``milepost[cli]``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command."""
    try:
        from milepost.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name != "typer":
            raise
        sys.exit("the milepost command needs typer: pip install 'milepost[cli]'")
    app()
