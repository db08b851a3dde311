"""Prints what commands return: as a table, as JSON or as YAML."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

import typer
import yaml


class Form(str, Enum):
    """The forms in which a command can print its output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def show(context: typer.Context, record: Any) -> None:
    """Print one record: as a table with one line for each field, or as JSON or YAML."""
    fields = fields_of(record)
    if not _structured(context, fields):
        typer.echo(_table([(key, value) for key, value in fields.items()]))


def show_all(context: typer.Context, records: Iterable[Any], columns: tuple[str, ...]) -> None:
    """Print records: as a table with these ``columns``, or with all their fields as JSON or YAML."""
    rows = [fields_of(record) for record in records]
    if not _structured(context, rows):
        typer.echo(_table([tuple(column.upper() for column in columns), *([row[c] for c in columns] for row in rows)]))


def show_each(context: typer.Context, records: Iterable[Any], columns: tuple[str, ...]) -> None:
    """Print each record as soon as it comes: its ``columns`` in a line, or all its fields as a line of JSON or a
    document of YAML.
    """
    form: Form = context.obj.form
    for record in records:
        fields = fields_of(record)
        if form is Form.JSON:
            typer.echo(json.dumps(fields, default=str))
        elif form is Form.YAML:
            typer.echo(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, explicit_start=True), nl=False)
        else:
            typer.echo("  ".join(_cell(fields[column]) for column in columns))


def report(context: typer.Context, sentence: str, **fields: Any) -> None:
    """Print the result of a change: ``sentence``, or ``fields`` if the user wants JSON or YAML."""
    if not _structured(context, fields):
        typer.echo(sentence)


def _structured(context: typer.Context, value: Any) -> bool:
    """Print a value as JSON or YAML if the user wants one of these; return whether it was printed."""
    form: Form = context.obj.form
    if form is Form.JSON:
        # `default=str` is for dates, which a file of contexts may contain
        typer.echo(json.dumps(value, indent=2, default=str))
    elif form is Form.YAML:
        typer.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    return form is not Form.TABLE


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a record by name, as they are printed."""
    fields = record if isinstance(record, Mapping) else dataclasses.asdict(record)
    return {key: _text_of(value) for key, value in fields.items()}


def _text_of(value: Any) -> Any:
    """Return a date or an Enum member as text, because YAML cannot write these; any other value unchanged."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else value


def _table(rows: Iterable[Sequence[object]]) -> str:
    """Format rows as left-aligned columns with two spaces between them; None is shown as ``-``."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value) or "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
