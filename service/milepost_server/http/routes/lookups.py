"""The route of ``/v1/stores/{store}/state/{state}``: values of managed state, by their key."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.files import LOOK_UP_STATE
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.headers import accepts, checked_name
from milepost_server.http.openapi.documents import answers
from milepost_server.http.queries import from_token, limit_of, only_known, to_token
from milepost_server.http.replies import json_response
from milepost_server.http.requests import HttpRequest
from milepost_server.operations.lookups import Question

router = APIRouter(tags=["managed state"])

_EXAMPLE = {
    "state": "state",
    "version": 12,
    "values": [{"variable": "count", "value": {"count": 7}}],
    "next": "MTI6MTAwMA",
}
_MOST_KEY = 4096


@answers(router, LOOK_UP_STATE, {200: ("The values of the key, none if it has none.", _EXAMPLE)})
async def look_up(request: HttpRequest, store: str, state: str) -> Response:
    """Return the published values of a key in the managed state of a job (`milepost.spark.stateful`).

    The state must be stored in the job's tree. A list has an entry for each of its rows, and a map for each of its
    entries.
    """
    checked_name(store, "store")
    checked_name(state, "state")
    accepts(request, "application/json")
    only_known(request, LOOK_UP_STATE)
    query = request.query_params
    key = query.get("key")
    if key is None:
        raise problem(Code.INVALID_REQUEST, 'key is missing: a JSON array of the columns of the key, such as ["JFK"]')
    if len(key) > _MOST_KEY:
        raise problem(Code.INVALID_REQUEST, f"the key has {len(key)} characters, and {_MOST_KEY} is the most")
    version, after = _version(query.get("version")), 0
    if "token" in query:
        version, after = _place(query["token"])
    question = Question(state, key, query.get("variable"), version, after, limit_of(query.get("limit")))
    await request.operations.trees.ready(store)
    found = await request.operations.lookups.look_up(store, question)
    token = None if found.next is None else to_token(f"{found.version}:{found.next}")
    return json_response({"state": state, "version": found.version, "values": found.values, "next": token}, 200, {})


def _version(given: str | None) -> int | None:
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 19 and int(given) < 2**63):
        raise problem(Code.INVALID_REQUEST, "version takes a whole number from 0 to 2^63 - 1")
    return int(given)


def _place(token: str) -> tuple[int, int]:
    """Return the contents of a page's token: the version of the snapshot, and the number of values to skip. Raises
    ``invalid-request`` for a token that this service did not make.
    """
    parts = from_token(token).split(":")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) <= 19 for part in parts):
        raise problem(Code.INVALID_REQUEST, "the token of the page is not one that this service returned")
    return int(parts[0]), int(parts[1])
