"""Read what a WebHDFS request is about: which file, and under which epoch of which job."""

from __future__ import annotations

from dataclasses import dataclass

from milepost.errors import Problem
from milepost.operations.operation import Right
from milepost.wire import NAME, Code, job_epoch_header, job_epoch_of
from milepost_server.basics.problems import noted, problem
from milepost_server.http.access.job_access import epoch_under, may_use
from milepost_server.http.paths import named_path
from milepost_server.http.requests import Fields, HttpRequest
from milepost_server.operations.trees import At

JOBS = "jobs"

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Above:
    """A directory above all trees: the root, or the one of all jobs."""

    path: str


def place_of(path: str) -> At | Above:
    """Return what a path of the file system names. Raises ``invalid-name`` and ``not-exist`` problems."""
    first, _, rest = path.strip("/").partition("/")
    store, _, inner = rest.partition("/")
    for part in (first, store, inner):
        named_path(part)
    if rest.startswith("/"):
        raise problem(Code.INVALID_NAME, f"{path[:80]!r} has an empty part")
    if first in ("", JOBS) and not store:
        return Above(first)
    if first != JOBS:
        raise problem(Code.NOT_EXIST, f"{path[:80]!r} does not exist: the trees of jobs are in /{JOBS}")
    if not NAME.match(store):
        raise problem(Code.INVALID_NAME, f"no job can have the name {store[:60]!r}")
    return At(store, inner)


def in_tree(place: At | Above) -> At:
    """Return a place in a tree. Raises a ``forbidden`` problem for what lies above all trees: nobody changes that."""
    if isinstance(place, Above):
        raise problem(Code.FORBIDDEN, f"/{place.path} is not part of a job's tree: nothing can be changed there")
    return place


def allowed(request: HttpRequest, right: Right, place: At | Above) -> None:
    """Raise ``forbidden`` as `may_use` does. What lies above all trees has nothing in it but the names of those that
    somebody may read, and nobody writes there.
    """
    if isinstance(place, At):
        may_use(request, right, place.store)


def epoch_of(request: HttpRequest, at: At) -> int | None:
    """Return the epoch that a request is made under: its token's, if that is a job's, else the one that a header says.

    That header is one whose *name* says it (`job_epoch_header`): Hadoop's client can be told to send a header of any
    name, but not its value. It sends one header for all it does, so a request for one job that carries another
    job's header, or another epoch than its token, comes from a configuration that was mixed up: ``forbidden``.
    """
    return epoch_under(request, at.store, _epoch_said(request.fields, at))


def _epoch_said(fields: Fields, at: At) -> int | None:
    found = [named for name, _ in fields.items() if (named := job_epoch_of(name)) is not None]
    if not found:
        return None
    if len(found) > 1 or found[0][0] != at.store.lower() or len(found[0][1]) > _MOST_DIGITS:
        said = ", ".join(f"{epoch[:40]} of {job!r}" for job, epoch in found)
        raise problem(Code.FORBIDDEN, f"the request is about {at.store!r}, but made under epoch {said}")
    return int(found[0][1])


def of_lost_header(error: Problem, request: HttpRequest, place: At) -> Problem:
    """Return the problem of a request; if it is refused because it names no epoch, the problem names the header."""
    if error.code is not Code.FENCED or request.job is not None or _epoch_said(request.fields, place) is not None:
        return error
    header = job_epoch_header(place.store, error.extras.get("current", 0))
    return noted(error, f"the header {header}, or that of another epoch, did not come; a proxy may have dropped it")
