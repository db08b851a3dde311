"""The operations on the service's record of which executor has which state store of a job loaded.

They need no session, only the store's epoch. Each may be done again, so that an outcome that is not known does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from milepost.core.calls import answers, members
from milepost.core.calls.answers import Reader
from milepost.core.calls.members import Document
from milepost.core.calls.request import Request, checked_name, json_body
from milepost.core.effects import Emit, Operation
from milepost.core.store_calls import JSON, StoreCalls
from milepost.errors import InvalidRequest
from milepost.operations.operation import RestOperation
from milepost.operations.state import (
    DEACTIVATE_INSTANCES,
    GET_LAGGING_INSTANCES,
    LIST_INSTANCES,
    LOCATE_INSTANCES,
    NOTE_SNAPSHOTS,
    REPORT_INSTANCES,
    VERIFY_INSTANCES,
)
from milepost.types import (
    ExecutorLocation,
    InstanceReport,
    LaggingInstances,
    LoadedInstance,
    StateInstance,
    VerifiedInstances,
)
from milepost.wire import HOST, MAX_INSTANCES, MAX_PAGE, Code

T = TypeVar("T")

_SMALL_PART = 20
_HALF = MAX_INSTANCES // 2
"""A request has 64 KiB at most, and an instance with the longest names takes half of one. So two lists of a hundred may
be too many, if neither is small.
"""


class InstanceOperations:
    """The operations on the loaded state stores of one job, under the epoch that its store has when they begin.

    The service takes a hundred instances at once; more are sent in several requests, which share ``timeout``. Of these
    the first record counts: if a later one met another record, the next verification finds that out.
    """

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls

    def report(
        self,
        location: ExecutorLocation,
        loaded: Sequence[StateInstance],
        others: Sequence[StateInstance],
        timeout: float | None = None,
    ) -> Operation[InstanceReport]:
        """Do Spark's ``reportActiveInstance`` for all that are ``loaded``. Raises `Fenced`, `Unavailable`."""
        deadline = self._deadline(timeout)
        reader = answers.document(_instance_report)
        answered: list[InstanceReport] = []
        most = MAX_INSTANCES if min(len(loaded), len(others)) <= _SMALL_PART else _HALF
        for part, rest in list(zip_longest(_parts(loaded, most), _parts(others, most), fillvalue=())) or [((), ())]:
            body = {**_place(location), "loaded": _bodies(part), "others": _bodies(rest)}
            answered.append((yield from self._note(REPORT_INSTANCES, reader, body, deadline)))
        return InstanceReport(answered[0].record, tuple(one for each in answered for one in each.unload))

    def verify(
        self,
        location: ExecutorLocation,
        instances: Sequence[StateInstance],
        record: str,
        timeout: float | None = None,
    ) -> Operation[VerifiedInstances]:
        """Do Spark's ``verifyIfInstanceActive`` for all these instances. Raises `Fenced`, `Unavailable`."""
        deadline = self._deadline(timeout)
        reader = answers.document(_verified_instances)
        answered: list[VerifiedInstances] = []
        for part in list(_parts(instances)) or [()]:
            body = {**_place(location), "record": record, "instances": _bodies(part)}
            answered.append((yield from self._note(VERIFY_INSTANCES, reader, body, deadline)))
        return VerifiedInstances(answered[0].record, tuple(one for each in answered for one in each.active))

    def locations(
        self, instances: Sequence[StateInstance], timeout: float | None = None
    ) -> Operation[list[LoadedInstance]]:
        """Do Spark's ``getLocation`` for all these instances; those that nobody has are left out."""
        deadline = self._deadline(timeout)
        found: list[LoadedInstance] = []
        for part in _parts(instances):
            body = {"instances": _bodies(part)}
            found += yield from self._ask(LOCATE_INSTANCES, answers.document(_locations), body, {}, deadline)
        return found

    def snapshots_made(self, versions: Mapping[StateInstance, int], timeout: float | None = None) -> Operation[None]:
        """Do Spark's ``snapshotUploaded`` for each instance and the version of its snapshot. Raises `Fenced`."""
        deadline = self._deadline(timeout)
        for part in _parts(list(versions)):
            body = {"snapshots": [{**_body(one), "version": versions[one]} for one in part]}
            yield from self._note(NOTE_SNAPSHOTS, answers.nothing, body, deadline)

    def deactivate(
        self,
        instances: Sequence[StateInstance] | None,
        run: str | None,
        executor: str | None,
        timeout: float | None = None,
    ) -> Operation[int]:
        """Do Spark's ``deactivateInstances``, and return how many there were. Raises `Fenced`."""
        deadline, count = self._deadline(timeout), 0
        narrowed: dict[str, Any] = {} if run is None else {"run": checked_name(run, "run")}
        narrowed |= {} if executor is None else {"executor": checked_name(executor, "executor")}
        for part in [None] if instances is None else _parts(instances):
            body = narrowed if part is None else {**narrowed, "instances": _bodies(part)}
            count += yield from self._note(DEACTIVATE_INSTANCES, answers.document(_deactivated), body, deadline)
        return count

    def all(self, timeout: float | None = None) -> Operation[None]:
        """Fetch page after page of all instances, each within ``timeout``, and emit each `LoadedInstance`."""
        token: str | None = None
        while True:
            call = self._calls.at(LIST_INSTANCES, limit=MAX_PAGE, token=token)
            request = Request(*call, answers.document(_loaded_instances(token)))
            found, token = (yield from self._calls.caller.call(request, timeout=timeout)).value
            for one in found:
                yield Emit(one)
            if token is None:
                return

    def lagging(
        self, run: str, version: int, versions: int, age: float, most: int, timeout: float | None = None
    ) -> Operation[LaggingInstances]:
        """Do Spark's ``logLaggingStateStores``, but return what lags."""
        call = self._calls.at(
            GET_LAGGING_INSTANCES,
            run=checked_name(run, "run"),
            version=version,
            versions=versions,
            seconds=age,
            limit=most,
        )
        request = Request(*call, answers.document(_lagging))
        return (yield from self._calls.caller.call(request, timeout=timeout)).value

    def _deadline(self, timeout: float | None) -> float:
        caller = self._calls.caller
        return caller.clock() + (caller.timeout if timeout is None else timeout)

    def _note(
        self, operation: RestOperation, reader: Reader[T], body: Mapping[str, Any], deadline: float
    ) -> Operation[T]:
        """Ask for what needs the epoch."""
        return self._ask(operation, reader, body, self._calls.epoch_header(), deadline)

    def _ask(
        self,
        operation: RestOperation,
        reader: Reader[T],
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        deadline: float,
    ) -> Operation[T]:
        request = Request(*self._calls.at(operation), reader, {**headers, **JSON}, json_body(body))
        left = deadline - self._calls.caller.clock()
        return (yield from self._calls.caller.call(request, timeout=left)).value


def _parts(instances: Sequence[StateInstance], most: int = MAX_INSTANCES) -> Iterator[Sequence[StateInstance]]:
    return (instances[start : start + most] for start in range(0, len(instances), most))


def _place(location: ExecutorLocation) -> dict[str, Any]:
    """Return the members that say who speaks. Raises `InvalidRequest`, `InvalidName` before anything is sent."""
    if not HOST.match(location.host):
        raise InvalidRequest(Code.INVALID_REQUEST, f"not the name of a host: {location.host!r}")
    return {"host": location.host, "executor": checked_name(location.executor, "executor")}


def _bodies(instances: Sequence[StateInstance]) -> list[dict[str, Any]]:
    return [_body(one) for one in instances]


def _body(one: StateInstance) -> dict[str, Any]:
    run, name = checked_name(one.run, "run"), checked_name(one.name, "state store")
    return {"run": run, "operator": one.operator, "partition": one.partition, "name": name}


def _instance_report(document: Document) -> InstanceReport:
    """Read which instances an executor has to unload."""
    return InstanceReport(members.text(document, "record"), _instances(document, "unload"))


def _verified_instances(document: Document) -> VerifiedInstances:
    """Read which instances are an executor's."""
    return VerifiedInstances(members.text(document, "record"), _instances(document, "active"))


def _locations(document: Document) -> list[LoadedInstance]:
    """Read where instances are loaded."""
    return [_loaded(entry) for entry in members.entries(document, "locations")]


def _loaded_instances(after: str | None) -> Callable[[Document], tuple[list[LoadedInstance], str | None]]:
    """Make a reader for the page of instances after the token ``after``: the instances, and the next page's token."""

    def read(document: Document) -> tuple[list[LoadedInstance], str | None]:
        return [_loaded(entry) for entry in members.entries(document, "instances")], members.next_page(document, after)

    return read


def _lagging(document: Document) -> LaggingInstances:
    """Read which instances lag."""
    return LaggingInstances(
        members.whole(document, "count"), tuple(_loaded(entry) for entry in members.entries(document, "lagging"))
    )


def _deactivated(document: Document) -> int:
    """Read how many instances were deactivated."""
    return members.whole(document, "deactivated")


def _instances(document: Document, name: str) -> tuple[StateInstance, ...]:
    return tuple(_instance(entry) for entry in members.entries(document, name))


def _instance(document: Document) -> StateInstance:
    run, name = members.text(document, "run"), members.text(document, "name")
    return StateInstance(run, members.whole(document, "operator"), members.whole(document, "partition"), name)


def _loaded(document: Document) -> LoadedInstance:
    return LoadedInstance(
        _instance(document),
        ExecutorLocation(members.text(document, "host"), members.text(document, "executor")),
        None if document.get("snapshot") is None else members.whole(document, "snapshot"),
        members.seconds(document, "age"),
    )
