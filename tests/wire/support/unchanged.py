"""What a refused request must leave as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from testbed.server import ServerProcess
from tests.wire.support.api import Api
from tests.wire.support.damage import blob_files


@contextmanager
def nothing_changed(api: Api, server: ServerProcess) -> Iterator[None]:
    """The store, the session and the store's blobs are the same after the block, once the server has tidied up.

    Blobs of other stores may go meanwhile: those that were replaced linger for a minute.
    """

    def files() -> set[str]:
        return {path for path in blob_files(server) if f"/{api.store}/" in path or path.startswith(".")}

    before, blobs = api.everything(), files()
    yield
    assert api.everything() == before
    server.wait_until(lambda: files() == blobs, "something lies among the blobs")
