"""The ``milepost`` command shows the content of a service, changes it, and runs Spark jobs. It needs the extra
``milepost[cli]``.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = ("typer", "yaml")


def main() -> None:
    """Run the ``milepost`` command."""
    try:
        from milepost.cli.app import root_command
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        sys.exit(f"the milepost command needs {missing.name}: install the SDK with its extra cli")
    root_command()()
