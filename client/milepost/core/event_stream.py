"""A stream of events: parses server-sent events, and connects again by itself after the last place."""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from milepost.core.calls import members
from milepost.core.calls.calls import Caller
from milepost.core.calls.outages import OUTAGES
from milepost.core.calls.request import Request
from milepost.core.effects import Answer, Lost, Operation, Read, Sleep
from milepost.errors import InvalidRequest, NotSupported
from milepost.types import StoreEvent
from milepost.wire import HEARTBEAT_SECONDS, Code

T = TypeVar("T")

log = logging.getLogger("milepost.watches")

SILENT_SECONDS: Final = 3 * HEARTBEAT_SECONDS
"""After a silence of this many seconds, the connection counts as dead."""

MEDIA_TYPE: Final = "text/event-stream"
_END: Final = "end"
_LONGEST_PAUSE: Final = 2.0
_MOST_BLOCK_BYTES: Final = 1024 * 1024
_ID: Final = re.compile(r"(\d{1,18})(?:\.\d{1,9})?\Z", re.ASCII)


class BrokenStream(ValueError):
    """Raised for bytes that are no events of this service; a proxy may have damaged or cut them."""


@dataclass(frozen=True)
class Block:
    """What came between two empty lines. Without an event, ``type`` is "" and ``id`` is the place of the client."""

    id: str
    type: str
    data: str


class Blocks:
    """Parses a stream of server-sent events, piece by piece."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, piece: bytes) -> list[Block]:
        """Return the blocks that the next bytes complete. Raises `BrokenStream`."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _MOST_BLOCK_BYTES:
            raise BrokenStream("a line of the stream has no end")
        found: list[Block] = []
        for line in lines:
            try:
                name, _, value = line.rstrip(b"\r").decode().partition(":")
            except UnicodeDecodeError as error:
                raise BrokenStream("a line of the stream is no text") from error
            if name:
                self._fields[name] = value.removeprefix(" ")
            elif not line.strip():
                fields, self._fields = self._fields, {}
                if "id" in fields or "event" in fields:
                    found.append(Block(fields.get("id", ""), fields.get("event", ""), fields.get("data", "")))
        return found


class EventStream(Generic[T]):
    """The events of one store or job after ``place``, which moves with each event.

    ``call`` is the method and the path of the request for them, and ``name`` is how the log names them. ``read`` makes
    an event of the id, the type and the data of a block; it raises ValueError, TypeError or LookupError for data that
    the service would not send. ``deadline`` is the monotonic time at which `next` ends, infinity for never. Redirects,
    outages, dead connections and the end of a leadership do not end the stream: it connects again, and the service
    resumes it at the place.
    """

    def __init__(
        self,
        caller: Caller,
        call: tuple[str, str],
        name: str,
        read: Callable[[str, str, dict[str, Any]], T],
        place: str | None,
        deadline: float,
    ) -> None:
        self.place = place
        self._caller = caller
        self._call = call
        self._name = name
        self._read = read
        self._deadline = deadline
        self._stream: object = None
        self._blocks = Blocks()
        self._waiting: deque[Block] = deque()
        self._fruitless = 0
        self._begun = False
        self._is_first = True

    @property
    def lasts(self) -> bool:
        """Whether the service has sent more over the present connection than the place at its begin."""
        return self._begun and not self._fruitless

    def next(self) -> Operation[T | None]:
        """Return the next event; None once the deadline has passed.

        Raises `Compacted` if the service does not know all events after the place any more, and the other refusals of
        the service. An outage is no error here.
        """
        clock = self._caller.clock
        while True:
            while self._waiting:
                block = self._waiting.popleft()
                if block.type == _END:
                    log.info("the stream of events of %s ended, resuming: %s", self._name, block.data)
                    self._stream = None
                    self._waiting.clear()
                    break
                event = self._taken(block)
                if event is not None:
                    return event
            left = self._deadline - clock()
            if left <= 0:
                return None
            if self._stream is None:
                yield from self._connect(left)
                continue
            piece = yield Read(self._stream, min(left, SILENT_SECONDS))
            try:
                if not isinstance(piece, bytes) or not piece:
                    raise BrokenStream(piece.reason if isinstance(piece, Lost) else "the connection ended")
                self._waiting.extend(self._blocks.feed(piece))
            except BrokenStream as error:
                self._lose(str(error), clock())

    def _taken(self, block: Block) -> T | None:
        """Move the place to that of a block, and return its event; None for a place alone."""
        try:
            event = self._event_of(block)
        except (TypeError, ValueError, LookupError) as error:
            self._lose(f"it sent what is no event: {error}", self._caller.clock())
            return None
        # a stream begins with a place, which does not show yet that it lasts
        if event is not None or not self._is_first:
            self._fruitless = 0
        self._is_first = False
        self.place = block.id
        return event

    def _event_of(self, block: Block) -> T | None:
        """Return the event of a block; None if it has only a place. Raises ValueError, TypeError or LookupError for a
        block that the service would not send.
        """
        id_ = _ID.match(block.id)
        if id_ is None:
            raise ValueError("an id that is no place")
        if not block.type:
            return None
        data = json.loads(block.data)
        if not isinstance(data, dict) or members.whole(data, "revision") != int(id_[1]):
            raise ValueError("data that is not of the revision in the id")
        return self._read(block.id, block.type, data)

    def _lose(self, reason: str, now: float) -> None:
        if now < self._deadline:
            log.info("the stream of events of %s broke off, resuming: %s", self._name, reason)
        self._stream = None
        self._waiting.clear()

    def _connect(self, left: float) -> Operation[None]:
        if self._fruitless:
            yield Sleep(min(left, self._caller.pause(self._fruitless, _LONGEST_PAUSE)))
        self._fruitless += 1
        headers = {"Accept": MEDIA_TYPE} | ({} if self.place is None else {"Last-Event-ID": self.place})
        request = Request(*self._call, _is_stream, headers, wait=SILENT_SECONDS)
        try:
            reply = yield from self._caller.call(request, timeout=min(left, 2 * SILENT_SECONDS), stream=True)
        except OUTAGES:
            return  # the calls have logged the outage
        except (NotSupported, InvalidRequest) as refused:
            if refused.code not in (Code.NOT_SUPPORTED, Code.NO_ROUTE):
                raise
            if not self._begun:
                detail = f"this service is of a release without a stream of the events of {self._name}"
                raise NotSupported(Code.NOT_SUPPORTED, detail) from refused
            return  # in an upgrade, a replica of an older release may lead for a while
        self._begun = self._is_first = True
        self._blocks = Blocks()
        self._stream = reply.answer.stream


def store_event(id_: str, type_: str, data: dict[str, Any]) -> StoreEvent:
    """Return the event of a store that has this id, type and data."""
    return StoreEvent(
        type=type_,
        revision=members.whole(data, "revision"),
        id=id_,
        name=members.text_or_none(data, "name"),
        version=members.text_or_none(data, "version"),
        epoch=None if data.get("epoch") is None else members.whole(data, "epoch"),
        data=data,
    )


def _is_stream(answer: Answer) -> Any:
    if answer.status != 200 or not answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
        raise ValueError("no stream of events")
    return answer
