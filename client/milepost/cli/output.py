"""Print records: as a table, or as JSON with ``--json``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import typer

from milepost.cli.table import table


def show(context: typer.Context, record: Any) -> None:
    """Print one record, a field in each line."""
    fields = _plain(record)
    if context.obj.as_json:
        typer.echo(json.dumps(fields, indent=2))
    else:
        typer.echo(table([(key, value) for key, value in fields.items()]))


def show_all(context: typer.Context, records: Iterable[Any], columns: tuple[str, ...]) -> None:
    """Print these fields of each record, a record in each line."""
    rows = [_plain(record) for record in records]
    if context.obj.as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        typer.echo(table([tuple(column.upper() for column in columns), *([row[c] for c in columns] for row in rows)]))


def _plain(record: Any) -> dict[str, Any]:
    fields = dataclasses.asdict(record)
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in fields.items()}
