"""The asynchronous client: the calls of `milepost.Client` as coroutines."""

from milepost.aio.client import AsyncClient
from milepost.aio.files import AsyncJobFiles
from milepost.aio.session import AsyncSession
from milepost.aio.store import AsyncStateHandleStore

__all__ = ["AsyncClient", "AsyncJobFiles", "AsyncSession", "AsyncStateHandleStore"]
