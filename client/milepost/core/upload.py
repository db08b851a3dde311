"""A state that is put straight into the blob store, before the service is told of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from milepost.core import answers
from milepost.core.body import Body, SourceFailed
from milepost.core.calls import LONGEST_PAUSE, Caller, Reply
from milepost.core.direct import signed, trouble_with
from milepost.core.effects import Answer, Lost, Operation, Sleep
from milepost.core.outages import OUTAGES_OR_DOUBT
from milepost.core.request import json_body
from milepost.errors import InvalidRequest, NotSupported, UploadUnknown
from milepost.wire import Code

log = logging.getLogger("milepost")

URLS = 3
TRIES_PER_URL = 3

Announce = Callable[[Body, float], Operation[Reply]]
"""Asks the service for an upload with this request body, within so many seconds."""

_NO_SUCH_CALL = frozenset({Code.NO_ROUTE, Code.METHOD_NOT_ALLOWED})
_BUSY = frozenset({408, 409, 429, 500, 502, 503, 504})  # 409: another conditional write of the same key is on its way


@dataclass(frozen=True)
class Upload:
    """Where the bytes may be put, for ``expires_in`` seconds. The URL is a secret."""

    id: str
    url: str = field(repr=False)
    headers: Mapping[str, str]
    expires_in: float


def upload_of(document: Mapping[str, Any]) -> Upload:
    """An upload as the service tells it."""
    if document["method"] != "PUT":
        raise ValueError("an upload that is no PUT")
    headers = {str(name): str(value) for name, value in document["headers"].items()}
    return Upload(str(document["upload"]), str(document["url"]), headers, float(document["expires_in"]))


def put(caller: Caller, announce: Announce, body: Body, deadline: float) -> Operation[str | None]:
    """Have the bytes of ``body`` put; the id of their upload, or None where they have to go through the service.

    Nothing is applied by that, whatever becomes of it: the key is fresh, and names nothing until a handle takes it.
    Raises what the service refuses the upload with, and the source's own error.
    """
    refused = 0
    for _ in range(URLS):
        upload = yield from _announced(caller, announce, body, deadline)
        if upload is None:
            return None
        until = caller.clock() + upload.expires_in
        for tries in range(TRIES_PER_URL):
            now = caller.clock()
            if now >= deadline:
                return None  # which the call itself finds, too
            if now >= until:
                break
            result = yield signed("PUT", upload.url, upload.headers, body, deadline - now)
            if isinstance(result, SourceFailed):
                raise result.error
            if _is_there(result):
                return upload.id
            if isinstance(result, Lost) and (result.timed_out or not result.sent):
                caller.direct.avoid(f"the blob store cannot be reached from here: {result.reason}")
                return None
            if isinstance(result, Answer) and result.status == 403 and refused == 0:
                refused += 1  # it expired on the way, or the service's own credentials were just exchanged
                break
            if isinstance(result, Answer) and result.status == 400:
                return None  # as if the source had changed since it was read for its digest: the service will tell
            if isinstance(result, Answer) and result.status not in _BUSY:
                caller.direct.avoid(f"the blob store refuses what the service signed, with status {result.status}")
                return None
            yield Sleep(min(caller.pause(tries, LONGEST_PAUSE), max(0.0, deadline - caller.clock())))
    log.info("the blob store did not take the bytes of a state; they go through the service")
    return None


def _is_there(result: Answer | Lost) -> bool:
    """412: an earlier try of ours, whose answer was lost, put them. The service looks at what is there in any case."""
    return isinstance(result, Answer) and (200 <= result.status < 300 or result.status == 412)


def _announced(caller: Caller, announce: Announce, body: Body, deadline: float) -> Operation[Upload | None]:
    request = json_body({"size": body.size, "sha256": body.sha256})
    try:
        # Half of the time, so that some is left to go through the service.
        reply = yield from announce(request, (deadline - caller.clock()) / 2)
        upload = answers.read(reply.answer, upload_of, changed=True)
    except NotSupported:
        caller.direct.avoid("it does not sign uploads", logging.DEBUG)
        return None
    except InvalidRequest as error:
        if error.code not in _NO_SUCH_CALL:
            raise
        caller.direct.avoid("it knows no uploads", logging.DEBUG)
        return None
    except (UploadUnknown, *OUTAGES_OR_DOUBT):
        return None  # an upload that was made and not told of expires by itself
    trouble = trouble_with(upload.url, caller.replicas.secure)
    if trouble is not None:
        caller.direct.avoid(trouble)
        return None
    caller.direct.signs = True
    return upload
