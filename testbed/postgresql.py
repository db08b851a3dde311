"""Runs PostgreSQL from the distribution's package on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.ports import Port
from testbed.process import DEADLINE_SECONDS, Process, ProcessFailed

USER = "milepost"
_INSTALLED = Path("/usr/lib/postgresql")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # no test cuts the machine's power
    "max_connections": "50",
    "shared_buffers": "16MB",
    "log_statement": "ddl",
}


class PostgresqlAbsent(Exception):
    """There is no PostgreSQL server on this machine. The message says how to get one."""


class PostgresqlServer(Process):
    """A server with its data in ``directory``, which takes ``password`` from the user `USER`."""

    def __init__(self, directory: Path, password: str) -> None:
        self.port = Port()
        self._programs = programs()
        self._data = directory / "data"
        self._password = password
        settings = {**_SETTINGS, "port": str(self.port.number)}
        super().__init__(
            "postgresql",
            [
                *_as_no_root(),
                str(self._programs / "postgres"),
                "-D",
                str(self._data),
                *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            ],
            log_path=directory / "postgresql.log",
        )

    @property
    def url(self) -> str:
        """The address of the database ``postgres``, for JDBC."""
        return f"jdbc:postgresql://{self.port.address}/postgres"

    @property
    def properties(self) -> dict[str, str]:
        """The properties of a connection."""
        return {"user": USER, "password": self._password}

    def serve(self, deadline: float = DEADLINE_SECONDS) -> None:
        """Make the data if there is none, start the server and wait until it serves."""
        if not self._data.exists():
            self._initialize()
        self.start(lambda: self._psql("SELECT 1").returncode == 0, deadline)

    def query(self, sql: str) -> list[list[str]]:
        """Run statements, and return the rows of the last one, each value as text. Raises `ProcessFailed`."""
        ended = self._psql(sql)
        if ended.returncode:
            raise ProcessFailed(f"psql: {ended.stderr}")
        return [line.split("|") for line in ended.stdout.splitlines()]

    def _psql(self, sql: str) -> subprocess.CompletedProcess[str]:
        address = f"postgresql://{USER}@{self.port.address}/postgres"
        command = [str(self._programs / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, address]
        environment = {**os.environ, "PGPASSWORD": self._password, "PGCONNECT_TIMEOUT": "5"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def _initialize(self) -> None:
        self._data.parent.mkdir(parents=True, exist_ok=True)
        secret = self._data.with_suffix(".password")
        secret.write_text(self._password)
        initdb = [str(self._programs / "initdb"), "-D", str(self._data), "-U", USER, "--pwfile", str(secret)]
        ended = subprocess.run(
            [*_as_no_root(), *initdb, "-A", "scram-sha-256", "--no-sync", "--no-locale", "-E", "UTF8"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        secret.unlink()
        if ended.returncode:
            raise ProcessFailed(f"initdb: {ended.stderr}")


@contextmanager
def postgresql(directory: Path, password: str) -> Iterator[PostgresqlServer]:
    """Run a server until the end of the block. Inside the block it serves. Raises `PostgresqlAbsent`."""
    server = PostgresqlServer(directory, password)
    try:
        server.serve()
        yield server
    finally:
        server.end()


def programs() -> Path:
    """Return the directory of PostgreSQL's programs. Raises `PostgresqlAbsent`."""
    on_path = shutil.which("postgres")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += [path.parent for path in sorted(_INSTALLED.glob("*/bin/postgres"), reverse=True)]
    for each in found:
        if all((each / name).exists() for name in ("postgres", "initdb", "psql")):
            return each
    raise PostgresqlAbsent("install PostgreSQL's server (Debian, Ubuntu: apt-get install postgresql)")


def _as_no_root() -> Sequence[str]:
    """Return the beginning of a command that is not root to itself, since PostgreSQL refuses to run as root. To the
    rest of the system, and so to its files, it stays the user that it was.
    """
    return ("unshare", "--user", "--map-user=1000", "--map-group=1000") if os.geteuid() == 0 else ()
