"""Asks other cells for what their leaders know, so that the console shows all cells although a browser reaches one.

A request goes to a replica of the other cell, and from there to the leader of that cell, if that is another replica. It
goes no further, and no redirect is followed: so it never leaves the addresses in the list and the cell that was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from starlette.responses import Response

from milepost.wire import PROBLEM_TYPE_PREFIX, Code, Header
from milepost_server.basics.problems import problem
from milepost_server.http.cells.addresses import CellAddresses
from milepost_server.http.webhdfs.datanode.exchanges import Answer, Exchanges, NoAnswer, NotReached
from milepost_server.replica.leader_locator import LeaderLocator

RELAYED: Final = "Milepost-Relayed"
"""The header of a request that comes from another cell. Its value is the name of that cell."""

CELL_SECONDS: Final = 3.0
"""The seconds within which another cell answers, whatever the number of its replicas."""
LEADER_SECONDS: Final = 2.0
"""The seconds within which the leader of this cell answers another replica of this cell."""
MOST_ANSWER_BYTES: Final = 1024 * 1024
MOST_AT_ONCE: Final = 16
"""The most requests to other replicas that are in flight at a time. Further ones are refused: no one waits for room."""

_PASSED_ON: Final = ("content-type", Header.TERM.lower(), Header.RETRY_AFTER.lower(), "www-authenticate")
_NO_ROUTE: Final = f'"{PROBLEM_TYPE_PREFIX}{Code.NO_ROUTE.value}"'.encode()
_ASK_ANOTHER: Final = 500
"""From this status on, an answer is no reason not to ask another replica of the cell."""


class CellRelay:
    """Asks the leaders of all cells, for clients of this replica.

    ``own`` is the name of the cell to which this replica belongs, empty if the deployment is no cell. ``addresses``
    returns the addresses of all cells; it is empty if the settings have none. ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        own: str,
        addresses: CellAddresses,
        leader_locator: LeaderLocator,
        exchanges: Exchanges,
        clock: Callable[[], float],
    ) -> None:
        self.own = own
        self._addresses = addresses
        self._leader_locator = leader_locator
        self._exchanges = exchanges
        self._clock = clock
        self._answered: dict[str, str] = {}
        """By the name of a cell, the address that answered last: it is asked first."""
        self._in_flight = 0

    @property
    def names(self) -> list[str]:
        """The names of the cells that can be asked, sorted."""
        return sorted(self._addresses())

    async def ask_leader(self, target: str, authorization: str) -> Response:
        """Return the answer of the leader of this cell, which is another replica, to ``GET target``. Raises a
        ``no-leader`` problem if none comes in time.
        """
        leader = await self._leader_locator.elsewhere()
        if leader is None:
            raise problem(Code.NO_LEADER, "there is no leader at the moment")
        answer = await self._asked(leader.rstrip("/") + target, _headers(authorization), LEADER_SECONDS)
        if isinstance(answer, str):
            raise problem(Code.NO_LEADER, f"the leader does not answer: {answer}")
        return _passed_on(answer)

    async def ask_cell(self, cell: str, target: str, authorization: str) -> Response:
        """Return the answer of another cell to ``GET target``. Its replicas are asked in turn, until one of them
        answers. Raises ``not-exist`` if the list has no such cell, ``not-supported`` if its release cannot be asked,
        and ``no-leader`` if none of its replicas answers in time.
        """
        addresses = self._addresses().get(cell)
        if addresses is None:
            raise problem(Code.NOT_EXIST, f"there is no cell {cell[:60]!r} in the list that this replica has")
        first = self._answered.get(cell, "")
        ordered = sorted(addresses, key=lambda address: address != first)
        headers = {**_headers(authorization), RELAYED: self.own}
        end, failed, refused = self._clock() + CELL_SECONDS, "", None
        for number, address in enumerate(ordered):
            seconds = (end - self._clock()) / (len(ordered) - number)
            if seconds <= 0:
                break
            answer = await self._asked(address + target, headers, seconds)
            if isinstance(answer, str):
                failed = answer
                continue
            if answer.status < _ASK_ANOTHER:
                self._answered[cell] = address
                if answer.status == 404 and _NO_ROUTE in answer.content:
                    raise problem(Code.NOT_SUPPORTED, f"the cell {cell} is of an earlier release, without this")
                return _passed_on(answer)
            refused = answer
        if refused is not None:
            return _passed_on(refused)
        raise problem(Code.NO_LEADER, f"no replica of the cell {cell} answers: {failed}")

    async def _asked(self, url: str, headers: Mapping[str, str], seconds: float) -> Answer | str:
        """Return the answer of a replica, or why there is none."""
        if self._in_flight >= MOST_AT_ONCE:
            raise problem(Code.TOO_MANY_REQUESTS, f"{MOST_AT_ONCE} requests to other replicas are in flight")
        self._in_flight += 1
        where = url.partition("/v1/")[0]
        try:
            answer = await self._exchanges.get(url, headers, seconds, MOST_ANSWER_BYTES)
        except (NotReached, NoAnswer) as error:
            return f"{where}: {_reason(error)}"
        finally:
            self._in_flight -= 1
        if Header.TERM.lower() not in answer.headers:
            return f"{where} is answered by something else than a replica, with status {answer.status}"
        if 300 <= answer.status < 400:
            return f"{where} leads elsewhere, and is not followed"
        return answer


def _headers(authorization: str) -> dict[str, str]:
    return {"Accept": "application/json", **({"Authorization": authorization} if authorization else {})}


def _reason(error: NotReached | NoAnswer) -> str:
    cause = error.__cause__
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause or error)


def _passed_on(answer: Answer) -> Response:
    headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
    return Response(answer.content, answer.status, headers)
