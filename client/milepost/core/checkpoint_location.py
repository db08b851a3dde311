"""Say how Spark reaches the files of a job: the URL of its checkpoint location, and the Hadoop settings for it.

Hadoop's own WebHDFS client, which Spark ships with, takes them all from a session's settings. What each setting is for,
and what goes wrong without it, is in docs/decisions/0045.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from milepost.core.calls.replicas import why_unusable
from milepost.types import FileCredential
from milepost.wire import job_epoch_header

NAME_SERVICE: Final = "milepost"
"""The authority of locations that several replicas serve."""
NAME_SERVICES: Final = "dfs.nameservices"
"""The setting that lists all name services that a session knows, other than Milepost's as well."""
HEADER: Final = "dfs.webhdfs.rest-csrf.custom-header"
CREDENTIAL: Final = "dfs.webhdfs.oauth2.credential"
"""The setting that holds a secret. Spark does not take its name for that of one, so whoever sets it has to hide it."""

_TOKEN_PROVIDER: Final = "org.apache.hadoop.hdfs.web.oauth2.ConfCredentialBasedAccessTokenProvider"
_PROVIDER: Final = "org.apache.hadoop.hdfs.server.namenode.ha.IPFailoverProxyProvider"
"""WebHDFS only wants that there is one. For ``hdfs:`` this one goes to the host itself, where a NameNode may be."""
_SCHEMES: Final = {"http": "webhdfs", "https": "swebhdfs"}
_PORTS: Final = {"http": 80, "https": 443}
_PORT: Final = re.compile(r":\d+\Z")
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"(?:{_LABEL}|(?:{_LABEL}\.)+(?![0-9]){_LABEL})\.?")
"""What Java takes for the name of a host: it has no underscore, and the last of several parts begins with a letter."""
_HOST_AND_PORT: Final = re.compile(r"(?:\[(?P<v6>[^][]+)\]|(?P<host>[^][:]+))(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True)
class CheckpointLocation:
    """Where a job's files are: ``url``, and the ``settings`` (Hadoop's names) under which one epoch may write them.

    The settings belong into the *session's* configuration before a query starts: executors get them with the query, and
    it keeps them. In the Hadoop configuration that all sessions share, two jobs of one application would mix. ``fence``
    are those of them that carry the epoch, or keep jobs apart. In `NAME_SERVICES` the session's other name services
    have to stay.
    """

    url: str
    settings: Mapping[str, str] = field(repr=False)
    fence: Mapping[str, str]


def checkpoint_location(
    urls: Sequence[str],
    store: str,
    epoch: int,
    *,
    authority: str | None = None,
    credential: FileCredential | None = None,
    token_url: str | None = None,
) -> CheckpointLocation:
    """Return the checkpoint location of the job ``store`` for the driver with this epoch.

    ``urls`` are the addresses of the service. Spark writes absolute paths into a checkpoint, so ``authority`` must be
    the same for the life of the job; `default_authority` is what it begins with. If it is not the address of the one
    server that there is, it becomes a name service: where it has a port, Hadoop goes by the host alone. So the
    authority stays when one server becomes several, or moves. Raises ValueError for an authority that Hadoop cannot
    use, and for addresses with which it cannot reach files: those of two schemes, or with a path.

    ``credential`` is what the service gave for that epoch, if it has tokens (`StateHandleStore.file_credential`). Every
    file system of Hadoop's gets itself a token with it, at ``token_url``: Hadoop knows a single address for that, by
    default the first of ``urls``. If it is the address of a server, the credential's path is added. The settings then
    hold a secret.
    """
    scheme = _scheme(urls)
    places = [_usable(_place(url), "an address of the service") for url in urls]
    host = _usable(authority or default_authority(urls), "the authority of a checkpoint location")
    fence = _fence(scheme, store, epoch)
    settings = fence | (_LONE if places == [host] else _name_service(scheme, host, places))
    if credential is not None:
        settings |= _tokens(credential, _with_path(token_url or urls[0], credential.token_path))
    return CheckpointLocation(f"{scheme}://{host}/jobs/{store}/checkpoint", settings, fence)


def default_authority(urls: Sequence[str]) -> str:
    """Return the authority of a job that begins: a name for several replicas, and host and port for one."""
    return NAME_SERVICE if len(urls) > 1 else _place(urls[0])


def _place(url: str) -> str:
    """Return host and port of an address. Without a port Hadoop would take that of a NameNode."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return host if parts.port is not None or host.endswith(":") else f"{host}:{_PORTS.get(parts.scheme, 80)}"


def _usable(authority: str, what: str) -> str:
    """Return what stands between ``//`` and a path, if Java finds a host in it. Raises ValueError."""
    parts = _HOST_AND_PORT.fullmatch(authority)
    if parts is None or not _is_host(parts["host"], parts["v6"]) or not 0 < int(parts["port"] or 1) < 65536:
        raise ValueError(
            f"{authority!r} cannot be {what}, because Hadoop finds no host in it: it takes a name of letters, digits, "
            "'-' and '.', or an IP address, and maybe ':' and a port"
        )
    return authority


def _is_host(host: str | None, v6: str | None) -> bool:
    if host is not None and _NAME.fullmatch(host):
        return True
    try:
        return ip_address(host or v6 or "").version == (4 if host is not None else 6)
    except ValueError:
        return False


def _with_path(url: str, path: str) -> str:
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}{path}"


def _scheme(urls: Sequence[str]) -> str:
    for url in urls:
        if urlsplit(url).scheme not in _SCHEMES:
            raise ValueError(why_unusable(url))
    schemes = {urlsplit(url).scheme for url in urls}
    if len(schemes) != 1:
        raise ValueError(f"all addresses of the service must begin with http, or all with https: {', '.join(urls)}")
    for url in urls:
        if path := urlsplit(url).path.strip("/"):
            raise ValueError(
                f"the address {_place(url)}/{path} has a path, and Hadoop finds files only at the root of an address: "
                "name the service by a host of its own"
            )
    return _SCHEMES[schemes.pop()]


def _fence(scheme: str, store: str, epoch: int) -> dict[str, str]:
    return {
        f"fs.{scheme}.impl.disable.cache": "true",
        "dfs.webhdfs.rest-csrf.enabled": "true",
        HEADER: job_epoch_header(store, epoch),
        "dfs.webhdfs.rest-csrf.methods-to-ignore": "NONE",
    }


def _tokens(credential: FileCredential, url: str) -> dict[str, str]:
    return {
        "dfs.webhdfs.oauth2.enabled": "true",
        "dfs.webhdfs.oauth2.access.token.provider": _TOKEN_PROVIDER,
        "dfs.webhdfs.oauth2.refresh.url": url,
        "dfs.webhdfs.oauth2.client.id": credential.client_id,
        CREDENTIAL: credential.client_secret,
    }


_LONE: Final = {"dfs.http.client.retry.policy.enabled": "true", "dfs.http.client.retry.policy.spec": "500,240"}
"""A server that is started again is waited for, half a second at a time, for two minutes.

A name service of one would not be waited for at all (docs/decisions/0087).
"""


def _name_service(scheme: str, authority: str, places: Sequence[str]) -> dict[str, str]:
    service = _PORT.sub("", authority)
    replicas = {f"r{number}": place for number, place in enumerate(places, 1)}
    address = "dfs.namenode.http-address" if scheme == "webhdfs" else "dfs.namenode.https-address"
    return {
        NAME_SERVICES: service,
        f"dfs.ha.namenodes.{service}": ",".join(replicas),
        **{f"{address}.{service}.{replica}": place for replica, place in replicas.items()},
        f"dfs.client.failover.proxy.provider.{service}": _PROVIDER,
        "dfs.http.client.failover.sleep.base.millis": "200",
        "dfs.http.client.failover.sleep.max.millis": "1000",
        "dfs.http.client.failover.max.attempts": "60",
        "dfs.http.client.retry.max.attempts": "40",
    }
