"""The ``milepost`` command shows what a service holds, and runs Spark jobs. It needs the extra ``milepost[cli]``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the ``milepost`` command."""
    try:
        from milepost.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name != "typer":
            raise
        sys.exit("the milepost command needs typer: pip install 'milepost[cli]'")
    app()
