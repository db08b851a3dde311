"""A data node: it receives the bytes of a file and asks the leader to publish the file, and it sends the bytes of
files.

A data node decides nothing: once the last byte has come, the leader checks the epoch and publishes the file. So a
change of leader does not interrupt a body. A data node may repeat its request to publish, since the key in the upload
token is the idempotency key of that request.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import NamedTuple

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_backends.contract import PATIENCE_SECONDS, BackendError
from milepost_server.basics.problems import problem
from milepost_server.basics.waiting import ended_within, seen, within
from milepost_server.blobs.deletion_queue import delete_with_list
from milepost_server.blobs.delivery import DeliveryCut, deliver
from milepost_server.blobs.intake import Incoming, begin, take_in
from milepost_server.blobs.keys import file_key
from milepost_server.blobs.range_delivery import RangeDelivery
from milepost_server.blobs.timeouts import BlobsWithTimeout
from milepost_server.http.webhdfs.datanode.exchanges import NoAnswer, NotReached
from milepost_server.http.webhdfs.datanode.peer import Peer, Publish, Published, published
from milepost_server.http.webhdfs.datanode.transfer_tokens import DownloadToken, UploadToken, check_not_late
from milepost_server.journal import Journal
from milepost_server.model.requests.base import BlobRef
from milepost_server.model.requests.trees import Begun
from milepost_server.operations.files import Publisher
from milepost_server.operations.trees import At
from milepost_server.replica.leader_locator import LeaderLocator
from milepost_server.replica.submitter import Reply

log = logging.getLogger("milepost.datanodes")

PUBLISH_SECONDS = 30.0
"""The seconds for which a data node tries to publish a file while there is no leader, or the leader does not answer."""

FILE_PATIENCE_SECONDS = 20.0
"""The seconds for which a write to the blob store is repeated after momentary failures, for a client of WebHDFS.
Hadoop's client never sends a body again, so a failure ends its query; it waits 60 s for the answer after the last byte.
"""

ANSWER_SECONDS = 50.0
"""The seconds after the last byte within which a data node answers, apart from a message to the leader that is on its
way. Hadoop's client waits longer than that.
"""

EXCHANGE_SECONDS = 3.0
"""The seconds that a data node waits for one answer of the leader.

After that it looks up the leader and asks again, since a frozen leader keeps its connections and never answers, and
another replica leads soon. The time is shorter than a lease.
"""

_PAUSE_SECONDS = 0.2
_DISCARD_SECONDS = 5.0
_MOST_ATTEMPTS = 1000
"""An upper bound for the attempts to publish one body. If the client sends the body again, attempt numbers begin above
it, so that the leader can tell later attempts from earlier ones.
"""

_ASK_AGAIN = frozenset(
    {
        Code.NO_LEADER,
        Code.SHUTTING_DOWN,
        Code.STORAGE_UNAVAILABLE,
        Code.TOO_MANY_REQUESTS,
        Code.OUTCOME_UNKNOWN,
        Code.INTERNAL,
    }
)


class Taken(NamedTuple):
    """The reference to the bytes that a data node has received, and the leader's answer to publishing the file."""

    blob: BlobRef
    published: Published


class DataNode:
    """The data node of this replica: receives and sends the bytes of files.

    ``max_state_bytes`` is the most bytes that a file may have, None for no limit. A file of fewer than ``inline_below``
    bytes gets no blob of its own. ``clock`` returns monotonic seconds, ``wall`` seconds since 1970.
    """

    def __init__(
        self,
        journal: Journal,
        blobs: BlobsWithTimeout,
        publisher: Publisher,
        leader_locator: LeaderLocator,
        peer: Peer,
        clock: Callable[[], float],
        wall: Callable[[], float],
        *,
        max_state_bytes: int | None,
        inline_below: int,
    ) -> None:
        self._journal = journal
        self._blobs = blobs
        self._delivery = RangeDelivery(blobs)
        self._publisher = publisher
        self._leader_locator = leader_locator
        self._peer = peer
        self._clock = clock
        self._wall = wall
        self._max_state_bytes = max_state_bytes
        self._inline_below = inline_below
        self._publishing: set[asyncio.Task[Reply | int]] = set()

    async def give(self, token: DownloadToken, start: int, length: int | None) -> tuple[int, AsyncIterator[bytes]]:
        """Return the number of bytes of a token's file from ``start`` on, at most ``length``, and a stream of these
        bytes. `RangeDelivery.deliver` documents which bytes are verified.

        Raises a ``range-not-satisfiable`` problem if ``start`` is outside of the file, and the problems of
        `RangeDelivery.deliver`.
        """
        if not 0 <= start <= token.size:
            raise problem(Code.RANGE_NOT_SATISFIABLE, f"{token.path!r} has {token.size} bytes, and none at {start}")
        end = token.size if length is None else min(token.size, start + length)
        ref = BlobRef(token.blob, token.size, token.sha256)
        return end - start, await self._delivery.deliver(ref, start, None if length is None else end)

    async def take(
        self, token: UploadToken, text: str, incoming: Incoming, tries: int = 0, patience: float = PATIENCE_SECONDS
    ) -> Taken:
        """Receive the bytes of a file, and return once the file is published. ``text`` is the token in the form in
        which the client sent it.

        ``tries`` is how often the client has sent the bytes before under the same key; 0 for a put that was redirected
        here. ``patience`` is the number of seconds for which the blob store repeats failed requests.

        Raises the problems of `take_in`, ``forbidden`` if the bytes come too late, the problem with which the leader
        refuses the file, and ``no-leader`` or ``outcome-unknown`` if the leader does not answer in time. If the leader
        refuses the file, its blob is deleted, unless an earlier attempt may have published it. Only the data node can
        delete the blob, since only it knows that no attempt follows. Other unpublished blobs are left to the garbage
        collector.
        """
        came = self._clock()

        async def in_time() -> AsyncIterator[bytes]:
            """Yield the chunks of the body until the token is too old to publish the file; then raise ``forbidden``."""
            nonlocal came
            async for chunk in body:
                check_not_late(token, self._wall())
                yield chunk
            came = self._clock()

        body, incoming = incoming.chunks, replace(incoming, chunks=in_time())
        begun = await begin(incoming, self._inline_below, self._max_state_bytes)
        if begun.data is not None:
            blob = BlobRef("", len(begun.data), begun.sha256)
        else:
            blob = await self._put(token, token.term, begun.rest, patience)
        return await self._until_published(token, text, blob, begun.data, tries, came, patience)

    def keeps_with_record(self, size: int) -> bool:
        """Return whether a file of this size in bytes may be taken and gets no blob of its own."""
        return size < self._inline_below and (self._max_state_bytes is None or size <= self._max_state_bytes)

    async def take_whole(self, token: UploadToken, text: str, data: bytes) -> Taken:
        """Publish a file of which all bytes have come at once, and which `keeps_with_record`; see `take`."""
        blob = BlobRef("", len(data), hashlib.sha256(data).hexdigest())
        return await self._until_published(token, text, blob, data, 0, self._clock(), FILE_PATIENCE_SECONDS)

    async def put_small(
        self, at: At, epoch: int | None, data: bytes, *, overwrite: bool, key: str, begun: Begun
    ) -> None:
        """Publish a file of which all bytes have come with the first attempt to put it, and which `keeps_with_record`.
        ``key`` is the client's idempotency key; ``begun`` says whether directories are made.

        This is for the leader alone: no token is made, so the file is not published at the next leader if this replica
        loses its leadership meanwhile. Raises the problems of `Publisher.publish`.
        """
        blob = BlobRef("", len(data), hashlib.sha256(data).hexdigest())
        await self._publisher.publish(at, epoch, blob, data, overwrite=overwrite, key=key, attempt=1, begun=begun)

    async def _until_published(
        self,
        token: UploadToken,
        text: str,
        blob: BlobRef,
        data: bytes | None,
        tries: int,
        came: float,
        patience: float,
    ) -> Taken:
        """Ask to publish a file whose last byte came at ``came``, in monotonic seconds, until there is an answer; see
        `take`.
        """
        end = min(self._clock() + PUBLISH_SECONDS, came + ANSWER_SECONDS)
        attempt, doubt = tries * _MOST_ATTEMPTS, False
        while True:
            attempt += 1
            try:
                ended = await self._published(token, text, blob, data, attempt, end)
            except NotReached as error:
                why = str(error)
            except NoAnswer as error:
                why, doubt = str(error), True
            except Problem as error:
                late = error.code is Code.OUTCOME_UNKNOWN and not error.retryable
                if late or error.code not in _ASK_AGAIN:
                    if not doubt and error.outcome is Outcome.NOT_APPLIED:
                        await self._discard(blob)
                    raise
                why, doubt = error.detail, doubt or error.outcome is Outcome.UNKNOWN
            else:
                if ended.term is None:
                    return Taken(blob, ended)
                blob = await self._again(token, ended.term, blob, patience)
                continue
            if self._clock() + _PAUSE_SECONDS >= end:
                said = f"/jobs/{token.store}/{token.path} was taken, but could not be published: {why}"
                raise problem(Code.OUTCOME_UNKNOWN if doubt else Code.NO_LEADER, said)
            log.info("%r of %s is not published yet, trying again: %s", token.path, token.store, why)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _published(
        self, token: UploadToken, text: str, blob: BlobRef, data: bytes | None, attempt: int, end: float
    ) -> Published:
        """Make one attempt to publish the file, on this replica if it leads, else at the leader. ``end`` is the
        monotonic time after which no attempt begins.
        """
        at, seconds = At(token.store, token.path), max(0.1, min(EXCHANGE_SECONDS, end - self._clock()))
        if self._journal.lease_holds():
            return published(await self._published_here(token, blob, data, attempt, seconds))
        leader = await self._leader_locator.elsewhere()
        if leader is None:
            raise NotReached("there is no leader at the moment")
        message = Publish(text, at.store, at.path, blob.size, blob.sha256, blob.key, data, attempt)
        return await self._peer.publish(leader.rstrip("/"), message, seconds)

    async def _published_here(
        self, token: UploadToken, blob: BlobRef, data: bytes | None, attempt: int, seconds: float
    ) -> Reply | int:
        """Publish the file on this replica, which leads, and return the result of `Publisher.publish`.

        If it takes longer than ``seconds``, raises `NoAnswer`, since this replica may have lost its leadership. The
        publication then continues, and the next attempt joins it.
        """
        check_not_late(token, self._wall())
        publishing = asyncio.create_task(
            self._publisher.publish(
                At(token.store, token.path),
                token.epoch,
                blob,
                data,
                overwrite=token.overwrite,
                key=token.key,
                attempt=attempt,
                begun=token.begun,
            )
        )
        self._publishing.add(publishing)
        publishing.add_done_callback(self._publishing.discard)
        publishing.add_done_callback(seen)
        if not await ended_within(seconds, publishing):
            raise NoAnswer(f"this replica has not published it within {seconds:g} s")
        return publishing.result()

    async def _put(self, token: UploadToken, term: int, incoming: Incoming, patience: float) -> BlobRef:
        key = file_key(token.deployment, token.store, term)
        return await take_in(self._blobs, key, incoming, self._max_state_bytes, patience)

    async def _discard(self, blob: BlobRef) -> None:
        if not blob.key:
            return
        try:
            await within(_DISCARD_SECONDS, delete_with_list(self._blobs, blob.key))
        except (BackendError, TimeoutError) as error:
            log.info("the refused bytes %s are left to the collector: %s", blob.key, error)

    async def _again(self, token: UploadToken, term: int, old: BlobRef, patience: float) -> BlobRef:
        """Copy the bytes from the ``old`` blob to another blob under a newer term, because the garbage collector of the
        newer leader may be about to delete the old one.

        The old blob is not deleted here: an earlier attempt may have published it, which the next attempt finds out.
        """
        if not old.key:
            return old
        log.info("%r of %s was taken under an older leader: its bytes are copied", token.path, token.store)
        try:
            chunks = await deliver(self._blobs, old)
            return await self._put(token, term, Incoming(chunks, old.size, old.sha256), patience)
        except DeliveryCut as error:
            raise problem(Code.STORAGE_UNAVAILABLE, f"the bytes cannot be read back: {error}") from error
