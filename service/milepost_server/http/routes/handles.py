"""The routes of ``/v1/stores/{store}/handles`` that move no state bytes: records, locks, removal, listing."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import (
    CLEAR_ENTRIES,
    EXISTS,
    GET_ALL_AND_LOCK,
    GET_ALL_HANDLES,
    GET_AND_LOCK,
    GET_HANDLE,
    RELEASE,
    RELEASE_ALL,
    RELEASE_AND_TRY_REMOVE,
)
from milepost_server.http.headers import accepts, caller, checked_name, if_match
from milepost_server.http.openapi.documents import (
    CORRUPT_EXAMPLE,
    HANDLE_EXAMPLE,
    answers,
)
from milepost_server.http.queries import page_of, to_token
from milepost_server.http.replies import about, empty_reply, json_reply, json_response, reply_headers
from milepost_server.http.requests import HttpRequest
from milepost_server.model.requests.handles import Clear, LockHandle, ReleaseAll, ReleaseHandle

router = APIRouter(tags=["handles"])


@answers(router, EXISTS, {200: ("It exists.", None)})
async def exists(request: HttpRequest, store: str, name: str) -> Response:
    """Return whether the handle exists, and its version."""
    reply = request.operations.handles.get(checked_name(store, "store"), checked_name(name))
    return Response(headers=reply_headers(reply))


@answers(router, GET_HANDLE, {200: ("The record.", HANDLE_EXAMPLE)})
async def get(request: HttpRequest, store: str, name: str) -> Response:
    """Return the record of a handle, without taking a lock."""
    accepts(request, "application/json")
    return json_reply(request.operations.handles.get(checked_name(store, "store"), checked_name(name)))


@answers(router, GET_AND_LOCK, {200: ("The record, locked for the session.", HANDLE_EXAMPLE)})
async def lock(request: HttpRequest, store: str, name: str) -> Response:
    """Lock a handle. As long as the session lives, no other session can remove the handle."""
    names = checked_name(store, "store"), checked_name(name)
    return json_reply(await request.operations.perform(LockHandle(caller(request).attempt, *names)))


@answers(router, RELEASE, {204: ("No lock of the session is left.", None)})
async def release(request: HttpRequest, store: str, name: str) -> Response:
    """Release the lock of the session on a handle. It is no error if there is none."""
    names = checked_name(store, "store"), checked_name(name)
    return empty_reply(await request.operations.perform(ReleaseHandle(caller(request).attempt, *names)))


@answers(
    router,
    RELEASE_AND_TRY_REMOVE,
    {200: ("Removed, or held by others.", {"removed": False, "locks": ["flights-driver-2"]})},
)
async def remove(request: HttpRequest, store: str, name: str) -> Response:
    """Release the session's lock, and remove the handle unless others hold it. An absent handle counts as removed."""
    names = checked_name(store, "store"), checked_name(name)
    return json_reply(await request.operations.handles.remove(caller(request), *names, if_match(request)))


@answers(
    router,
    GET_ALL_HANDLES,
    {200: ("A page, by name.", {"handles": [HANDLE_EXAMPLE], "next": "bGF0ZXN0", "corrupt": [CORRUPT_EXAMPLE]})},
)
async def list_handles(request: HttpRequest, store: str) -> Response:
    """Return a page of handles, sorted by name. It may include handles whose removal has begun."""
    checked_name(store, "store")
    accepts(request, "application/json")
    page = await request.operations.handles.list_page(store, *page_of(request, GET_ALL_HANDLES))
    body = {"handles": page.handles, "next": to_token(page.next), "corrupt": page.corrupt}
    return json_response(body, 200, about(page.revision, page.term))


@answers(router, CLEAR_ENTRIES, {200: ("How many pointers are gone.", {"cleared": 4})})
async def clear(request: HttpRequest, store: str) -> Response:
    """Remove all handles of a store, even those that others hold. Their blobs are deleted later."""
    checked_name(store, "store")
    return json_reply(await request.operations.perform(Clear(caller(request).attempt, store, caller(request).epoch)))


@answers(
    router,
    GET_ALL_AND_LOCK,
    {200: ("All of them, locked, by name.", {"handles": [HANDLE_EXAMPLE], "corrupt": [CORRUPT_EXAMPLE]})},
)
async def lock_all(request: HttpRequest, store: str) -> Response:
    """Lock all handles of a store and return them. Damaged records are reported separately."""
    checked_name(store, "store")
    return json_reply(await request.operations.stores.lock_all(caller(request), store))


@answers(router, RELEASE_ALL, {204: ("No lock of the session is left in this store.", None)})
async def release_all(request: HttpRequest, store: str) -> Response:
    """Release all locks of the session in this store."""
    checked_name(store, "store")
    return empty_reply(await request.operations.perform(ReleaseAll(caller(request).attempt, store)))
