"""Make the HTTP application of a replica from all of its routes."""

from __future__ import annotations

from fastapi.routing import APIRoute

from milepost_server.http.application import Application
from milepost_server.http.context import Context
from milepost_server.http.openapi import pages
from milepost_server.http.openapi.description import Description
from milepost_server.http.page import routes as page
from milepost_server.http.routes import (
    credentials,
    epochs,
    files,
    handles,
    health,
    instances,
    leading,
    lookups,
    sessions,
    snapshots,
    states,
    stores,
    uploads,
)
from milepost_server.http.routing import Routes
from milepost_server.http.webhdfs import routes as webhdfs
from milepost_server.http.webhdfs.datanode import routes as data_nodes

_OF_STORES = (handles, states, uploads, stores, snapshots, files, lookups, instances, sessions, epochs, credentials)
_API = (*_OF_STORES, health, leading)
_PARTS = (*_API, pages, page, webhdfs, data_nodes)


def create_app(context: Context) -> Application:
    """Make the ASGI application of one replica. It neither opens nor closes the replica's backends."""
    description = Description(context.version, routes())
    described = APIRoute("/openapi.json", description.answer, methods=["GET"], include_in_schema=False)
    return Application(context, Routes([*routes(), described]))


def routes() -> list[APIRoute]:
    """Return all routes but the one of their description, in the order in which they are described."""
    return [route for part in _PARTS for route in part.router.routes if isinstance(route, APIRoute)]
