"""Sends requests to the Kubernetes API: once each, in a thread, with a deadline, and with a true outcome.

Configuration, tokens and the pool of connections are the Kubernetes client's, but this module sends requests itself.
The client's own code sends a PUT again by itself when a connection breaks, takes the conflict with its own first
attempt for an answer, and waits without a limit.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlencode

from kubernetes.client import ApiClient
from urllib3 import Timeout
from urllib3.exceptions import HTTPError, LocationParseError

from milepost_backends.contract import BackendError, Misconfigured
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.configuration import Credentials, begin, configure
from milepost_backends.kubernetes.errors import ApiAnswer, NoAnswer, NotSent, transport_error

log = logging.getLogger("milepost.kubernetes")

WHOLE: Final = "application/json"
"""Requests an answer with the whole object, or a list of objects."""
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Requests only an object's metadata: a sixteenth of the client's work after a large PUT."""
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Requests only the metadata of each object in a list."""

_TIMEOUT: Final = 5.0
_MARGIN: Final = 0.5
"""The seconds that a thread may take beyond its socket's deadline."""
_THREADS: Final = 4
_OPENING_SECONDS: Final = 30.0
"""The seconds that opening may take, since a credential plugin may ask a server far away."""


class KubernetesClient:
    """A client for the API of one cluster, with its own connections.

    ``purpose`` is for the log. ``timeout`` (seconds) bounds the wait for each answer, ``opening`` that of `open`.
    """

    def __init__(
        self,
        address: KubernetesAddress,
        purpose: str,
        *,
        timeout: float = _TIMEOUT,
        opening: float = _OPENING_SECONDS,
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._opening = opening
        self.namespace = address.namespace or ""
        self.bytes_sent = 0
        self._purpose = purpose
        self._agent = f"milepost-server/{version('milepost-server-core')} ({purpose})"
        self._api: Any = None
        self._credentials: Credentials | None = None
        self._threads: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Read the configuration and the namespace; connections are made when they are needed. Idempotent.

        Raises `Misconfigured`, and `NotSent` if that takes too long, as with a credential plugin that hangs.
        """
        if self._api is not None:
            return
        try:
            async with asyncio.timeout(self._opening):
                api, namespace = await asyncio.wrap_future(begin(lambda: _configured(self.address)))
        except TimeoutError:
            raise NotSent(f"cannot configure the access to Kubernetes within {self._opening:g} s") from None
        self._api, self.namespace = api, namespace
        self._credentials = Credentials(api.configuration)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"kubernetes-{self._purpose}")
        log.info("%s use Kubernetes at %s, namespace %s", self._purpose, _place(api.configuration.host), self.namespace)

    async def close(self) -> None:
        """Close the connections. Idempotent. Requests that were sent still get their answers, if there are any."""
        api, self._api = self._api, None
        threads, self._threads = self._threads, None
        if api is not None:
            api.rest_client.pool_manager.clear()
        if threads is not None:
            threads.shutdown(wait=False)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        query: Mapping[str, str] | None = None,
        accept: str = WHOLE,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> ApiAnswer:
        """Send one request to ``path``, such as ``/api/v1/namespaces/…``, once; return the answer, whatever its status.

        The wait is bounded by ``timeout`` seconds, or by those of this client. If the waiting task is cancelled, a
        request that was passed to a thread is sent anyway. Raises `NotSent`, `NoAnswer`.
        """
        api, credentials, threads = self._api, self._credentials, self._threads
        if api is None or credentials is None or threads is None:
            raise NotSent("the connection to Kubernetes is not open")
        seconds = self.timeout if timeout is None else timeout
        headers = {"Accept": accept, "User-Agent": self._agent}
        if body is not None:
            headers["Content-Type"] = content_type
        target = path + (f"?{urlencode(query)}" if query else "")
        deadline = time.monotonic() + seconds
        job = threads.submit(_exchange, api, credentials, method, target, headers, body, deadline)
        self.bytes_sent += len(body or b"")
        try:
            async with asyncio.timeout(seconds + _MARGIN):
                return await asyncio.wrap_future(job)
        except TimeoutError as error:
            kind = NotSent if job.cancel() else NoAnswer
            raise kind(f"cannot {method} {path}: no answer within {seconds:g} s") from error
        except asyncio.CancelledError:
            job.cancel()
            raise


def _configured(address: KubernetesAddress) -> tuple[Any, str]:
    """Return the Kubernetes client and the namespace. Called in a thread. Raises `Misconfigured`."""
    doing = "cannot configure the access to Kubernetes"
    try:
        configuration, namespace = configure(address)
        configuration.connection_pool_maxsize = _THREADS
        return ApiClient(configuration), namespace
    except BackendError:
        raise
    except OSError as error:  # usually a certificate cannot be read
        raise Misconfigured(f"{doing}: {type(error).__name__}: {error}") from error
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything, and its message may hold a secret
        raise Misconfigured(f"{doing}: {type(error).__name__}") from None


def _exchange(
    api: Any,
    credentials: Credentials,
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes | None,
    deadline: float,
) -> ApiAnswer:
    """Send a request and return the answer, in a thread. Nothing is sent after ``deadline``.

    Raises `NotSent`, `NoAnswer`, `Misconfigured`, none of which quotes a header, nor has a cause that does.
    """
    doing = f"{method} {target.partition('?')[0]}"
    try:
        headers |= credentials.header(deadline)
    except NotSent as error:
        raise NotSent(f"cannot {doing}: {error}") from None
    left = deadline - time.monotonic()
    if left <= 0:
        raise NotSent(f"cannot {doing}: its deadline passed before it was sent")
    try:
        response = api.rest_client.pool_manager.request(
            method,
            api.configuration.host + target,
            headers=headers,
            body=body,
            timeout=Timeout(total=left),
            retries=False,
            redirect=False,
        )
    except LocationParseError:  # the exception quotes the address, which may contain a password
        raise Misconfigured(f"cannot {doing}: the address of the API server is not a valid URL") from None
    except HTTPError as error:
        raise transport_error(error, doing) from error
    except Exception as error:  # noqa: BLE001 - http.client's ValueErrors, say, repeat the header they complain of
        raise NoAnswer(f"cannot {doing}: {type(error).__name__}") from None
    return ApiAnswer.read(response.status, response.data)


def _place(url: str) -> str:
    """Return scheme, host and port of a URL, without user and password."""
    scheme, separator, rest = url.partition("://")
    host: str = re.split("[/?#]", (rest if separator else url).rpartition("@")[2])[0]
    return f"{scheme}://{host}" if separator else host
