"""Reads a WebHDFS request: which file, which job and which epoch it is about, and its query parameters.

An invalid value is refused, as an HDFS NameNode refuses it, and not ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.datastructures import QueryParams

from milepost.errors import Problem
from milepost.operations.operation import Right
from milepost.wire import NAME, Code, job_epoch_header, job_epoch_of
from milepost_server.basics.problems import noted, problem
from milepost_server.basics.remembering import remembering
from milepost_server.http.access.permission import epoch_under, may_use
from milepost_server.http.queries import named_path
from milepost_server.http.requests import Fields, HttpRequest
from milepost_server.model.requests.trees import OntoExisting
from milepost_server.operations.trees import At

_ONTO: Final = {"NONE": OntoExisting.REFUSE, "TO_TRASH": OntoExisting.REFUSE, "OVERWRITE": OntoExisting.REPLACE}
_HINTS: Final = frozenset(
    {
        "SYNC_BLOCK",
        "LAZY_PERSIST",
        "NEW_BLOCK",
        "NO_LOCAL_WRITE",
        "SHOULD_REPLICATE",
        "IGNORE_CLIENT_LOCALITY",
        "NO_LOCAL_RACK",
    }
)
"""The flags of CREATE about the placement of HDFS blocks. They are accepted and ignored, since files here have no
blocks.
"""

JOBS = "jobs"

_MOST_DIGITS = 18

_job_epoch_of: Final = remembering(1024, longest=256)(job_epoch_of)


def text(query: QueryParams, name: str) -> str | None:
    """Return the value of a query parameter; None if it is absent. A parameter that appears twice is refused."""
    values = query.getlist(name)
    if len(values) > 1:
        raise problem(Code.INVALID_REQUEST, f"the parameter {name} appears {len(values)} times")
    return values[0] if values else None


def flag(query: QueryParams, name: str, *, absent: bool = False) -> bool:
    """Return the value of a query parameter that is ``true`` or ``false``, in upper or lower case; ``absent`` if the
    parameter is missing.
    """
    value = text(query, name)
    if value is None:
        return absent
    if value.lower() not in ("true", "false"):
        raise problem(Code.INVALID_REQUEST, f"{name} takes true or false, not {value[:20]!r}")
    return value.lower() == "true"


def number(query: QueryParams, name: str) -> int | None:
    """Return the value of a query parameter as a whole number; None if it is absent or ``null``, which Hadoop's client
    sends for no value.
    """
    value = text(query, name)
    if value in (None, "null"):
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise problem(Code.INVALID_REQUEST, f"{name} takes a whole number, not {value[:20]!r}")
    return int(value)


def replaces(query: QueryParams) -> bool:
    """Return whether CREATE may replace a file, by ``overwrite`` or by the set of flags in ``createflag``."""
    overwrite, flags = flag(query, "overwrite"), _set(query, "createflag")
    unknown = flags - _HINTS - {"CREATE", "OVERWRITE", "APPEND"}
    if unknown:
        raise problem(Code.INVALID_REQUEST, f"createflag does not know {min(unknown)[:20]!r}")
    if flags and ("APPEND" in flags or "CREATE" not in flags):
        detail = f"createflag={','.join(sorted(flags))}: a file is created, once, whole, and never changed"
        raise problem(Code.NOT_SUPPORTED, detail)
    return overwrite or "OVERWRITE" in flags


def onto_existing(query: QueryParams) -> OntoExisting:
    """Return what RENAME does if its target exists. Without ``renameoptions``, a RENAME follows Hadoop's older rename,
    which answers false instead of failing.
    """
    options = _set(query, "renameoptions")
    unknown = options - _ONTO.keys()
    if unknown:
        raise problem(Code.INVALID_REQUEST, f"renameoptions does not know {min(unknown)[:20]!r}")
    if not options:
        return OntoExisting.ANSWER_FALSE
    return OntoExisting.REPLACE if "OVERWRITE" in options else OntoExisting.REFUSE


def destination(query: QueryParams) -> str:
    """Return the target path of a RENAME."""
    path = text(query, "destination")
    if not path:
        raise problem(
            Code.INVALID_REQUEST, "RENAME takes the new path, from the root, as destination, which is missing"
        )
    if not path.startswith("/"):
        raise problem(Code.INVALID_REQUEST, f"the destination {path[:60]!r} is no path from the root")
    return path


def _set(query: QueryParams, name: str) -> set[str]:
    """Return the names in a comma-separated parameter, in upper case; empty if it is absent."""
    return {each.strip().upper() for each in (text(query, name) or "").split(",") if each.strip()}


class Above(msgspec.Struct, frozen=True, gc=False):
    """A directory that belongs to no tree: the root, or ``/jobs``, which has the trees of all jobs."""

    path: str


@remembering(4096, longest=1024)
def place_of(path: str) -> At | Above:
    """Return the place that a path of the WebHDFS file system names: a path in the tree of a job, or a directory above
    all trees. Raises ``invalid-name`` and ``not-exist`` problems.
    """
    first, _, rest = path.strip("/").partition("/")
    store, _, inner = rest.partition("/")
    if first == JOBS and NAME.match(store):
        named_path(inner)
        return At(store, inner)
    for part in (first, store, inner):
        named_path(part)
    if rest.startswith("/"):
        raise problem(Code.INVALID_NAME, f"{path[:80]!r} has an empty part")
    if first in ("", JOBS) and not store:
        return Above(first)
    if first != JOBS:
        raise problem(Code.NOT_EXIST, f"{path[:80]!r} does not exist: the trees of jobs are in /{JOBS}")
    raise problem(Code.INVALID_NAME, f"no job can have the name {store[:60]!r}")


def in_tree(place: At | Above) -> At:
    """Return ``place`` if it is in the tree of a job.

    Raises a ``forbidden`` problem for a directory above all trees, which no client may change.
    """
    if isinstance(place, Above):
        raise problem(Code.FORBIDDEN, f"/{place.path} is not part of a job's tree: nothing can be changed there")
    return place


def allowed(request: HttpRequest, right: Right, place: At | Above) -> None:
    """Raise ``forbidden`` unless the caller has ``right`` on the store of ``place``. A directory above all trees is not
    refused here: every client can read it, since it lists only trees that the client may read, and no client can write
    there (`in_tree`).
    """
    if isinstance(place, At):
        may_use(request, right, place.store)


def epoch_of(request: HttpRequest, at: At) -> int | None:
    """Return the epoch of a request: that of a job's token, if the request has one, else the epoch in a header; None
    without either.

    The *name* of that header contains the epoch (`job_epoch_header`): Hadoop's client can be configured to send a
    header with any name, but not with any value. It sends this header with all its requests. So a header for another
    job, or with another epoch than the token's, shows a wrong configuration, and is ``forbidden``.
    """
    return epoch_under(request, at.store, _epoch_said(request.fields, at))


def _epoch_said(fields: Fields, at: At) -> int | None:
    return epoch_in([named for name in fields.names() if (named := _job_epoch_of(name)) is not None], at)


def epoch_in(found: Sequence[tuple[str, str]], at: At) -> int | None:
    """Return the epoch that the names of fields carry for a request about ``at``; None if no field does. ``found`` has
    the jobs and the epochs in these names. Raises a ``forbidden`` problem for another job, or for two epochs.
    """
    if not found:
        return None
    if len(found) > 1 or found[0][0] != at.store.lower() or len(found[0][1]) > _MOST_DIGITS:
        said = ", ".join(f"{epoch[:40]} of {job!r}" for job, epoch in found)
        raise problem(Code.FORBIDDEN, f"the request is about {at.store!r}, but made under epoch {said}")
    return int(found[0][1])


def is_of_lost_header(error: Problem, request: HttpRequest, place: At) -> bool:
    """Return whether the request was refused because it names no epoch."""
    return error.code is Code.FENCED and request.job is None and _epoch_said(request.fields, place) is None


def of_lost_header(error: Problem, place: At) -> Problem:
    """Return the problem to answer for ``error``, with which a request was refused because it names no epoch: it also
    names the header that should carry the epoch.
    """
    header = job_epoch_header(place.store, error.extras.get("current", 0))
    return noted(error, f"the header {header}, or that of another epoch, did not come; a proxy may have dropped it")


def excluded_in(query: QueryParams) -> list[str]:
    """Return the data nodes, by host and port, that did not answer the client when it was redirected to them."""
    return query.get("excludedatanodes", "").split(",")
