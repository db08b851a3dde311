"""Paths, found by their segments."""

from __future__ import annotations

from typing import cast

import pytest
from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.responses import Response

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.requests import HttpRequest
from milepost_server.http.routing import Routes, allowed


async def refuses(_: HttpRequest) -> None:
    raise problem(Code.INVALID_REQUEST, "refused by a check")


async def shown(_: HttpRequest, store: str, name: str) -> Response:
    return Response(f"{store} {name}")


async def listed(_: HttpRequest, store: str) -> Response:
    return Response(store)


def routes() -> Routes:
    router = APIRouter(prefix="/v1/stores/{store}")
    router.get("/handles/{name}")(shown)
    router.put("/handles/{name}", dependencies=[Depends(refuses)])(shown)
    router.delete("/handles")(listed)
    router.post("/handles/{name}/lock")(shown)
    return Routes(route for route in router.routes if isinstance(route, APIRoute))


@pytest.mark.parametrize(
    ("path", "methods", "parameters"),
    [
        ("/v1/stores/s/handles/n", "GET, PUT", ["s", "n"]),
        ("/v1/stores/handles/handles/lock", "GET, PUT", ["handles", "lock"]),
        ("/v1/stores/s/handles", "DELETE", ["s"]),
        ("/v1/stores/s/handles/n/lock", "POST", ["s", "n"]),
        ("/v1/stores/s", "", ["s"]),
        ("/v1/stores/s/handles/n/", "", []),
        ("/v1/stores/s/handles/n/lock/more", "", []),
        ("/v1/stores//handles/n", "", []),
        ("/v1/stores/s/handles/", "", []),
        ("/v1/stores/s/other", "", []),
        ("v1/stores/s/handles/n", "", []),
        ("/", "", []),
        ("", "", []),
    ],
)
def test_what_a_path_takes(path: str, methods: str, parameters: list[str]) -> None:
    endpoints, found = routes().find(path.split("/"))
    assert (allowed(endpoints), found) == (methods, parameters)


@pytest.mark.anyio
async def test_an_endpoint_is_called_with_the_parameters_in_their_order_after_its_checks() -> None:
    endpoints, parameters = routes().find(["", "v1", "stores", "s", "handles", "n"])
    nobody_looks_at_it = cast(HttpRequest, None)
    assert (await endpoints["GET"].answer(nobody_looks_at_it, parameters)).body == b"s n"
    with pytest.raises(Problem, match="refused by a check"):
        await endpoints["PUT"].answer(nobody_looks_at_it, parameters)
