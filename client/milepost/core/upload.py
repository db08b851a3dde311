"""Direct uploads: a client puts a state straight into the blob store before a handle points to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from milepost.core.body import Body, SourceFailed
from milepost.core.calls.calls import LONGEST_PAUSE, Caller, Reply
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.calls.request import json_body
from milepost.core.direct import AVOID_BRIEFLY_SECONDS, AVOID_SECONDS, log_signed, signed, trouble_with
from milepost.core.effects import Answer, Lost, Operation, Sleep
from milepost.errors import InvalidRequest, MilepostError, NotSupported, OutcomeUnknown, Unavailable, UploadUnknown
from milepost.wire import Code

log = logging.getLogger("milepost.transfers")

URLS = 3
TRIES_PER_URL = 3
# The shares of the remaining time that an announcement and a PUT may use. If they fail, the bytes must be sent through
# the service in the time that remains.
SHARE_TO_ANNOUNCE = 0.25
LONGEST_ANNOUNCEMENT = 5.0
SHARE_TO_PUT = 0.75

REFUSED_FOR_NOW = frozenset({Code.TOO_MANY_REQUESTS, Code.STORAGE_UNAVAILABLE})
"""The codes of refusals after which the client does not repeat an announcement, but sends the bytes through the
service.
"""

_NO_SUCH_CALL = frozenset({Code.NO_ROUTE, Code.METHOD_NOT_ALLOWED})
_BUSY = frozenset({408, 409, 429, 500, 502, 503, 504})  # 409: another conditional write of the same key is under way


class _End(Enum):
    """How an upload by one signed URL ended, after all its attempts."""

    THERE = auto()  # the bytes are in the blob store
    EXPIRED = auto()
    REFUSED = auto()  # the blob store answered 403, as it does when the URL has expired
    LEFT = auto()  # the bytes must go through the service instead


@dataclass(frozen=True)
class Upload:
    """An upload that the client has announced: for ``expires_in`` seconds, the blob store accepts the bytes of the
    state in a PUT request to ``url``, with ``headers``. The URL is a secret.
    """

    id: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    expires_in: float


Announce = Callable[[Body, float], Operation[Reply[Upload]]]
"""A function that asks the service for an upload. Its arguments are the request body and the seconds that the call may
take.
"""


def upload_of(document: Mapping[str, Any]) -> Upload:
    """Read an `Upload` from the service's JSON."""
    if document["method"] != "PUT":
        raise ValueError("an upload that is no PUT")
    headers = {str(name): str(value) for name, value in document["headers"].items()}
    return Upload(str(document["upload"]), str(document["url"]), headers, float(document["expires_in"]))


def put(caller: Caller, announce: Announce, body: Body, deadline: float) -> Operation[str | None]:
    """Put the bytes of ``body`` into the blob store, by a URL for which ``announce`` asks the service. Return the
    upload's id; None if the client must send the bytes through the service instead.

    An upload changes no handle, whatever its result: its blob has a new key, to which no handle points yet. Raises the
    error with which the service refuses the upload, and the error of the program's source of bytes.
    """
    refused = False
    for _ in range(URLS):
        upload = yield from _announced(caller, announce, body, deadline)
        if upload is None:
            return None
        end = yield from _put(caller, upload, body, deadline)
        if end is _End.THERE:
            return upload.id
        if end is _End.LEFT:
            return None
        if end is _End.REFUSED and refused:
            caller.direct.avoid("the blob store refuses URLs that the service signed, with status 403")
            return None
        # The URL expired on the way, or the service's own credentials were just replaced.
        refused = refused or end is _End.REFUSED
    return None


def _put(caller: Caller, upload: Upload, body: Body, deadline: float) -> Operation[_End]:
    """Send the bytes to the signed URL of ``upload`` until the blob store has them or another attempt is useless;
    return how this ended. Each attempt stores all bytes or none, so repeating it is safe.
    """
    until = caller.clock() + upload.expires_in
    for tries in range(TRIES_PER_URL):
        now = caller.clock()
        if now >= deadline:
            return _End.LEFT  # the upload through the service, which comes next, raises the error
        if now >= until:
            return _End.EXPIRED
        send = signed("PUT", upload.url, upload.headers, body, (deadline - now) * SHARE_TO_PUT)
        result = yield send
        log_signed(send, result, caller.clock() - now)
        if isinstance(result, SourceFailed):
            raise result.error
        if isinstance(result, Lost):
            if not caller.direct.worth_another_try(send, result, caller.clock() - now):
                return _End.LEFT
        elif result.status not in _BUSY:
            return _answered(caller, result)
        yield Sleep(min(caller.pause(tries, LONGEST_PAUSE), max(0.0, deadline - caller.clock())))
    log.info("direct upload: the blob store did not accept the bytes of a state; sending them through the service")
    return _End.LEFT


def _answered(caller: Caller, answer: Answer) -> _End:
    if 200 <= answer.status < 300 or answer.status == 412:
        # 412: an earlier attempt, whose answer was lost, has stored the bytes. The service verifies them in any case.
        return _End.THERE
    if answer.status == 403:
        return _End.REFUSED
    # After a 400, the source may have changed since its digest was computed; the service will report that.
    if answer.status != 400:
        caller.direct.avoid(f"the blob store refuses URLs that the service signed, with status {answer.status}")
    return _End.LEFT


def _announced(caller: Caller, announce: Announce, body: Body, deadline: float) -> Operation[Upload | None]:
    request = json_body({"size": body.size, "sha256": body.sha256})
    limit = min(LONGEST_ANNOUNCEMENT, (deadline - caller.clock()) * SHARE_TO_ANNOUNCE)
    try:
        upload = (yield from announce(request, limit)).value
    except NotSupported:
        # The refusal may hold only for this size: S3, for example, accepts at most 5 GiB in one request.
        caller.direct.avoid_announcing(body.size or 0, AVOID_SECONDS, "the service does not sign uploads of this size")
        return None
    except InvalidRequest as error:
        if error.code not in _NO_SUCH_CALL:
            raise
        caller.direct.avoid("the service has no uploads", logging.DEBUG)
        return None
    except (UploadUnknown, *OUTAGES_OR_DOUBT) as error:
        if _is_refused_for_now(error):
            caller.direct.avoid_announcing(0, AVOID_BRIEFLY_SECONDS, str(error))
        return None  # an upload whose answer was lost expires by itself
    trouble = trouble_with(upload.url, caller.replicas.secure)
    if trouble is not None:
        caller.direct.avoid(trouble)
        return None
    caller.direct.signs = True
    return upload


def _is_refused_for_now(error: MilepostError) -> bool:
    last = error.__cause__ if isinstance(error, OutcomeUnknown) else error
    return isinstance(last, Unavailable) and last.code in REFUSED_FOR_NOW
