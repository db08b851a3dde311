"""What another release makes of a stored record: it proves itself, and so do the head and the witness."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from milepost_backends.contract import Head
from milepost_backends.embedded.pointers import FILE_NAME, WITNESS_NAME
from milepost_backends.embedded.witness import FileWitness
from milepost_server.journal.proof import Proof
from milepost_server.model.checksums import seal


def rewrite(directory: Path, key: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the record under ``key`` in the journal below ``directory``, as a commit would; nobody must be leading."""
    with closing(sqlite3.connect(directory / "pointers" / FILE_NAME)) as connection:
        (value,) = connection.execute("SELECT value FROM record WHERE key = ?", (key,)).fetchone()
    record = json.loads(value)
    del record["check"]
    commit(directory, key, seal(key, json.dumps(change(record)).encode()))


def commit(directory: Path, key: str, value: bytes) -> None:
    """Put a record there, as a commit would; nobody must be leading."""
    pointers = directory / "pointers"
    with closing(sqlite3.connect(pointers / FILE_NAME)) as connection, connection:
        connection.execute("INSERT OR REPLACE INTO record (journal, key, value) VALUES ('root', ?, ?)", (key, value))
        proof = Proof()
        proof.apply(connection.execute("SELECT key, value FROM record").fetchall())
        row = connection.execute("SELECT journal, term, revision, lineage FROM head").fetchone()
        head = replace(Head(*row), digest=proof.digest)
        connection.execute('UPDATE head SET digest = ?, "check" = ?', (head.digest, head.check))
    witness = FileWitness(pointers / WITNESS_NAME)
    witness.ask(head.journal)
    witness.begin(head)
