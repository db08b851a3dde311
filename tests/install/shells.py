"""A shell into which the lines of docs/install.md are pasted."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.ports import Port
from tests.support.commands import output_of

SECONDS = 560


def shell(script: str, variables: Mapping[str, str], directory: Path, *wrapper: str | Path) -> str:
    """What a script printed; each of its lines has to end well."""
    command = [*wrapper, "bash", "-euo", "pipefail", "-c", script]
    return output_of(command, directory=directory, seconds=SECONDS, environment=variables)


def leading(port: Port) -> Callable[[], bool]:
    """Whether a server there leads."""

    def leads() -> bool:
        try:
            with urllib.request.urlopen(f"http://{port.address}/leader", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    return leads
