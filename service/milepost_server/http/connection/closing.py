"""Applications that close the connection after an answer, or inside of one."""

from __future__ import annotations

import logging
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from milepost_server.blobs.delivery import DeliveryCut

log = logging.getLogger("milepost.http")


def closing_unread(cycle: RequestResponseCycle, app: Any) -> Any:
    """Close the connection after an answer that was sent before the client was told to send its body.

    Only the client knows whether it will still send that body, and what it sends next could be taken for it.
    """

    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        async def sends(message: Any) -> None:
            if cycle.waiting_for_100_continue:
                cycle.keep_alive = False
            await send(message)

        await app(scope, receive, sends)

    return closing


def closing_cut(cycle: RequestResponseCycle, app: Any) -> Any:
    """Close the connection inside an answer whose bytes turned out to be damaged, so that it cannot be taken for whole.

    uvicorn would do so as well, and log the stack as if the server were at fault.
    """

    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except DeliveryCut as error:
            log.error("cut the answer to %s %s: %s", scope["method"], scope["path"], error)
            cycle.disconnected = True
            cycle.transport.close()

    return closing
