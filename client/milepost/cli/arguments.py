"""The arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Store = Annotated[str, typer.Argument(help="Name of the store.")]
Name = Annotated[str, typer.Argument(help="Name of the handle.")]
Stores = Annotated[
    list[str] | None,
    typer.Option("--store", metavar="PATTERN", help="Only these stores; * and ? stand for any. May be repeated."),
]
Version = Annotated[str | None, typer.Option("--version", help="Only if the handle has this version.")]
