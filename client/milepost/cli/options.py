"""The options that all commands share, and what is done with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from milepost.client import Client
from milepost.errors import MilepostError


@dataclass(frozen=True)
class Options:
    """How the service is reached, and how answers are shown."""

    urls: tuple[str, ...]
    token: str | None
    timeout: float
    as_json: bool

    @contextmanager
    def client(self, failed: int = 1) -> Iterator[Client]:
        """A client of the service. An error ends the command with a line on stderr and the exit status ``failed``."""
        try:
            with Client(self.urls, token=self.token, timeout=self.timeout) as client:
                yield client
        except (MilepostError, OSError, ValueError) as error:
            typer.echo(f"{type(error).__name__}: {error}", err=True)
            raise typer.Exit(failed) from error
