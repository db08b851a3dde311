"""The ``milepost`` command shows the content of a service, changes it, and runs Spark jobs. It needs the extra
``milepost[cli]``.
"""

from __future__ import annotations

import signal
import sys

from milepost.signals import Ended, sent_again_if_dropped

__all__ = ["main"]

_EXTRA = ("typer", "yaml")


def main() -> None:
    """Run the ``milepost`` command."""
    try:
        with sent_again_if_dropped():
            _run()
    except KeyboardInterrupt:  # before or behind the command itself, which has this status, too
        raise Ended(signal.SIGINT) from None


def _run() -> None:
    try:
        from milepost.cli.app import root_command
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        sys.exit(f"the milepost command needs {missing.name}: install the SDK with its extra cli")
    root_command()()
