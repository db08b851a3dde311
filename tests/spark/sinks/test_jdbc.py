"""A table of a real PostgreSQL gets each batch exactly once, whatever becomes of drivers, connections and the job."""

from __future__ import annotations

import logging
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import milepost
import milepost.spark
from milepost.errors import SinkFailed, SinkRefused
from milepost.spark.sinks.jdbc import JdbcTable
from testbed.postgresql import PostgresqlServer
from testbed.process import ProcessFailed
from tests.docs.blocks import ROOT, blocks_of
from tests.spark.jobs import Place, finish, wait_until
from tests.spark.test_restore import go_back, of_batch
from tests.spark.trials.queries import KINDS, read_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from milepost.spark import BatchContext

pytestmark = pytest.mark.spark

Rows = dict[int, list[tuple[int, int]]]


class Table:
    """A table ``t`` in a schema of its own, and the sink for it."""

    def __init__(self, server: PostgresqlServer, schema: str) -> None:
        self.server = server
        self.schema = schema

    def sink(self, **options: Any) -> JdbcTable:
        chosen = {"batch_column": "batch", **options}
        url = chosen.pop("url", self.server.url)
        return JdbcTable(url, f"{self.schema}.t", properties=self.server.properties, **chosen)

    def rows(self) -> Rows:
        """The rows of each batch."""
        found: Rows = {}
        for batch, k, w in self.server.query(f"SELECT batch, k, w FROM {self.schema}.t"):
            found.setdefault(int(batch), []).append((int(k), int(w)))
        return {batch: sorted(of) for batch, of in sorted(found.items())}

    def pairs(self) -> Counter[tuple[int, int]]:
        found = self.server.query(f"SELECT k, w FROM {self.schema}.t")
        return Counter((int(k), int(w)) for k, w in found)

    def fence(self) -> tuple[int, int]:
        """Epoch and batch."""
        ((epoch, batch),) = self.server.query(f"SELECT epoch, batch FROM {self.schema}.milepost_fences")
        return int(epoch), int(batch)

    def stages(self) -> list[str]:
        sql = f"SELECT tablename FROM pg_tables WHERE schemaname = '{self.schema}' AND tablename LIKE '%stage%'"
        return [name for (name,) in self.server.query(sql)]

    def change(self, sql: str) -> None:
        self.server.query(sql.format(schema=self.schema))


@pytest.fixture
def table(database: PostgresqlServer, schema: str) -> Table:
    return Table(database, schema)


def expected(batches: int, kind: str = "stateless") -> Rows:
    return {batch: rows for batch, rows in enumerate(KINDS[kind].expected(batches)) if rows}


def test_each_batch_is_there_once_also_if_its_driver_died_between_table_and_record(place: Place, table: Table) -> None:
    place.add_input(4)
    sink = table.sink()
    returned: list[Any] = []

    def dying(frame: DataFrame, context: BatchContext) -> Any:
        returned.append(sink(frame, context))
        if context.batchId == 2:
            raise KeyError("dead")
        return returned[-1]

    with pytest.raises(StreamingQueryException, match="dead"):
        place.run(dying, "aggregation")
    assert table.rows() == expected(3, "aggregation")
    place.run(table.sink(), "aggregation")
    assert table.rows() == expected(4, "aggregation")
    assert table.fence() == (2, 3)
    assert table.stages() == []
    counts = [len(rows) for rows in expected(3, "aggregation").values()]
    assert [(each["batch"], each["rows"]) for each in returned] == list(enumerate(counts))


def test_the_lines_of_the_page_write_a_table(
    place: Place, table: Table, monkeypatch: pytest.MonkeyPatch, schema: str
) -> None:
    """Those of docs/sinks.md."""
    (block,) = blocks_of(ROOT / "docs" / "sinks.md")
    monkeypatch.setenv("DB_PASSWORD", table.server.properties["password"])
    text = block.text
    for old, new in (
        ("jdbc:postgresql://db.example:5432/flights", table.server.url),
        ("public.delays", f"{schema}.t"),
        ('"spark"', '"milepost"'),
        ("http://127.0.0.1:7070", place.url),
        ('"flights"', repr(place.name)),
        (".start()", ".trigger(availableNow=True).start()"),
    ):
        assert old in text
        text = text.replace(old, new)
    frame = KINDS["stateless"].build(read_input(place.spark, str(place.input)))
    exec(compile(text, block.place, "exec"), {"milepost": milepost, "spark": place.spark, "frame": frame})
    assert table.rows() == expected(2)


def test_a_restore_takes_rows_back_and_cannot_give_them_again(
    place: Place, table: Table, client: milepost.Client
) -> None:
    place.add_input(4)
    place.run(table.sink())
    made = go_back(client, place, of_batch(client, place, 1))
    assert table.rows() == expected(4)  # a restore has no way to the table, the next batch has
    place.run(table.sink())
    assert table.rows() == expected(4)

    assert made.undo is not None
    go_back(client, place, made.undo)  # to batches 2 and 3 of before, whose rows are deleted
    place.add_input(5)
    with pytest.raises(SinkRefused, match=r"up to 1, and the job has published up to 3 there.*to batch 1"):
        place.run(table.sink())
    assert table.rows() == expected(4)
    go_back(client, place, of_batch(client, place, 1))
    place.run(table.sink())
    assert table.rows() == expected(5)


def test_a_restore_that_is_undone_before_a_batch_came_changes_nothing(
    place: Place, table: Table, client: milepost.Client
) -> None:
    place.add_input(3)
    place.run(table.sink())
    made = go_back(client, place, of_batch(client, place, 0))
    assert made.undo is not None
    go_back(client, place, made.undo)
    place.add_input(5)
    place.run(table.sink())
    assert table.rows() == expected(5)


def test_a_table_without_the_number_of_the_batch_says_what_to_take_back(
    place: Place, table: Table, client: milepost.Client
) -> None:
    """With keys a batch replaces rows, so it keeps no number either."""
    table.change("CREATE TABLE {schema}.t (k bigint PRIMARY KEY, w bigint)")
    place.add_input(4)
    place.run(table.sink(keys=["k"], batch_column=None), "aggregation")
    sums = {k: w for rows in KINDS["aggregation"].expected(4) for k, w in rows}
    assert table.pairs() == Counter(sums.items())
    go_back(client, place, of_batch(client, place, 1))
    with pytest.raises(SinkRefused, match="the rows of batches 2 to 3") as refused:
        place.run(table.sink(keys=["k"], batch_column=None), "aggregation")
    told = str(refused.value).partition("then run: ")[2]
    table.change(f"TRUNCATE {{schema}}.t; {told}")
    before = {k: w for rows in KINDS["aggregation"].expected(2) for k, w in rows}
    table.change(f"INSERT INTO {{schema}}.t VALUES {', '.join(map(str, before.items()))}")
    place.run(table.sink(keys=["k"], batch_column=None), "aggregation")
    assert table.pairs() == Counter(sums.items())


def test_what_does_not_fit_the_fence_is_refused_and_writes_nothing(place: Place, table: Table) -> None:
    place.add_input(2)
    place.run(table.sink())
    place.add_input(3)
    there = table.rows()
    table.change("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.milepost_fences")
    for harm, complaint in (
        ("job = 'another'", "belongs to the job with the identity another"),
        ("epoch = epoch + 100", "a newer driver has written batch 1 under epoch 10"),
        ("batch = 0", "up to 0, and the job has published up to 1"),
        ("batch = 7", "has batch 7 already, and this is batch 2"),
        ("runs = '[[1, true]]'", "its runs are"),
        ("runs = '[[1, 3], [2, 1]]'", "its runs are not in order"),
    ):
        table.change(f"UPDATE {{schema}}.milepost_fences SET {harm}")
        with pytest.raises(SinkRefused, match=complaint):
            place.run(table.sink())
        assert table.rows() == there
        assert table.stages() == []
        table.change("DELETE FROM {schema}.milepost_fences")
        table.change("INSERT INTO {schema}.milepost_fences SELECT * FROM {schema}.kept")
    table.change("ALTER TABLE {schema}.milepost_fences RENAME TO gone")
    with pytest.raises(SinkRefused, match="up to -1, and the job has published up to 1"):
        place.run(table.sink())
    table.change("DROP TABLE {schema}.milepost_fences; ALTER TABLE {schema}.gone RENAME TO milepost_fences")
    place.run(table.sink())
    assert table.rows() == expected(3)


def test_a_commit_whose_answer_is_lost_is_not_repeated(place: Place, table: Table) -> None:
    place.add_input(3)
    with losing_commits(table.server.port.number, 3) as port:
        url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?sslmode=disable&gssEncMode=disable"
        drivers = 1
        while ended_early(place, table.sink(url=url), 3):
            drivers += 1
    assert drivers == 1 + 3
    assert table.rows() == expected(3)


def ended_early(place: Place, sink: JdbcTable, batches: int) -> bool:
    """Run a driver; return whether it ended before all batches were written."""
    with suppress(SinkFailed), place.lead() as job:
        finish(job, place.start(job, job.exactlyOnce(sink)))
        assert job.published == batches - 1
        return False
    return True


def test_a_lock_that_another_client_holds_ends_the_batch_and_not_the_job(place: Place, table: Table) -> None:
    place.add_input(2)
    place.run(table.sink())
    place.add_input(3)
    held = f"BEGIN; SELECT 1 FROM {table.schema}.milepost_fences FOR UPDATE; SELECT pg_sleep(600); COMMIT"
    thread = threading.Thread(target=hold, args=(table, held), daemon=True)
    thread.start()
    sleeping = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND wait_event = 'PgSleep'"
    wait_until(lambda: bool(table.server.query(sleeping)))
    with pytest.raises(SinkFailed, match=r"due to (lock|statement) timeout"):
        place.run(table.sink(timeout=1.0))
    table.server.query(f"SELECT pg_terminate_backend(pid) FROM ({sleeping}) s")
    thread.join(60)
    place.run(table.sink())
    assert table.rows() == expected(3)


def hold(table: Table, sql: str) -> None:
    with suppress(ProcessFailed):  # the test ends it
        table.server.query(sql)


def test_errors_of_the_database_are_told_without_secrets(
    place: Place, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "milepost")  # Py4J's own log has all that is said to the JVM at this level
    place.add_input(1)
    secret = "battery-staple"
    wrong = JdbcTable(table.server.url, f"{table.schema}.t", properties={"user": "milepost", "password": secret})
    with pytest.raises(SinkFailed, match="password authentication failed") as refused:
        place.run(wrong)
    table.change("CREATE TABLE {schema}.t (k bigint, other bigint, batch bigint)")
    with pytest.raises(SinkFailed, match='column "w" does not exist'):
        place.run(table.sink())
    said = f"{refused.value!r} {wrong!r} {caplog.text}"
    assert secret not in said
    assert table.server.properties["password"] not in said


@pytest.mark.parametrize(
    ("arguments", "error", "complaint"),
    [
        ({"url": "jdbc:mysql://db/flights"}, ValueError, "must begin with jdbc:postgresql:"),
        ({"table": 'a"b'}, ValueError, "is no name of a table"),
        ({"table": "a; DROP TABLE b"}, ValueError, "is no name of a table"),
        ({"keys": "k"}, TypeError, r"\['k'\]"),
        ({"keys": ["k"], "batch_column": "b"}, ValueError, "a row that was replaced"),
        ({"timeout": 0}, ValueError, "must be positive"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        JdbcTable(**{"url": "jdbc:postgresql://db/flights", "table": "t", **arguments})


@contextmanager
def losing_commits(target: int, times: int) -> Iterator[int]:
    """A proxy on a port of 127.0.0.1 that ends a connection when the server has answered a ``COMMIT`` of a batch and
    the client has not got the answer; so often.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    lost: list[int] = []

    def serve(client: socket.socket) -> None:
        with closing(client), closing(socket.create_connection(("127.0.0.1", target), 30)) as server:
            server.settimeout(None)
            armed = threading.Event()
            threading.Thread(target=answer, args=(client, server, armed), daemon=True).start()
            noted = False
            with suppress(OSError):
                while data := client.recv(65536):
                    if noted and len(lost) < times:  # what follows the update of a fence is its commit
                        lost.append(len(lost))
                        armed.set()
                    noted = b"SET epoch" in data
                    server.sendall(data)

    def answer(client: socket.socket, server: socket.socket, armed: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if armed.is_set():
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
        assert len(lost) == times, "no commit lost its answer"
    finally:
        listener.close()
