"""Makes the clients of one bucket: boto3's, for configuration, credentials and most calls, and obstore's for the
bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import NoCredentialsError
from botocore.loaders import Loader, create_loader
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import S3Store

from milepost_backends.contract import Misconfigured, StorageRefused
from milepost_backends.s3.address import S3Address
from milepost_backends.s3.errors import translate_errors
from milepost_backends.waiting import run_in_executor

T = TypeVar("T")

_CONNECT_SECONDS = 5.0
# The seconds for which obstore uses credentials before it asks boto3 again. This must be less than ten minutes, the
# least time before their expiry at which boto3 renews credentials.
_CREDENTIALS_SECONDS = 300.0
_READ_RETRIES = 2
_ANY_SECONDS = 7 * 86400.0


class S3Connection:
    """The clients of the bucket at ``address``.

    Making this object blocks: it reads files, and may ask a metadata service for credentials. ``deadline`` bounds each
    exchange with the server in seconds. Raises `Misconfigured`, `StorageUnavailable`.
    """

    def __init__(self, address: S3Address, *, deadline: float, threads: int) -> None:
        self.bucket = address.bucket
        self.prefix = address.prefix
        self.deadline = deadline
        with translate_errors("set up the S3 client", bucket=address.bucket, set_up=True):
            core = botocore.session.get_session()
            core.register_component("data_loader", _models(core.get_config_variable("data_path")))
            session = boto3.Session(botocore_session=core)
            if session.get_credentials() is None:
                raise NoCredentialsError
            self.client = _client(session, address, deadline, attempts=3)
            self.client_once = _client(session, address, deadline, attempts=1)
            base = self._base_url()
            self._server = urlsplit(self.client.meta.endpoint_url).netloc.rpartition("@")[2]
            authority = _authority(core.get_config_variable("ca_bundle"))
        make = partial(_store, address.bucket, base, self.client.meta.region_name or "us-east-1", session, authority)
        # No retries: if a PUT is repeated, only `PendingBlob` can tell its own object from another writer's.
        self.writing: S3Store = make(timeout=deadline, retries=0, deadline=deadline)
        # No deadline for a whole read, since a client may read a large blob slowly; callers bound each step.
        self.reading: S3Store = make(timeout=_ANY_SECONDS, retries=_READ_RETRIES, deadline=deadline)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="s3")
        self._closed = False

    def close(self) -> None:
        """Refuse new calls from now on. Calls in flight may end."""
        self._closed = True
        self._threads.shutdown(wait=False)
        self.client.close()
        self.client_once.close()

    def translate_errors(self, doing: str, *, set_up: bool = False) -> AbstractContextManager[None]:
        """Translate the exceptions of the two clients, in a block, into errors of the contract.

        ``doing`` completes the message "cannot …"; ``set_up`` is true while the blob store is being opened.
        """
        return translate_errors(doing, bucket=self.bucket, set_up=set_up, server=self._server)

    async def act(self, doing: str, call: Callable[..., T], *arguments: object) -> T:
        """Make a blocking call in a thread, and return its result. If the task is cancelled, it first waits until the
        call ends.
        """
        self._check_open()
        with self.translate_errors(doing):
            return await run_in_executor(self._threads, call, *arguments)

    async def ask(self, doing: str, call: Callable[..., T], *, set_up: bool = False) -> T:
        """Make a blocking call that changes nothing in a thread, within the deadline, and return its result.

        If the waiting task is cancelled, it stops waiting at once, and the call continues in its thread. ``doing``
        completes the error message "cannot …"; ``set_up`` is true while the blob store is being opened.
        """
        self._check_open()
        with self.translate_errors(doing, set_up=set_up):
            async with asyncio.timeout(self.deadline):
                return await asyncio.wrap_future(self._threads.submit(call))

    def _check_open(self) -> None:
        if self._closed:
            raise StorageRefused("the blob store was closed")

    def _base_url(self) -> str:
        """Return the URL of the bucket, without a key, as boto3 makes it: in path style, or with a virtual host."""
        url: str = self.client.generate_presigned_url("get_object", Params={"Bucket": self.bucket, "Key": "key"})
        return url.partition("?")[0].removesuffix("/key")


@cache
def _models(path: str | None) -> Loader:
    """Return botocore's models of AWS services, also those in the directories ``path``.

    They are cached, since loading them takes a third of a second.
    """
    return create_loader(path)


def _authority(path: str | None) -> bytes | None:
    """Return the CA certificates in the file ``path``, which boto3 is configured to trust; None without a path.

    The path is that of AWS_CA_BUNDLE, or of ``ca_bundle`` in boto3's own configuration.
    """
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Misconfigured(f"cannot read the CA bundle {path}: {error.strerror}") from error


def _client(session: boto3.Session, address: S3Address, deadline: float, attempts: int) -> Any:
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": address.addressing_style} if address.addressing_style else None,
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=deadline,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        max_pool_connections=32,
        # Requests carry checksums in headers: many servers do not support boto3's default, a trailer.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        return session.client(
            "s3", endpoint_url=address.endpoint_url, region_name=address.region, config=config, use_ssl=True
        )
    except ValueError as error:  # the endpoint in the environment or a file is not a URL
        raise Misconfigured(f"cannot set up the S3 client: {error}") from error


def _store(
    bucket: str,
    base: str,
    region: str,
    session: boto3.Session,
    authority: bytes | None,
    *,
    timeout: float,
    retries: int,
    deadline: float,
) -> S3Store:
    return S3Store(
        bucket,
        # The virtual-hosted style says that the endpoint is the URL of the bucket. The endpoint is set under both its
        # names: obstore takes a missing one from the environment, even if boto3 is configured to ignore that.
        config={
            "endpoint": base,
            "aws_endpoint_url_s3": base,
            "virtual_hosted_style_request": True,
            "region": region,
            "checksum_algorithm": "SHA256",
            "disable_bulk_delete": True,
            "skip_signature": False,
        },
        client_options={
            "allow_http": base.startswith("http://"),
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "timeout": timedelta(seconds=timeout),
            **({"root_certificate": authority} if authority else {}),
        },
        retry_config={
            "max_retries": retries,
            "retry_timeout": timedelta(seconds=deadline),
            "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1), "base": 2},
        },
        credential_provider=Boto3CredentialProvider(session, ttl=timedelta(seconds=_CREDENTIALS_SECONDS)),
    )
