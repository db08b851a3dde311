"""Sends each request to the Kubernetes API once, in a thread, with a deadline, and reports its true outcome.

Configuration, tokens and the pool of connections are those of the Kubernetes client library, but this module sends the
requests itself. The library would send a PUT again when a connection breaks, return the conflict of that second PUT
with the first one as the answer, and wait without a limit.

The library also runs credential plugins and requests tokens without a time limit. So a separate thread makes these
calls, and requests fail in time if a plugin hangs. The hanging thread is a daemon, so that the process can end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from urllib3 import Timeout
from urllib3.exceptions import HTTPError, LocationParseError

from milepost_backends.contract import BackendError, Misconfigured
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.errors import ApiAnswer, NoAnswer, NotSent, transport_error
from milepost_backends.waiting import begin_in_thread

log = logging.getLogger("milepost.kubernetes")

T = TypeVar("T")

WHOLE: Final = "application/json"
"""The media type of an answer with the whole object, or with a list of whole objects."""
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The media type of an answer with only the object's metadata. After a large PUT it takes a sixteenth of the client's
processor time.
"""
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of an answer with only the metadata of each object in a list."""

_TIMEOUT: Final = 5.0
_MARGIN: Final = 0.5
"""The seconds that a thread may take beyond the deadline of its request."""
_THREADS: Final = 4
_OPENING_SECONDS: Final = 30.0
"""The time limit of `KubernetesClient.open` in seconds. It is long, since a credential plugin may ask a remote
server.
"""

_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_FALLBACK_NAMESPACE: Final = "default"

_FAILURES: Final = (config.ConfigException, yaml.YAMLError, OSError, ValueError, KeyError, TypeError)
"""The exceptions that reading a configuration may raise."""

_HUNG_SECONDS: Final = 30.0
_NAME: Final = "kubernetes-credentials"
_LEFT_BEHIND: Final = 32
"""The most hanging threads of this process. It is limited, since each may have started the process of a plugin."""


class KubernetesClient:
    """A client for the API of one Kubernetes cluster, with its own connections.

    ``purpose`` is for the log. ``timeout`` (seconds) bounds the wait for each answer, and ``opening`` (seconds) the
    call of `open`.
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
        """Read the configuration of the access to Kubernetes, and the namespace to work in. Idempotent.

        Connections are made later, when they are needed. Raises `Misconfigured`, and `NotSent` if the reading takes too
        long, as with a credential plugin that hangs.
        """
        if self._api is not None:
            return
        try:
            async with asyncio.timeout(self._opening):
                api, namespace = await asyncio.wrap_future(_begin(lambda: _configured(self.address)))
        except TimeoutError:
            raise NotSent(f"cannot configure the access to Kubernetes within {self._opening:g} s") from None
        self._api, self.namespace = api, namespace
        self._credentials = Credentials(api.configuration)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"kubernetes-{self._purpose}")
        log.info("%s use Kubernetes at %s, namespace %s", self._purpose, _place(api.configuration.host), self.namespace)

    async def close(self) -> None:
        """Close the connections that no request uses. Idempotent. Requests that were sent still get their answers."""
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

        ``accept`` is the ``Accept`` header, which chooses whole objects or only their metadata. ``timeout`` (seconds)
        overrides the time limit of this client. If the waiting task is cancelled, a request that was passed to a thread
        is sent anyway. Raises `NotSent`, `NoAnswer`.
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
    """Return a client of the Kubernetes library for ``address``, and the namespace in which Milepost works.

    Call this in a thread, since it reads files. Raises `Misconfigured`.
    """
    doing = "cannot configure the access to Kubernetes"
    try:
        configuration, namespace = _configure(address)
        configuration.connection_pool_maxsize = _THREADS
        return ApiClient(configuration), namespace
    except BackendError:
        raise
    except OSError as error:  # a certificate cannot be read, for example
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
    """Send a request and return the answer. Nothing is sent after ``deadline`` (monotonic).

    Call this in a thread, since it blocks. Raises `NotSent`, `NoAnswer`, `Misconfigured`. Neither such an error nor its
    cause quotes a header.
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
    except Exception as error:  # noqa: BLE001 - a ValueError of http.client, for example, quotes the header
        raise NoAnswer(f"cannot {doing}: {type(error).__name__}") from None
    return ApiAnswer.read(response.status, response.data)


def _place(url: str) -> str:
    """Return scheme, host and port of a URL, for error messages: without user and password."""
    scheme, separator, rest = url.partition("://")
    host: str = re.split("[/?#]", (rest if separator else url).rpartition("@")[2])[0]
    return f"{scheme}://{host}" if separator else host


def _configure(address: KubernetesAddress) -> tuple[Any, str]:
    """Return the configuration of the Kubernetes library for ``address``, and the namespace in which Milepost works.

    Call this in a thread, since it reads files. Raises `Misconfigured`.
    """
    configuration = Configuration()
    explicit = address.kubeconfig is not None or address.context is not None
    try:
        if _SERVICE_HOST in os.environ and not explicit:
            config.load_incluster_config(client_configuration=configuration)
            configuration.proxy = None  # the proxy in the environment is for hosts outside of the cluster
            namespace = address.namespace or _POD_NAMESPACE.read_text().strip()
        else:
            of_context = _load(address, configuration)
            namespace = address.namespace or of_context
    except _FAILURES as error:
        raise Misconfigured(f"cannot configure the access to Kubernetes: {type(error).__name__}: {error}") from error
    return configuration, namespace


def _authorization(configuration: Any) -> dict[str, str]:
    """Return the header that authenticates a request. Call this for each request, since it also refreshes tokens.

    Raises `NotSent`. Neither this error nor its cause quotes a token, since both are logged.
    """
    try:
        settings = configuration.auth_settings()
        header = {setting["key"]: setting["value"].strip() for setting in settings.values() if setting["value"]}
    except (config.ConfigException, OSError) as error:
        raise NotSent(f"no credentials: {type(error).__name__}: {error}") from None
    except Exception as error:  # noqa: BLE001 - foreign code refreshes the token, and may raise anything
        raise NotSent(f"no credentials: {type(error).__name__}") from None
    if not all(value.isascii() and value.isprintable() for value in header.values()):
        raise NotSent("no credentials: the token is not one line of printable ASCII")
    return header


def _load(address: KubernetesAddress, configuration: Any) -> str:
    """Load the kubeconfig that ``address`` names into ``configuration``, and return the namespace of its context."""
    file = None if address.kubeconfig is None else str(address.kubeconfig)
    config.load_kube_config(file, address.context, client_configuration=configuration, persist_config=False)
    contexts, active = config.list_kube_config_contexts(file)
    chosen = active
    if address.context is not None:
        chosen = next(context for context in contexts if context["name"] == address.context)
    return str(chosen["context"].get("namespace") or _FALLBACK_NAMESPACE)


class Credentials:
    """Gets the header that authenticates each request. One thread at a time gets it, for all requests that wait.

    A thread that takes longer than ``hung_after`` seconds is abandoned, and another one is started, so that requests
    succeed again once the credential plugin works.
    """

    def __init__(self, configuration: Any, *, hung_after: float = _HUNG_SECONDS) -> None:
        self._configuration = configuration
        self._hung_after = hung_after
        self._lock = Lock()
        self._asked: Future[dict[str, str]] | None = None
        self._since = 0.0

    def header(self, deadline: float) -> dict[str, str]:
        """Return the header that authenticates a request. Raises `NotSent`.

        This blocks until ``deadline`` (monotonic) at most.
        """
        try:
            return self._asking().result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise NotSent("no credentials: the credential plugin has not answered") from None

    def _asking(self) -> Future[dict[str, str]]:
        with self._lock:
            now = time.monotonic()
            if self._asked is None or self._asked.done() or now - self._since >= self._hung_after:
                self._asked, self._since = _begin(lambda: _authorization(self._configuration)), now
            return self._asked


def _begin(call: Callable[[], T]) -> Future[T]:
    """Run ``call`` in a new daemon thread, and return the future of its result.

    Raises `NotSent` if too many such threads already hang.
    """
    if sum(thread.name == _NAME for thread in threading.enumerate()) >= _LEFT_BEHIND:
        raise NotSent("no credentials: too many calls of the credential plugin hang")
    return begin_in_thread(call, _NAME)
